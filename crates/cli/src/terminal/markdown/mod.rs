//! Markdown for a terminal, as it arrives.
//!
//! Text goes in, and complete lines come out. A line is never changed after that, so the output can be
//! appended to a terminal of any kind. Paragraphs and items are filled word by word; code is written
//! line by line; a table is written when it ends.

mod highlight;
mod inline;
mod line;
mod style;
mod table;
mod wrap;

pub(crate) use self::style::Look;

use self::highlight::Highlighter;
use self::inline::{is_closed, spans};
use self::line::{Line, LineKind, classify};
use self::style::{Span, Style, paint};
use self::table::table;
use self::wrap::Wrapper;

/// The maximum bytes of a table; a larger one is written as received.
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
    /// Whether a blank line precedes the next block.
    is_blank: bool,
    /// Whether a line was written.
    has_output: bool,
    /// The column of the text of the last item; zero outside of lists.
    hang: usize,
}

#[derive(Debug)]
enum Block {
    None,
    Text(TextBlock),
    Code(CodeBlock),
    Table(TableBlock),
}

/// A paragraph, or the text of an item or a heading.
#[derive(Debug)]
struct TextBlock {
    wrapper: Wrapper,
    style: Style,
    quotes: usize,
    /// The text whose marks are not closed.
    pending: String,
    /// Whether it has text other than white space.
    has_text: bool,
}

