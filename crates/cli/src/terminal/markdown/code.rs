//! Lines of code, which continue on further lines where they are wider than the terminal.

use unicode_width::UnicodeWidthChar as _;

use crate::terminal::markdown::highlight::Highlighter;
use crate::terminal::markdown::style::{Look, Span, Style, paint};

/// The columns between two tab stops of a terminal.
const TAB: usize = 8;

/// The columns that a continued line has at least.
const MIN_WIDTH: usize = 10;

/// A fenced block.
#[derive(Debug)]
pub(super) struct CodeBlock {
    mark: String,
    quotes: usize,
    indent: usize,
    prefix: String,
    highlighter: Highlighter,
}

/// The start of a fenced block.
pub(super) struct Fence<'f> {
    /// The mark that ends the block.
    pub(super) mark: &'f str,
    /// The text after the mark.
    pub(super) info: &'f str,
    pub(super) quotes: usize,
    pub(super) indent: usize,
}

impl CodeBlock {
    /// Begins a block and writes its first line.
    pub(super) fn begin(fence: &Fence<'_>, prefix: String, look: Look, out: &mut String) -> Self {
        let info = fence.info.trim();
        let first = match (look.has_styles, info) {
            (true, "") => "╭─".to_owned(),
            (true, info) => format!("╭─ {info}"),
            (false, info) => format!("{}{info}", fence.mark),
        };
        paint(
            out,
            &Span::new(format!("{prefix}{first}"), Style::DIM),
            look,
        );
        out.push('\n');
        Self {
            mark: fence.mark.to_owned(),
            quotes: fence.quotes,
            indent: fence.indent,
            prefix,
            highlighter: Highlighter::new(info.split_whitespace().next().unwrap_or_default()),
        }
    }

    /// Writes a line; returns whether it ends the block.
    pub(super) fn line(&mut self, line: &str, width: usize, look: Look, out: &mut String) -> bool {
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
        if is_end {
            let mark = if look.has_styles { "╰─" } else { mark };
            let end = format!("{}{mark}", self.prefix);
            paint(out, &Span::new(end, Style::DIM), look);
            out.push('\n');
        } else {
            let spans = self.highlighter.line(content);
            write_code(&spans, &self.prefix, width, look, out);
        }
        is_end
    }
}

/// Writes a line of code.
///
/// A terminal would cut a wide line within words. Therefore the line continues after a mark: text
/// that is copied with the mark fails visibly, where a mere line break could change its meaning.
/// `--plain` prints lines that can be copied.
pub(super) fn write_code(spans: &[Span], prefix: &str, width: usize, look: Look, out: &mut String) {
    let begin: usize = prefix.chars().map(|one| one.width().unwrap_or(0)).sum();
    let text: String = spans.iter().map(|span| span.text.as_str()).collect();
    let blank: String = text.chars().take_while(|one| one.is_whitespace()).collect();
    let indent = columns(&blank, begin) - begin;
    // An indentation that leaves no space for code is not repeated.
    let indent = if begin + indent + 2 * MIN_WIDTH > width {
        0
    } else {
        indent
    };
    let continued = format!("{prefix}{}↪ ", " ".repeat(indent));
    let mut line = CodeLine {
        width,
        look,
        continued: Span::new(continued, Style::DIM),
        after_mark: begin + indent + 2,
        column: begin,
        least: begin + indent,
        pieces: Vec::new(),
    };
    paint(out, &Span::new(prefix, Style::DIM), look);
    for (word, is_blank) in words(spans) {
        if is_blank && line.end_of(&word) > width {
            // The line ends here.
            line.column = width;
        } else if is_blank || line.fits(&word) {
            line.place(word, out);
        } else {
            // A word that is longer than a line continues after a mark of the language.
            for part in parts(word) {
                line.place(part, out);
            }
        }
    }
    line.flush(out);
    out.push('\n');
}

/// A line of code that is being filled.
struct CodeLine {
    width: usize,
    look: Look,
    /// The beginning of a continued line.
    continued: Span,
    /// The column after it.
    after_mark: usize,
    column: usize,
    /// The first column of the text.
    least: usize,
    pieces: Vec<Span>,
}

impl CodeLine {
    /// Returns the column after a word on this line.
    fn end_of(&self, word: &[Span]) -> usize {
        word.iter()
            .fold(self.column, |column, span| columns(&span.text, column))
    }

    /// Returns whether a word fits on this line or the next one.
    fn fits(&self, word: &[Span]) -> bool {
        let length = self.end_of(word) - self.column;
        self.end_of(word) <= self.width || self.after_mark + length <= self.width
    }

    /// Adds a word, on the next line if it does not fit on this one.
    fn place(&mut self, word: Vec<Span>, out: &mut String) {
        if self.end_of(&word) > self.width && self.column > self.least {
            self.continue_line(out);
        }
        if self.end_of(&word) <= self.width {
            self.column = self.end_of(&word);
            for span in word {
                self.push(span);
            }
            return;
        }
        for span in word {
            for character in span.text.chars() {
                let one = Span::new(character, span.style);
                if self.end_of(std::slice::from_ref(&one)) > self.width && self.column > self.least
                {
                    self.continue_line(out);
                }
                self.column = self.end_of(std::slice::from_ref(&one));
                self.push(one);
            }
        }
    }

    fn push(&mut self, span: Span) {
        match self.pieces.last_mut() {
            Some(last) if last.style == span.style => last.text.push_str(&span.text),
            _ => self.pieces.push(span),
        }
    }

    fn continue_line(&mut self, out: &mut String) {
        self.flush(out);
        out.push('\n');
        paint(out, &self.continued, self.look);
        self.least = self.after_mark;
        self.column = self.after_mark;
    }

    fn flush(&mut self, out: &mut String) {
        for piece in self.pieces.drain(..) {
            paint(out, &piece, self.look);
        }
    }
}

/// Divides a word after its brackets and separators.
fn parts(word: Vec<Span>) -> Vec<Vec<Span>> {
    let mut out = vec![Vec::<Span>::new()];
    let mut is_end = false;
    for span in word {
        for character in span.text.chars() {
            let is_mark = matches!(
                character,
                '(' | ')' | '[' | ']' | '{' | '}' | ',' | ';' | ':' | '/' | '&' | '|' | '=' | '?'
            );
            if is_end && !is_mark {
                out.push(Vec::new());
            }
            is_end = is_mark;
            if let Some(part) = out.last_mut() {
                match part.last_mut() {
                    Some(last) if last.style == span.style => last.text.push(character),
                    _ => part.push(Span::new(character, span.style)),
                }
            }
        }
    }
    out
}

/// Returns the column after a text that begins at a column.
fn columns(text: &str, from: usize) -> usize {
    text.chars().fold(from, |column, one| match one {
        '\t' => (column / TAB + 1) * TAB,
        one => column + one.width().unwrap_or(0),
    })
}

/// Returns the words and the white space between them.
fn words(spans: &[Span]) -> Vec<(Vec<Span>, bool)> {
    let mut out: Vec<(Vec<Span>, bool)> = Vec::new();
    for span in spans {
        for character in span.text.chars() {
            let is_blank = character.is_whitespace();
            match out.last_mut() {
                Some((word, was_blank)) if *was_blank == is_blank => match word.last_mut() {
                    Some(last) if last.style == span.style => last.text.push(character),
                    _ => word.push(Span::new(character, span.style)),
                },
                _ => out.push((vec![Span::new(character, span.style)], is_blank)),
            }
        }
    }
    out
}
