//! Markdown for a terminal, as it arrives.
//!
//! Text goes in, and complete words come out. A word is never changed after that, so the output can be
//! appended to a terminal of any kind. Paragraphs, headings and items are filled word by word; code is
//! written line by line; a table is written when it ends.

mod code;
mod highlight;
mod inline;
mod line;
mod style;
mod table;
mod wrap;

use unicode_width::UnicodeWidthStr as _;

pub(crate) use self::style::Look;

use self::code::{CodeBlock, Fence, write_code};
use self::inline::{MAX_SEGMENT, is_closed, spans};
use self::line::{Line, LineKind, classify};
use self::style::{Span, Style, paint};
use self::table::{is_rule, table};
use self::wrap::{Wrapper, may_break_between};

/// The columns of a rule at most.
const RULE: usize = 40;

/// The maximum bytes of a table; a larger one is written in parts.
const MAX_TABLE: usize = 64 * 1024;

/// Renders one text.
#[derive(Debug)]
pub(crate) struct Renderer {
    look: Look,
    /// The source line that is not complete.
    line: String,
    /// The bytes of the line that its block contains; `None` if its kind is unknown.
    fed: Option<usize>,
    block: Block,
    /// The quotes of the blank line before the next block, if any.
    blank: Option<usize>,
    /// Whether a line was written.
    has_output: bool,
    /// The column of the text of the last item; zero outside of lists.
    hang: usize,
}

#[derive(Debug)]
enum Block {
    None,
    Text(Box<TextBlock>),
    Code(CodeBlock),
    Table(TableBlock),
}

/// A paragraph, or the text of an item or a heading.
#[derive(Debug)]
struct TextBlock {
    wrapper: Wrapper,
    style: Style,
    prefix: String,
    quotes: usize,
    kind: TextKind,
    /// The text whose marks are not closed.
    pending: String,
    /// The character before it.
    before: char,
    /// Whether it has text other than white space.
    has_text: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextKind {
    Paragraph,
    Item,
    Heading,
}

#[derive(Debug)]
struct TableBlock {
    prefix: String,
    quotes: usize,
    rows: Vec<String>,
    bytes: usize,
}

impl Renderer {
    pub(crate) fn new(look: Look) -> Self {
        Self {
            look,
            line: String::new(),
            fed: None,
            block: Block::None,
            blank: None,
            has_output: false,
            hang: 0,
        }
    }

    /// Adds text without control sequences; returns the words that are complete now.
    pub(crate) fn push(&mut self, text: &str, width: usize) -> String {
        let mut out = String::new();
        for piece in text.split_inclusive('\n') {
            if let Some(end) = piece.strip_suffix('\n') {
                self.line.push_str(end);
                self.complete(width, &mut out);
            } else {
                self.line.push_str(piece);
                self.begin(width, &mut out);
            }
        }
        self.has_output |= !out.is_empty();
        out
    }

    /// Ends a line whose words were returned, before other output; returns the end.
    pub(crate) fn interrupt(&mut self) -> String {
        let mut out = String::new();
        if let Block::Text(text) = &mut self.block {
            text.wrapper.interrupt(&mut out);
        }
        out
    }

    /// Ends the text; returns the remaining lines.
    pub(crate) fn finish(&mut self, width: usize) -> String {
        let mut out = String::new();
        if !self.line.is_empty() {
            self.complete(width, &mut out);
        }
        self.end_block(width, &mut out);
        out
    }

    /// Adds what an incomplete line has so far, if it is text.
    fn begin(&mut self, width: usize, out: &mut String) {
        if matches!(self.block, Block::Code(_) | Block::Table(_)) {
            return;
        }
        let line = std::mem::take(&mut self.line);
        if self.fed.is_none()
            && let Some(found) = self.found(&line, false)
            && !self.is_code_by_indent(&found)
        {
            self.fed = Some(found.start);
            self.open(&found, width, out);
        }
        if let (Some(fed), Block::Text(block)) = (self.fed, &mut self.block) {
            // These may be a break, or the end of a heading.
            let marks: &[char] = match block.kind {
                TextKind::Heading => &[' ', '\\', '#'],
                _ => &[' ', '\\'],
            };
            let end = line.trim_end_matches(marks).len().max(fed);
            // One space ends the word in any case.
            let end = end + usize::from(line.get(end..).is_some_and(|rest| rest.starts_with(' ')));
            let text = line.get(fed..end).unwrap_or_default();
            block.feed(text, self.look, width, out);
            self.fed = Some(end);
        }
        self.line = line;
    }

