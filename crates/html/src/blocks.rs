//! The output: blocks on lines, inside quotes and list items, up to a limit.

use crate::escape;

/// Quotes and items that are open within each other; further ones add no indentation.
const DEEPEST: usize = 16;

/// What indents the lines of the blocks in it.
#[derive(Debug)]
enum Container {
    Quote,
    List {
        /// The number of the next item.
        next: Option<u64>,
    },
    Item {
        marker: String,
        /// Whether the marker stands in the output already.
        written: bool,
    },
}

/// What stands between two blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Gap {
    /// A line end.
    Line,
    /// An empty line.
    Blank,
}

/// Which containers an end tag means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closes {
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
    /// Containers that were opened beyond the deepest.
    beyond: usize,
    /// How many containers the last block and the next one share.
    shared: usize,
    gap: Gap,
    /// Whether the outermost list has shown an item: then the next one follows on the next line.
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
            gap: Gap::Line,
            in_list: false,
        }
    }

    /// Bytes that may still come.
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

    /// Opens an item of the innermost list; the item before it ends here.
    pub(crate) fn open_item(&mut self) {
        let list = self.innermost_list();
        if let Some(Container::Item { .. }) = list.and_then(|at| self.containers.get(at + 1))
            && self.beyond == 0
        {
            self.truncate(list.map_or(0, |at| at + 1));
        }
        // An item in no list ends the one before it too.
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
        if self.containers.len() < DEEPEST {
            self.containers.push(container);
        } else {
            self.beyond = self.beyond.saturating_add(1);
        }
    }

    /// Closes the innermost container of a kind and what is open within it.
    pub(crate) fn close(&mut self, kind: Closes) {
        if self.beyond > 0 {
            self.beyond -= 1;
            return;
        }
        let is = |container: &Container| {
            matches!(
                (kind, container),
                (Closes::Quote, Container::Quote)
                    | (Closes::List, Container::List { .. })
                    | (Closes::Item, Container::Item { .. })
            )
        };
        // An item's end does not reach out of its list.
        let reach = match kind {
            Closes::Item => self.innermost_list().unwrap_or(0),
            Closes::Quote | Closes::List => 0,
        };
        let found = self.containers.iter().rposition(is);
        if let Some(at) = found.filter(|at| *at >= reach) {
            self.truncate(at);
        }
        if kind == Closes::List && !self.in_some_list() {
            self.in_list = false;
            self.gap = Gap::Blank;
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

    /// Says that the next block keeps this distance at least.
    pub(crate) fn keep(&mut self, gap: Gap) {
        self.gap = self.gap.max(gap);
    }

    /// A paragraph: its lines are text and marks.
    pub(crate) fn paragraph(&mut self, text: &str) {
        if self.markdown {
            self.keep(Gap::Blank);
            self.write(text.split('\n').map(escape::line_start));
        } else {
            self.write(text.split('\n').map(str::to_owned));
        }
    }

    pub(crate) fn heading(&mut self, level: u8, text: &str) {
        self.keep(Gap::Blank);
        let line = if self.markdown {
            let marks = "#".repeat(usize::from(level));
            // A heading's own closing marks would be cut off.
            match text.strip_suffix('#') {
                Some(before) => format!("{marks} {before}\\#"),
                None => format!("{marks} {text}"),
            }
        } else {
            text.to_owned()
        };
        self.write(std::iter::once(line));
        self.keep(Gap::Blank);
    }

    pub(crate) fn rule(&mut self) {
        self.keep(Gap::Blank);
        // At the beginning it would look like a header.
        if self.markdown && !self.out.is_empty() {
            self.write(std::iter::once("---".to_owned()));
            self.keep(Gap::Blank);
        }
    }

    /// Lines as they are, in a fence.
    pub(crate) fn code(&mut self, text: &str, language: &str) {
        self.keep(Gap::Blank);
        if self.markdown {
            let fence = "`".repeat(3.max(escape::longest_run(text) + 1));
            let first = std::iter::once(format!("{fence}{language}"));
            let lines = text.split('\n').map(str::to_owned);
            self.write(first.chain(lines).chain(std::iter::once(fence.clone())));
        } else {
            self.write(text.split('\n').map(str::to_owned));
        }
        self.keep(Gap::Blank);
    }

    /// Lines that are whole already, as those of a table.
    pub(crate) fn lines(&mut self, lines: impl Iterator<Item = String>) {
        self.keep(Gap::Blank);
        self.write(lines);
        self.keep(Gap::Blank);
    }

    fn write(&mut self, lines: impl Iterator<Item = String>) {
        let begins_item = self
            .containers
            .iter()
            .any(|container| matches!(container, Container::Item { written, .. } if !*written));
        if !self.out.is_empty() {
            let tight = begins_item && self.in_list;
            self.out.push('\n');
            if self.gap == Gap::Blank && !tight {
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
        self.gap = Gap::Line;
    }

    /// What stands before the first line of a block: it shows the markers that wait.
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

    /// What stands before the other lines, of the outermost containers.
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

    /// The output, and whether the limit cut it.
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
