//! The current line of text: words, marks, links and code, with collapsed white space.
//!
//! A mark is written with its first character and omitted if it has none. Marks are therefore never
//! empty and have no white space on their inner side, which Markdown would not read as a mark.

use crate::element::Mark;
use crate::escape;

/// Maximum nesting of marks; deeper ones are ignored.
const MAX_DEPTH: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    Mark(Mark),
    /// A link with its target.
    Link(String),
}

#[derive(Debug)]
struct Open {
    span: Span,
    /// Whether the text contains its start.
    written: bool,
}

/// The text of an unfinished block.
#[derive(Debug)]
pub(crate) struct Inline {
    markdown: bool,
    /// Maximum bytes taken from one text.
    limit: usize,
    text: String,
    /// Whether white space is pending; it counts if text follows on the line.
    space: bool,
    /// Whether a line break is pending; it counts if text follows.
    breaks: bool,
    open: Vec<Open>,
    /// The end of the text and the mark closed at that position.
    closed: Option<(usize, Mark)>,
    /// Unfinished code.
    code: Option<String>,
    /// The targets of numbered links; `None` if links are written in full.
    links: Option<Links>,
}

/// The numbered links of a page.
#[derive(Debug, Default)]
struct Links {
    addresses: Vec<String>,
    bytes: usize,
}

impl Inline {
    pub(crate) fn new(markdown: bool, limit: usize, number_links: bool) -> Self {
        Self {
            links: (markdown && number_links).then(Links::default),
            markdown,
            limit,
            text: String::new(),
            space: false,
            breaks: false,
            open: Vec::new(),
            closed: None,
            code: None,
        }
    }

    /// Returns the targets of numbered links.
    pub(crate) fn take_links(&mut self) -> Vec<String> {
        let links = self.links.as_mut();
        links.map_or_else(Vec::new, |links| std::mem::take(&mut links.addresses))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.code.as_ref().is_none_or(|code| code.trim().is_empty())
    }

    /// Returns the length of the text in bytes.
    pub(crate) fn len(&self) -> usize {
        self.text.len() + self.code.as_ref().map_or(0, String::len)
    }

    /// Appends text with collapsed white space, without white space at line edges.
    pub(crate) fn push(&mut self, text: &str) {
        let mut words =
            text.split(|character: char| character.is_whitespace() || character.is_control());
        if let Some(first) = words.next() {
            self.push_word(first);
        }
        for word in words {
            self.push_space();
            self.push_word(word);
            if self.len() > self.limit {
                break;
            }
        }
    }

    pub(crate) fn push_space(&mut self) {
        match &mut self.code {
            Some(code) if !code.ends_with(' ') => code.push(' '),
            Some(_) => {}
            None => self.space = true,
        }
    }

    fn push_word(&mut self, word: &str) {
        if word.is_empty() {
            return;
        }
        if let Some(code) = &mut self.code {
            code.push_str(word);
            return;
        }
        self.begin();
        if self.markdown {
            escape::word(word, &mut self.text);
        } else {
            self.text.push_str(word);
        }
    }