    fn complete(&mut self, width: usize, out: &mut String) {
        let line = std::mem::take(&mut self.line);
        if let Some(fed) = self.fed.take() {
            self.end_text_line(&line, fed, width, out);
            return;
        }
        if let Block::Code(code) = &mut self.block {
            if code.line(&line, width, self.look, out) {
                self.block = Block::None;
            }
            return;
        }
        let Some(found) = self.found(&line, true) else {
            return;
        };
        if matches!(self.block, Block::Table(_)) {
            if self.continue_table(&found, &line, width, out) {
                return;
            }
            self.end_block(width, out);
        }
        let content = line.get(found.start..).unwrap_or_default();
        let indent = if self.hang > 0 { found.indent } else { 0 };
        match &found.kind {
            LineKind::Blank => {
                self.end_block(width, out);
                self.blank = Some(found.quotes);
            }
            LineKind::Underline | LineKind::Rule { is_dashes: true } if self.underlines(&found) => {
                self.underline(content, width, out);
            }
            LineKind::Rule { .. } => {
                self.separate(found.quotes, width, out);
                self.hang = 0;
                let prefix = self.quoted(found.quotes);
                let columns = width.saturating_sub(2 * found.quotes).min(RULE);
                self.paint(&format!("{prefix}{}", "─".repeat(columns)), Style::DIM, out);
                out.push('\n');
            }
            LineKind::Fence { mark } => {
                self.separate(found.quotes, width, out);
                let prefix = format!("{}{}", self.quoted(found.quotes), " ".repeat(indent));
                let fence = Fence {
                    mark,
                    info: content.get(mark.len()..).unwrap_or_default(),
                    quotes: found.quotes,
                    indent: found.indent,
                };
                self.block = Block::Code(CodeBlock::begin(&fence, prefix, self.look, out));
            }
            LineKind::TableRow => {
                self.separate(found.quotes, width, out);
                self.block = Block::Table(TableBlock {
                    prefix: format!("{}{}", self.quoted(found.quotes), " ".repeat(indent)),
                    quotes: found.quotes,
                    rows: vec![content.to_owned()],
                    bytes: content.len(),
                });
            }
            LineKind::Text if self.is_code_by_indent(&found) => {
                self.separate(found.quotes, width, out);
                let code = format!("{}{content}", " ".repeat(found.indent));
                write_code(&[Span::new(code, Style::PLAIN)], "", width, self.look, out);
            }
            _ => {
                self.open(&found, width, out);
                self.end_text_line(&line, found.start, width, out);
            }
        }
    }

    /// Returns the kind of the next line; `None` if its rest may change it.
    fn found(&self, line: &str, is_complete: bool) -> Option<Line> {
        let mut found = classify(line, is_complete)?;
        // A number in a paragraph begins a list only if it is 1.
        if let LineKind::Item { marker, .. } = &found.kind
            && marker.starts_with(|one: char| one.is_ascii_digit())
            && !matches!(marker.as_str(), "1." | "1)")
            && self.hang == 0
            && matches!(self.block, Block::Text(_))
        {
            let content = line.trim_start_matches([' ', '\t', '>']);
            found.start = line.len() - content.len();
            found.kind = LineKind::Text;
        }
        Some(found)
    }

    /// Adds a row to the table; returns whether the line is one.
    fn continue_table(&mut self, found: &Line, line: &str, width: usize, out: &mut String) -> bool {
        let Block::Table(table) = &mut self.block else {
            return false;
        };
        let content = line.get(found.start..).unwrap_or_default();
        let is_row = found.kind == LineKind::TableRow && found.quotes == table.quotes;
        if !is_row || (table.rows.len() == 1 && !is_rule(content)) {
            return false;
        }
        table.bytes += line.len();
        table.rows.push(content.to_owned());
        if table.bytes > MAX_TABLE {
            table.write(width, self.look, out);
        }
        true
    }

