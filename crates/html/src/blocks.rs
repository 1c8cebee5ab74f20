//! The output: blocks on lines, inside quotes and list items, up to a limit.

use crate::escape;

/// Maximum nesting of quotes and items; deeper ones add no indentation.
const MAX_DEPTH: usize = 16;

/// An open element that indents its lines.
#[derive(Debug)]
enum Container {
    Quote,
    List {
        /// The number of the next item.
        next: Option<u64>,
    },
    Item {
        marker: String,
        /// Whether the output contains the marker.
        written: bool,
    },
}

/// The separator between two blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Separator {
    /// A line end.
    Line,
    /// An empty line.
    Blank,
}

/// The container that an end tag closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContainerKind {
    Quote,
    List,
    Item,
}

#[derive(Debug)]
pub(crate) struct Blocks {
    markdown: bool,
    out: String,
    limit: usize,
    cut: bool,
    containers: Vec<Container>,
    /// Open containers beyond the maximum nesting.
    beyond: usize,
    /// The number of containers that the last and the next block share.
    shared: usize,
    gap: Separator,
    /// Whether the outermost list has an item; the next item then needs no blank line.
    in_list: bool,
}

impl Blocks {
    pub(crate) fn new(markdown: bool, limit: usize) -> Self {
        Self {
            markdown,
            out: String::new(),
            limit,
            cut: false,
            containers: Vec::new(),
            beyond: 0,
            shared: 0,
            gap: Separator::Line,
            in_list: false,
        }
    }

    /// Returns the remaining bytes.
    pub(crate) fn room(&self) -> usize {
        self.limit.saturating_sub(self.out.len())
    }

    pub(crate) fn open_quote(&mut self) {
        self.open(Container::Quote);
    }

    pub(crate) fn open_list(&mut self, first: Option<u64>) {
        self.in_list &= self.in_some_list();
        self.open(Container::List { next: first });
    }

    /// Opens an item of the innermost list and closes the previous item.
    pub(crate) fn open_item(&mut self) {
        let list = self.innermost_list();
        if let Some(Container::Item { .. }) = list.and_then(|at| self.containers.get(at + 1))
            && self.beyond == 0
        {
            self.truncate(list.map_or(0, |at| at + 1));
        }
        // An item outside a list also closes the previous item.
        let is_item = |container: &Container| matches!(container, Container::Item { .. });
        if list.is_none()
            && let Some(at) = self.containers.iter().position(is_item)
        {
            self.truncate(at);
        }
        let number = match self.containers.last_mut() {
            Some(Container::List { next: Some(number) }) => {
                let this = *number;
                *number = number.saturating_add(1);
                Some(this)
            }
            _ => None,
        };
        let marker = match number {
            Some(number) => format!("{number}. "),
            None => "- ".to_owned(),
        };
        let written = false;
        self.open(Container::Item { marker, written });
    }

    fn open(&mut self, container: Container) {
        if self.containers.len() < MAX_DEPTH {
            self.containers.push(container);
        } else {
            self.beyond = self.beyond.saturating_add(1);
        }
    }

    /// Closes the innermost container of a kind, with its open contents.
    pub(crate) fn close(&mut self, kind: ContainerKind) {
        if self.beyond > 0 {
            self.beyond -= 1;
            return;
        }
        let is = |container: &Container| {
            matches!(
                (kind, container),
                (ContainerKind::Quote, Container::Quote)
                    | (ContainerKind::List, Container::List { .. })
                    | (ContainerKind::Item, Container::Item { .. })
            )
        };
        // The end of an item does not close its list.
        let reach = match kind {
            ContainerKind::Item => self.innermost_list().unwrap_or(0),
            ContainerKind::Quote | ContainerKind::List => 0,
        };
        let found = self.containers.iter().rposition(is);
        if let Some(at) = found.filter(|at| *at >= reach) {
            self.truncate(at);
        }
        if kind == ContainerKind::List && !self.in_some_list() {
            self.in_list = false;
            self.gap = Separator::Blank;
        }
    }

    fn truncate(&mut self, length: usize) {
        self.containers.truncate(length);
        self.shared = self.shared.min(length);
    }

    fn innermost_list(&self) -> Option<usize> {
        self.containers
            .iter()
            .rposition(|container| matches!(container, Container::List { .. }))
    }

    fn in_some_list(&self) -> bool {
        self.innermost_list().is_some()
    }

    /// Requires at least this separator before the next block.
    pub(crate) fn require(&mut self, gap: Separator) {
        self.gap = self.gap.max(gap);
    }