#[derive(Debug)]
struct CodeBlock {
    mark: String,
    quotes: usize,
    indent: usize,
    prefix: String,
    highlighter: Highlighter,
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
            is_blank: false,
            has_output: false,
            hang: 0,
        }
    }

    /// Adds text without control sequences; returns the lines that are complete now.
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
            && let Some(found) = classify(&line, false)
            && !self.is_code_by_indent(&found)
        {
            self.fed = Some(found.start);
            self.open(&found, &line, width, out);
        }
        if let Some(fed) = self.fed {
            // These may be a break at the end of the line.
            let end = line.trim_end_matches([' ', '\\']).len().max(fed);
            self.feed(line.get(fed..end).unwrap_or_default(), width, out);
            self.fed = Some(end);
        }
        self.line = line;
    }

    fn complete(&mut self, width: usize, out: &mut String) {
        let line = std::mem::take(&mut self.line);
        if let Some(fed) = self.fed.take() {
            self.end_text_line(line.get(fed..).unwrap_or_default(), width, out);
            return;
        }
        if let Block::Code(code) = &mut self.block {
            if code.line(&line, self.look, out) {
                self.block = Block::None;
            }
            return;
        }
        let Some(found) = classify(&line, true) else {
            return;
        };
        if let Block::Table(rows) = &mut self.block {
            if found.kind == LineKind::TableRow && found.quotes == rows.quotes {
                rows.bytes += line.len();
                rows.rows
                    .push(line.get(found.start..).unwrap_or_default().to_owned());
                if rows.bytes > MAX_TABLE {
                    rows.write_source(out);
                }
                return;
            }
            self.end_block(width, out);
        }
        let content = line.get(found.start..).unwrap_or_default();
        match &found.kind {
            LineKind::Blank => {
                self.end_block(width, out);
                self.is_blank = true;
            }
            LineKind::Rule => {
                self.separate(width, out);
                self.hang = 0;
                let prefix = self.quoted(found.quotes);
                let rule = "─".repeat(width.saturating_sub(2 * found.quotes).min(40));
                self.paint(&format!("{prefix}{rule}"), Style::DIM, out);
                out.push('\n');
            }
            LineKind::Fence { mark, language } => {
                self.separate(width, out);
                let indent = if self.hang > 0 { found.indent } else { 0 };
                let prefix = format!("{}{}", self.quoted(found.quotes), " ".repeat(indent));
                self.paint(&format!("{prefix}{}", content.trim_end()), Style::DIM, out);
                out.push('\n');
                self.block = Block::Code(CodeBlock {
                    mark: mark.clone(),
                    quotes: found.quotes,
                    indent: found.indent,
                    prefix,
                    highlighter: Highlighter::new(language),
                });
            }
            LineKind::TableRow => {
                self.separate(width, out);
                let indent = if self.hang > 0 { found.indent } else { 0 };
                self.block = Block::Table(TableBlock {
                    prefix: format!("{}{}", self.quoted(found.quotes), " ".repeat(indent)),
                    quotes: found.quotes,
                    rows: vec![content.to_owned()],
                    bytes: content.len(),
                });
            }
            LineKind::Text if self.is_code_by_indent(&found) => {
                self.separate(width, out);
                let code = format!("{}{content}\n", " ".repeat(found.indent));
                out.push_str(&code);
            }
            LineKind::Text | LineKind::Item { .. } | LineKind::Heading { .. } => {
                self.open(&found, &line, width, out);
                self.end_text_line(content, width, out);
                if matches!(found.kind, LineKind::Heading { .. }) {
                    self.end_block(width, out);
                }
            }
        }
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
    fn open(&mut self, line: &Line, source: &str, width: usize, out: &mut String) {
        if line.kind == LineKind::Text
            && let Block::Text(text) = &self.block
            && text.quotes == line.quotes
        {
            return;
        }
        self.separate(width, out);
        let quotes = self.quoted(line.quotes);
        let (first, rest, style) = match &line.kind {
            LineKind::Item { marker } => {
                let indent = " ".repeat(line.indent.min(width / 4));
                let bullet = if self.look.has_styles { "•" } else { "-" };
                let marker = marker.as_deref().unwrap_or(bullet);
                let hang = " ".repeat(marker.chars().count() + 1);
                self.hang = line.indent + hang.len();
                let first = format!("{quotes}{indent}{marker} ");
                (first, format!("{quotes}{indent}{hang}"), Style::PLAIN)
            }
            LineKind::Heading { level } => {
                self.hang = 0;
                let marks = source.get(line.start.saturating_sub(level + 1)..line.start);
                let marks = if self.look.has_styles {
                    ""
                } else {
                    marks.unwrap_or_default()
                };
                let first = format!("{quotes}{marks}");
                let rest = format!("{quotes}{}", " ".repeat(marks.len()));
                (first, rest, Style::BOLD)
            }
            _ => {
                if line.indent == 0 {
                    self.hang = 0;
                }
                let indent = " ".repeat(line.indent.min(self.hang));
                let prefix = format!("{quotes}{indent}");
                (prefix.clone(), prefix, Style::PLAIN)
            }
        };
        self.block = Block::Text(TextBlock {
            wrapper: Wrapper::new(self.look, first, rest),
            style,
            quotes: line.quotes,
            pending: String::new(),
            has_text: false,
        });
    }

    /// Adds text to the paragraph.
    fn feed(&mut self, text: &str, width: usize, out: &mut String) {
        if let Block::Text(block) = &mut self.block {
            block.feed(text, self.look, width, out);
        }
    }

    /// Adds the rest of a line to the paragraph.
    fn end_text_line(&mut self, text: &str, width: usize, out: &mut String) {
        let Block::Text(block) = &mut self.block else {
            return;
        };
        let has_text = block.has_text || !text.trim().is_empty();
        let is_break = has_text && (text.ends_with("  ") || text.ends_with('\\'));
        let text = text.trim_end_matches(['\\', ' ']);
        if is_break {
            block.feed(text, self.look, width, out);
            block.end(self.look, width, out);
            block.wrapper.end_line_after_word(width, out);
        } else {
            block.feed(text, self.look, width, out);
            block.feed("\n", self.look, width, out);
        }
    }

    /// Ends the block and writes the blank line before the next one.
    fn separate(&mut self, width: usize, out: &mut String) {
        self.end_block(width, out);
        if std::mem::take(&mut self.is_blank) && (self.has_output || !out.is_empty()) {
            out.push('\n');
        }
    }

    fn end_block(&mut self, width: usize, out: &mut String) {
        match std::mem::replace(&mut self.block, Block::None) {
            Block::Text(mut text) => {
                text.end(self.look, width, out);
                text.wrapper.finish(width, out);
            }
            Block::Table(mut rows) => match table(&rows.rows, &rows.prefix, width, self.look) {
                Some(lines) => out.push_str(&lines),
                None => rows.write_source(out),
            },
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
    /// Adds text; everything before a space is written if its marks are closed.
    fn feed(&mut self, text: &str, look: Look, width: usize, out: &mut String) {
        self.has_text |= !text.trim().is_empty();
        for piece in text.split_inclusive(char::is_whitespace) {
            self.pending.push_str(piece);
            if piece.ends_with(char::is_whitespace) && is_closed(&self.pending) {
                self.end(look, width, out);
            }
        }
    }

    fn end(&mut self, look: Look, width: usize, out: &mut String) {
        let text = std::mem::take(&mut self.pending);
        self.wrapper
            .push(&spans(&text, self.style, look), width, out);
    }
}

impl CodeBlock {
    /// Writes a line; returns whether it ends the block.
    fn line(&mut self, line: &str, look: Look, out: &mut String) -> bool {
        let mut rest = line;
        for _ in 0..self.quotes {
            let inner = rest.trim_start().strip_prefix('>');
            rest = inner.map_or(rest, |inner| inner.strip_prefix(' ').unwrap_or(inner));
        }
        let blank = rest.len() - rest.trim_start_matches(' ').len();
        let content = rest.get(blank.min(self.indent)..).unwrap_or_default();
        let mark = content.trim();
        let first = self.mark.chars().next().unwrap_or('`');
        let is_end = mark.len() >= self.mark.len() && mark.chars().all(|one| one == first);
        paint(out, &Span::new(self.prefix.as_str(), Style::DIM), look);
        if is_end {
            paint(out, &Span::new(mark, Style::DIM), look);
        } else {
            for span in self.highlighter.line(content) {
                paint(out, &span, look);
            }
        }
        out.push('\n');
        is_end
    }
}

impl TableBlock {
    /// Writes the rows as they are in the source.
    fn write_source(&mut self, out: &mut String) {
        for row in self.rows.drain(..) {
            out.push_str(&self.prefix);
            out.push_str(&row);
            out.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unicode_width::UnicodeWidthStr as _;

    use super::*;

    const PLAIN: Look = Look {
        has_styles: false,
        has_links: false,
    };
    const STYLED: Look = Look {
        has_styles: true,
        has_links: false,
    };

    fn render(text: &str, width: usize, look: Look) -> String {
        let mut renderer = Renderer::new(look);
        let mut out = renderer.push(text, width);
        out.push_str(&renderer.finish(width));
        out
    }

    /// Removes the sequences for styles and links.
    fn visible(text: &str) -> String {
        let mut out = String::new();
        let mut parts = text.split('\u{1b}');
        out.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let end = match part.strip_prefix('[') {
                Some(_) => part.find('m').map(|end| end + 1),
                None if part.starts_with(']') => Some(part.len()),
                None => Some(1),
            };
            out.push_str(part.get(end.unwrap()..).unwrap());
        }
        out
    }

    #[test]
    fn blocks_have_their_form() {
        let text = "# Title\n\nSome **bold** and *slanted* text with `code`,\n[a link](https://a.test/x).\n\n\
            - one\n- two of **them**\n  - nested\n\n1. first\n2. second\n\n> quoted\n> text\n\n\
            | a | b |\n|---|---|\n| 1 | two words |\n\n```rust\nlet x = 1; // one\n```\nend\n\n---\n";
        let expected = "Title\n\nSome bold and slanted text with code, a\nlink (https://a.test/x).\n\n\
            • one\n• two of them\n  • nested\n\n1. first\n2. second\n\n│ quoted text\n\n\
            a │ b\n──┼──────────\n1 │ two words\n\n```rust\nlet x = 1; // one\n```\nend\n\n\
            ────────────────────────────────────────\n";
        assert_eq!(visible(&render(text, 40, STYLED)), expected);
    }

    #[test]
    fn styles_are_those_of_the_marks() {
        let out = render("**b** *i* ~~s~~ `c`\n", 80, STYLED);
        let expected =
            "\u{1b}[1mb\u{1b}[0m \u{1b}[3mi\u{1b}[0m \u{1b}[9ms\u{1b}[0m \u{1b}[36mc\u{1b}[0m\n";
        assert_eq!(out, expected);
        let code = "```py\nif x: # no\n    s = \"a\" + 1\n```\n";
        let out = render(code, 80, STYLED);
        assert!(
            out.contains("\u{1b}[35mif\u{1b}[0m x: \u{1b}[2m# no\u{1b}[0m\n"),
            "{out:?}"
        );
        assert!(
            out.contains("s = \u{1b}[32m\"a\"\u{1b}[0m + \u{1b}[33m1\u{1b}[0m\n"),
            "{out:?}"
        );
    }

    #[test]
    fn without_styles_the_marks_stay() {
        let text = "## Title\n\nA **bold** [link](https://a.test).\n";
        assert_eq!(render(text, 80, PLAIN), text);
    }

    #[test]
    fn marks_that_close_nothing_are_text() {
        for text in [
            "2 * 3 * 4\n",
            "a_b_c and _x\n",
            "**open\n",
            "[no link] (x)\n",
            "`tick\n",
            "\\*no\\*\n",
        ] {
            let expected = text.replace('\\', "");
            assert_eq!(visible(&render(text, 80, STYLED)), expected);
        }
    }

    #[test]
    fn links_are_hyperlinks_where_the_terminal_has_them() {
        let look = Look {
            has_links: true,
            ..STYLED
        };
        let out = render("[a](https://a.test/b) [b](javascript:x)\n", 80, look);
        let link = "\u{1b}]8;;https://a.test/b\u{1b}\\\u{1b}[4ma\u{1b}[0m\u{1b}]8;;\u{1b}\\";
        assert!(out.starts_with(link), "{out:?}");
        assert!(
            out.ends_with("\u{1b}[4mb\u{1b}[0m \u{1b}[2m(javascript:x)\u{1b}[0m\n"),
            "{out:?}"
        );
    }

    #[test]
    fn wide_and_combining_characters_have_their_width() {
        let text = "漢字かな交じり文は空白なしで折り返される。それでも幅は正しい。 e\u{301}te\u{301} 👩\u{200d}👩\u{200d}👧 fin\n";
        for width in 40..60 {
            for line in render(text, width, PLAIN).lines() {
                assert!(line.width() <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn a_table_that_is_too_large_or_too_wide_is_written_as_it_is() {
        let row = format!("| {} |\n", "x".repeat(60));
        let large = format!("| a |\n|---|\n{}", row.repeat(2_000));
        let out = render(&large, 80, PLAIN);
        assert_eq!(out, large);
        let wide = format!("| a | b |\n|---|---|\n| {} | y |\n", "x".repeat(60));
        assert_eq!(render(&wide, 40, PLAIN), wide);
    }

    #[test]
    fn lines_come_before_the_paragraph_ends() {
        let mut renderer = Renderer::new(STYLED);
        let out = renderer.push("many words that are longer than one line of two", 40);
        assert_eq!(out, "many words that are longer than one line\n");
    }

    fn markdown() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("word ".to_owned()),
            Just("**bold** ".to_owned()),
            Just("*it* ".to_owned()),
            Just("`co de` ".to_owned()),
            Just("\n".to_owned()),
            Just("\n\n".to_owned()),
            Just("- ".to_owned()),
            Just("1. ".to_owned()),
            Just("> ".to_owned()),
            Just("# ".to_owned()),
            Just("| a | b |\n|---|---|\n| c | d |\n".to_owned()),
            Just("```rs\nlet a = 1;\n```\n".to_owned()),
            Just("[x](http://y) ".to_owned()),
            Just("漢字 ".to_owned()),
            Just("*".to_owned()),
            Just("_".to_owned()),
            Just("---".to_owned()),
            Just("    ".to_owned()),
            Just("  \n".to_owned()),
            "[ -~\n]{0,6}",
        ];
        proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn every_split_gives_the_same_lines(text in markdown(), cuts in proptest::collection::vec(0..200_usize, 0..20)) {
            let whole = render(&text, 50, STYLED);
            let mut renderer = Renderer::new(STYLED);
            let mut out = String::new();
            let mut rest = text.as_str();
            for cut in cuts {
                let at = (0..=cut.min(rest.len())).rev().find(|at| rest.is_char_boundary(*at));
                let (piece, after) = rest.split_at(at.unwrap_or(0));
                out.push_str(&renderer.push(piece, 50));
                rest = after;
            }
            out.push_str(&renderer.push(rest, 50));
            out.push_str(&renderer.finish(50));
            prop_assert_eq!(out, whole);
        }

        #[test]
        fn no_letter_is_lost(text in "[a-z0-9 *_`#>|\\[\\]()\n.-]{0,200}") {
            let letters = |text: &str| text.chars().filter(char::is_ascii_alphabetic).collect::<String>();
            prop_assert_eq!(letters(&visible(&render(&text, 60, STYLED))), letters(&text));
        }
    }
}