    /// Returns whether a line underlines the paragraph before it.
    fn underlines(&self, line: &Line) -> bool {
        matches!(&self.block, Block::Text(text)
            if text.kind == TextKind::Paragraph && text.quotes == line.quotes && text.has_text)
            && line.indent < 4
    }

    /// Ends a paragraph as a heading.
    ///
    /// Its words were written before the line that makes it one, so only the line is drawn.
    fn underline(&mut self, source: &str, width: usize, out: &mut String) {
        let Block::Text(mut text) = std::mem::replace(&mut self.block, Block::None) else {
            return;
        };
        text.end(self.look, width, out);
        text.wrapper.finish(width, out);
        let line = if self.look.has_styles {
            let mark = if source.starts_with('=') {
                "═"
            } else {
                "─"
            };
            mark.repeat(text.wrapper.widest().clamp(1, width))
        } else {
            source.trim_end().to_owned()
        };
        self.paint(&format!("{}{line}", text.prefix), Style::DIM, out);
        out.push('\n');
    }

    /// Returns whether a line is code because of its indentation.
    fn is_code_by_indent(&self, line: &Line) -> bool {
        line.kind == LineKind::Text
            && line.indent >= 4
            && self.hang == 0
            && line.quotes == 0
            && !matches!(self.block, Block::Text(_))
    }

    /// Begins the block of a line, or continues the paragraph.
    fn open(&mut self, line: &Line, width: usize, out: &mut String) {
        let is_text = matches!(line.kind, LineKind::Text | LineKind::Underline);
        if is_text
            && let Block::Text(text) = &self.block
            && line.quotes <= text.quotes
        {
            return;
        }
        self.separate(line.quotes, width, out);
        let quotes = self.quoted(line.quotes);
        let (first, rest, style, kind) = match &line.kind {
            LineKind::Item { marker, task } => {
                let indent = " ".repeat(line.indent.min(width / 4));
                let marker = self.marker(marker, *task);
                let hang = " ".repeat(marker.width() + 1);
                self.hang = line.indent + hang.len();
                let first = format!("{quotes}{indent}{marker} ");
                let rest = format!("{quotes}{indent}{hang}");
                (first, rest, Style::PLAIN, TextKind::Item)
            }
            LineKind::Heading { level } => {
                self.hang = 0;
                let marks = if self.look.has_styles {
                    String::new()
                } else {
                    format!("{} ", "#".repeat(*level))
                };
                let first = format!("{quotes}{marks}");
                let rest = format!("{quotes}{}", " ".repeat(marks.len()));
                (first, rest, Style::BOLD, TextKind::Heading)
            }
            _ => {
                if line.indent == 0 {
                    self.hang = 0;
                }
                let indent = " ".repeat(line.indent.min(self.hang).min(width / 4));
                let prefix = format!("{quotes}{indent}");
                (prefix.clone(), prefix, Style::PLAIN, TextKind::Paragraph)
            }
        };
        self.block = Block::Text(Box::new(TextBlock {
            wrapper: Wrapper::new(self.look, first, rest.clone()),
            style,
            prefix: rest,
            quotes: line.quotes,
            kind,
            pending: String::new(),
            before: ' ',
            has_text: false,
        }));
    }

    /// Returns the text before an item.
    fn marker(&self, marker: &str, task: Option<bool>) -> String {
        let is_bullet = matches!(marker, "-" | "*" | "+");
        match (self.look.has_styles, task) {
            (true, Some(true)) => "☑".to_owned(),
            (true, Some(false)) => "☐".to_owned(),
            (true, None) if is_bullet => "•".to_owned(),
            (_, None) => marker.to_owned(),
            (false, Some(true)) => format!("{marker} [x]"),
            (false, Some(false)) => format!("{marker} [ ]"),
        }
    }