    /// Writes a paragraph of text and marks.
    pub(crate) fn paragraph(&mut self, text: &str) {
        if self.markdown {
            self.require(Separator::Blank);
            self.write(text.split('\n').map(escape::line_start));
        } else {
            self.write(text.split('\n').map(str::to_owned));
        }
    }

    pub(crate) fn heading(&mut self, level: u8, text: &str) {
        self.require(Separator::Blank);
        let line = if self.markdown {
            let marks = "#".repeat(usize::from(level));
            // Markdown removes closing marks of a heading.
            match text.strip_suffix('#') {
                Some(before) => format!("{marks} {before}\\#"),
                None => format!("{marks} {text}"),
            }
        } else {
            text.to_owned()
        };
        self.write(std::iter::once(line));
        self.require(Separator::Blank);
    }

    pub(crate) fn rule(&mut self) {
        self.require(Separator::Blank);
        // At the start of the output a rule would look like a header.
        if self.markdown && !self.out.is_empty() {
            self.write(std::iter::once("---".to_owned()));
            self.require(Separator::Blank);
        }
    }

    /// Writes unchanged lines in a fence.
    pub(crate) fn code(&mut self, text: &str, language: &str) {
        self.require(Separator::Blank);
        if self.markdown {
            let fence = "`".repeat(3.max(escape::longest_run(text) + 1));
            let first = std::iter::once(format!("{fence}{language}"));
            let lines = text.split('\n').map(str::to_owned);
            self.write(first.chain(lines).chain(std::iter::once(fence.clone())));
        } else {
            self.write(text.split('\n').map(str::to_owned));
        }
        self.require(Separator::Blank);
    }

    /// Writes complete lines, such as those of a table.
    pub(crate) fn lines(&mut self, lines: impl Iterator<Item = String>) {
        self.require(Separator::Blank);
        self.write(lines);
        self.require(Separator::Blank);
    }

    fn write(&mut self, lines: impl Iterator<Item = String>) {
        let begins_item = self
            .containers
            .iter()
            .any(|container| matches!(container, Container::Item { written, .. } if !*written));
        if !self.out.is_empty() {
            let tight = begins_item && self.in_list;
            self.out.push('\n');
            if self.gap == Separator::Blank && !tight {
                let mut blank = self.prefix(self.shared);
                blank.truncate(blank.trim_end().len());
                self.out.push_str(&blank);
                self.out.push('\n');
            }
        }
        self.in_list = self.in_some_list();
        let mut prefix = String::new();
        for (at, line) in lines.enumerate() {
            if at == 0 {
                let first = self.first_prefix();
                self.out.push_str(&first);
                prefix = self.prefix(self.containers.len());
            } else {
                self.out.push('\n');
                self.out.push_str(if line.is_empty() {
                    prefix.trim_end()
                } else {
                    &prefix
                });
            }
            self.out.push_str(&line);
            if self.out.len() > self.limit {
                self.cut = true;
                break;
            }
        }
        self.shared = self.containers.len();
        self.gap = Separator::Line;
    }

    /// Returns the prefix of the first line of a block, with pending markers.
    fn first_prefix(&mut self) -> String {
        let mut prefix = String::new();
        for container in &mut self.containers {
            match container {
                Container::Quote if self.markdown => prefix.push_str("> "),
                Container::Quote | Container::List { .. } => {}
                Container::Item { marker, written } => {
                    if *written {
                        prefix.push_str(&" ".repeat(marker.len()));
                    } else {
                        prefix.push_str(marker);
                        *written = true;
                    }
                }
            }
        }
        prefix
    }

    /// Returns the prefix of the other lines for the outermost containers.
    fn prefix(&self, containers: usize) -> String {
        let mut prefix = String::new();
        for container in self.containers.iter().take(containers) {
            match container {
                Container::Quote if self.markdown => prefix.push_str("> "),
                Container::Quote | Container::List { .. } => {}
                Container::Item { marker, .. } => prefix.push_str(&" ".repeat(marker.len())),
            }
        }
        prefix
    }

    /// Returns the output and whether the limit cut it.
    pub(crate) fn finish(mut self) -> (String, bool) {
        if self.out.len() > self.limit {
            self.cut = true;
            let end = (0..=self.limit)
                .rev()
                .find(|at| self.out.is_char_boundary(*at));
            self.out.truncate(end.unwrap_or(0));
        }
        self.out.truncate(self.out.trim_end().len());
        (self.out, self.cut)
    }
}