    /// Writes pending breaks, spaces and marks.
    fn begin(&mut self) {
        if self.breaks && !self.text.is_empty() {
            self.text
                .push_str(if self.markdown { "\\\n" } else { "\n" });
        } else if self.space && !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push(' ');
        }
        self.breaks = false;
        self.space = false;
        for open in &mut self.open {
            if !open.written {
                open.written = true;
                match &open.span {
                    Span::Mark(mark) => match self.closed {
                        // `<b>a</b><b>c</b>` is one mark: Markdown does not read two adjacent ones.
                        Some((end, other)) if end == self.text.len() && other == *mark => {
                            self.text.truncate(end - sign(*mark).len());
                        }
                        _ => self.text.push_str(sign(*mark)),
                    },
                    Span::Link(address) if self.links.is_some() => {
                        if let Some(links) = &mut self.links {
                            let number = links.addresses.len();
                            self.text.push_str(&format!("【{number}†"));
                            links.bytes += address.len();
                            links.addresses.push(address.clone());
                        }
                    }
                    Span::Link(_) => {
                        if self.text.ends_with('!') {
                            self.text.insert(self.text.len() - 1, '\\');
                        }
                        self.text.push('[');
                    }
                }
            }
        }
        self.closed = None;
    }

    pub(crate) fn break_line(&mut self) {
        match &mut self.code {
            Some(_) => self.push_space(),
            None => self.breaks = true,
        }
    }

    pub(crate) fn open(&mut self, span: Span) {
        if !self.markdown || self.code.is_some() || self.open.len() >= MAX_DEPTH {
            return;
        }
        let full = |links: &Links| links.bytes > self.limit;
        if matches!(span, Span::Link(_)) && self.links.as_ref().is_some_and(full) {
            return;
        }
        let doubled = self.open.iter().any(|open| open.span == span);
        if !doubled {
            let written = false;
            self.open.push(Open { span, written });
        }
    }

    /// Closes the innermost open span that matches, with its open contents.
    pub(crate) fn close(&mut self, is: impl Fn(&Span) -> bool) {
        if self.code.is_some() {
            return;
        }
        if let Some(at) = self.open.iter().rposition(|open| is(&open.span)) {
            for open in self.open.split_off(at).into_iter().rev() {
                self.end(open);
            }
        }
    }

    fn end(&mut self, open: Open) {
        if !open.written {
            return;
        }
        match open.span {
            Span::Mark(mark) => {
                self.text.push_str(sign(mark));
                self.closed = Some((self.text.len(), mark));
            }
            Span::Link(_) if self.links.is_some() => self.text.push('】'),
            Span::Link(address) => {
                self.text.push_str("](");
                self.text.push_str(&address);
                self.text.push(')');
            }
        }
    }

    pub(crate) fn open_code(&mut self) {
        if self.markdown && self.code.is_none() {
            self.code = Some(String::new());
        }
    }

    /// Ends the code; in a cell, code with a bar and backslash becomes text.
    pub(crate) fn close_code(&mut self, in_cell: bool) {
        let Some(code) = self.code.take() else {
            return;
        };
        if code.starts_with(' ') {
            self.space = true;
        }
        let inner = code.trim();
        if !inner.is_empty() {
            if in_cell && inner.contains('|') && inner.contains('\\') {
                self.push(inner);
            } else {
                self.begin();
                escape::code(inner, &mut self.text);
            }
        }
        if code.ends_with(' ') {
            self.space = true;
        }
    }

    pub(crate) fn image(&mut self, alt: &str, source: Option<&str>) {
        match source {
            Some(source) if self.markdown && self.code.is_none() && self.links.is_none() => {
                self.begin();
                self.text.push_str("![");
                let mut words = alt.split_whitespace();
                if let Some(word) = words.next() {
                    escape::word(word, &mut self.text);
                }
                for word in words {
                    self.text.push(' ');
                    escape::word(word, &mut self.text);
                }
                self.text.push_str("](");
                self.text.push_str(source);
                self.text.push(')');
            }
            _ => self.push(alt),
        }
    }

    /// Takes the text and closes every span with content.
    ///
    /// Spans without content stay open for the next block.
    pub(crate) fn take(&mut self, in_cell: bool) -> String {
        self.close_code(in_cell);
        self.breaks = false;
        self.space = false;
        let first = self.open.iter().position(|open| open.written);
        if let Some(first) = first {
            for open in self.open.split_off(first).into_iter().rev() {
                self.end(open);
            }
        }
        self.closed = None;
        std::mem::take(&mut self.text)
    }
}

fn sign(mark: Mark) -> &'static str {
    match mark {
        Mark::Emphasis => "*",
        Mark::Strong => "**",
        Mark::Strike => "~~",
    }
}