    /// Adds a line to the paragraph, without its first `fed` bytes.
    fn end_text_line(&mut self, line: &str, fed: usize, width: usize, out: &mut String) {
        let Block::Text(block) = &mut self.block else {
            return;
        };
        let text = line.get(fed..).unwrap_or_default();
        if block.kind == TextKind::Heading {
            let marks = text.trim_end();
            let content = marks.trim_end_matches('#');
            // Marks after a space end the heading; others are its text.
            let has_space =
                content.is_empty() && line.get(..fed).is_some_and(|fed| fed.ends_with(' '));
            let is_end = self.look.has_styles && (content.ends_with(' ') || has_space);
            let text = if is_end { content } else { marks };
            block.feed(text.trim_end(), self.look, width, out);
            self.end_block(width, out);
            return;
        }
        let has_text = block.has_text || !text.trim().is_empty();
        let is_break = has_text && (line.ends_with("  ") || line.ends_with('\\'));
        let text = text.trim_end_matches(['\\', ' ']);
        block.feed(text, self.look, width, out);
        if is_break {
            block.feed(" ", self.look, width, out);
            block.end(self.look, width, out);
            block.wrapper.end_line_after_word(width, out);
        } else {
            block.feed("\n", self.look, width, out);
        }
    }

    /// Ends the block and writes the blank line before the next one.
    fn separate(&mut self, quotes: usize, width: usize, out: &mut String) {
        self.end_block(width, out);
        if let Some(blank) = self.blank.take()
            && (self.has_output || !out.is_empty())
        {
            let prefix = self.quoted(blank.min(quotes));
            self.paint(prefix.trim_end(), Style::DIM, out);
            out.push('\n');
        }
    }

    fn end_block(&mut self, width: usize, out: &mut String) {
        match std::mem::replace(&mut self.block, Block::None) {
            Block::Text(mut text) => {
                text.end(self.look, width, out);
                text.wrapper.finish(width, out);
            }
            Block::Table(mut table) => table.write(width, self.look, out),
            Block::None | Block::Code(_) => {}
        }
    }

    fn quoted(&self, quotes: usize) -> String {
        let mark = if self.look.has_styles { "│ " } else { "> " };
        mark.repeat(quotes.min(8))
    }

    fn paint(&self, text: &str, style: Style, out: &mut String) {
        paint(out, &Span::new(text, style), self.look);
    }
}

impl TextBlock {
    /// Adds text, and writes it up to a break if its marks are closed.
    fn feed(&mut self, text: &str, look: Look, width: usize, out: &mut String) {
        self.has_text |= !text.trim().is_empty();
        for character in text.chars() {
            let last = self.pending.chars().next_back().unwrap_or(' ');
            if !last.is_whitespace() && may_break_between(last, character) && self.is_closed(look) {
                self.end(look, width, out);
            }
            self.pending.push(character);
            let is_end = character.is_whitespace() && self.is_closed(look);
            if is_end || self.pending.len() > MAX_SEGMENT {
                self.end(look, width, out);
            }
        }
    }

    /// Returns whether the pending text does not depend on text that follows.
    fn is_closed(&self, look: Look) -> bool {
        !look.has_styles || is_closed(&self.pending, self.before)
    }

    fn end(&mut self, look: Look, width: usize, out: &mut String) {
        let text = std::mem::take(&mut self.pending);
        let spans = spans(&text, self.before, self.style, look);
        self.wrapper.push(&spans, width, out);
        self.before = text.chars().next_back().unwrap_or(self.before);
    }
}

impl TableBlock {
    /// Writes the rows; if more follow, they have the same heading.
    fn write(&mut self, width: usize, look: Look, out: &mut String) {
        let is_table = self.rows.get(1).is_some_and(|row| is_rule(row));
        if is_table && self.rows.iter().take(2).map(String::len).sum::<usize>() < MAX_TABLE / 2 {
            out.push_str(&table(&self.rows, &self.prefix, width, look));
            self.rows.truncate(2);
            self.bytes = self.rows.iter().map(String::len).sum();
            return;
        }
        for row in self.rows.drain(..) {
            let prefix = self.prefix.clone();
            let mut wrapper = Wrapper::new(look, prefix.clone(), prefix);
            wrapper.push(&spans(&row, ' ', Style::PLAIN, look), width, out);
            wrapper.finish(width, out);
        }
    }
}

#[cfg(test)]
mod tests;
