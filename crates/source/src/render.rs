//! Rendering of a diagnostic with its source text.
//!
//! The renderer accepts any bytes. Invalid UTF-8 appears as replacement characters, a file of a
//! gigabyte or a line of a megabyte is cut to the surroundings of the finding, and control and hidden
//! characters appear as symbols or escapes, so that a hostile file cannot drive the terminal.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::{
    Diagnostic, LineColumn, LineIndex, Severity, Span, UntrustedEscaper, escape_line,
    escape_untrusted,
};

/// Bytes quoted on each side of a finding if its line is too long.
const LINE_REACH: usize = 120;

/// Maximum bytes of complete lines in a report; lines between two positions are folded.
const MAX_LINES_BYTES: usize = 16 * 1024;

/// The colour mode of a rendered report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColorMode {
    /// Plain text.
    Plain,
    /// Text with ANSI colours.
    Ansi,
}

/// The appearance of a rendered report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportStyle {
    colors: ColorMode,
    width: Option<usize>,
}

impl ReportStyle {
    /// Sets the columns to which quoted lines are clipped, around the positions of the report.
    #[must_use]
    pub const fn with_width(mut self, columns: usize) -> Self {
        self.width = Some(columns);
        self
    }
}

impl From<ColorMode> for ReportStyle {
    fn from(colors: ColorMode) -> Self {
        Self {
            colors,
            width: None,
        }
    }
}

/// A named text with its line index.
#[derive(Debug)]
pub struct Source<'a> {
    name: String,
    text: &'a [u8],
    lines: LineIndex,
    /// Position of the first byte in the complete text.
    origin: Origin,
}

/// The position of a fragment in its complete text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Bytes before the fragment.
    pub offset: usize,
    /// Line of its first byte, from 1.
    pub line: usize,
    /// Column of its first byte in characters, from 1.
    pub column: usize,
}

impl Default for Origin {
    /// Returns the start of a text.
    fn default() -> Self {
        Self {
            offset: 0,
            line: 1,
            column: 1,
        }
    }
}

impl<'a> Source<'a> {
    /// Indexes `text` under the name that reports print.
    ///
    /// Linear in the length of the text.
    pub fn new(name: impl Into<String>, text: &'a [u8]) -> Self {
        Self::fragment(name, text, Origin::default())
    }

    /// Indexes a fragment of a longer text.
    ///
    /// Reports count lines and columns from the start of the complete text; spans count from the
    /// start of the fragment.
    ///
    /// ```
    /// use logue_source::{Source, Origin};
    ///
    /// let origin = Origin { offset: 6, line: 3, column: 1 };
    /// let fragment = Source::fragment("data.jsonl", b"{\"a\": 1}", origin);
    /// assert_eq!(fragment.place(1), "data.jsonl:3:2");
    /// assert_eq!(fragment.offset(1), 7);
    /// ```
    pub fn fragment(name: impl Into<String>, text: &'a [u8], origin: Origin) -> Self {
        Self {
            name: escape_line(&name.into()).into_owned(),
            text,
            lines: LineIndex::new(text),
            origin,
        }
    }

    /// Returns the name that reports print, with hidden characters escaped.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the text.
    pub fn text(&self) -> &'a [u8] {
        self.text
    }

    /// Returns the line and column of a byte offset.
    pub fn line_column(&self, offset: usize) -> LineColumn {
        let LineColumn { line, column } = self.lines.line_column(self.text, offset);
        LineColumn {
            line: line + self.origin.line - 1,
            column: if line == 1 {
                column + self.origin.column - 1
            } else {
                column
            },
        }
    }

    /// Returns the byte offset in the complete text.
    pub const fn offset(&self, offset: usize) -> usize {
        self.origin.offset + offset
    }

    /// Returns `name:line:column` of a byte offset.
    pub fn place(&self, offset: usize) -> String {
        let LineColumn { line, column } = self.line_column(offset);
        format!("{}:{line}:{column}", self.name)
    }

    /// Renders one diagnostic as a report that ends in a newline.
    ///
    /// The report contains code, message, position, the underlined text, the expected text and the
    /// remedies.
    pub fn render(&self, diagnostic: &Diagnostic, style: impl Into<ReportStyle>) -> String {
        self.render_with(diagnostic, &[], style.into())
    }

    /// Renders one diagnostic with notes after the labels.
    pub(crate) fn render_with(
        &self,
        diagnostic: &Diagnostic,
        notes: &[String],
        style: ReportStyle,
    ) -> String {
        let level = match diagnostic.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
            Severity::Note => Level::NOTE,
        };
        let title = level
            .primary_title(escape_untrusted(&diagnostic.message))
            .id(diagnostic.code.as_str());
        let mut group = Group::with_title(title);
        let lines = self.lines_of(diagnostic);
        let window = if lines.len() <= MAX_LINES_BYTES {
            Window::over(self, lines)
        } else {
            Window::over(self, self.reach_of(diagnostic.primary))
        };
        let mut snippet =
            Snippet::source(window.text.as_str()).line_start(window.line + self.origin.line);
        if window.is_altered || self.origin.column > 1 {
            // The renderer would count columns of the window, so the position is passed to it.
            let LineColumn { line, column } = self.line_column(diagnostic.primary.start);
            let position = annotate_snippets::Origin::path(self.name.as_str())
                .line(line)
                .char_column(column);
            group = group.element(position);
        } else {
            snippet = snippet.path(self.name.as_str());
        }
        if let Some(range) = window.map(diagnostic.primary) {
            let annotation = AnnotationKind::Primary.span(range);
            snippet = snippet.annotation(match &diagnostic.expected {
                Some(expected) => {
                    annotation.label(format!("expected {}", escape_untrusted(expected)))
                }
                None => annotation,
            });
        }
        let mut elsewhere = Vec::new();
        for label in &diagnostic.labels {
            if let Some(range) = window.map(label.span) {
                let annotation = AnnotationKind::Context.span(range);
                snippet = snippet.annotation(annotation.label(escape_untrusted(&label.text)));
            } else {
                elsewhere.push(format!(
                    "{}: {}",
                    self.place(label.span.start),
                    escape_untrusted(&label.text)
                ));
            }
        }
        group = group.element(snippet);
        for note in &elsewhere {
            group = group.element(Level::NOTE.message(note.as_str()));
        }
        for note in notes {
            group = group.element(Level::NOTE.message(escape_untrusted(note)));
        }
        for help in &diagnostic.help {
            group = group.element(Level::HELP.message(escape_untrusted(help)));
        }
        let renderer = match style.colors {
            ColorMode::Plain => Renderer::plain(),
            ColorMode::Ansi => Renderer::styled(),
        };
        let renderer = match style.width {
            // The renderer counts neither the numbers of the lines nor its ellipses.
            Some(width) => renderer.term_width(width.saturating_sub(12).max(16)),
            None => renderer,
        };
        let mut report = renderer.render(&[group]);
        report.push('\n');
        report
    }
}

impl Source<'_> {
    /// Returns the range of all lines with a label, without the last newline.
    fn lines_of(&self, diagnostic: &Diagnostic) -> Range<usize> {
        let places = || {
            let labels = diagnostic.labels.iter().map(|label| label.span);
            std::iter::once(diagnostic.primary).chain(labels)
        };
        let first = places()
            .map(|span| self.lines.line_of(span.start))
            .min()
            .unwrap_or(0);
        let last = places()
            .map(|span| self.lines.line_of(span.start))
            .max()
            .unwrap_or(0);
        let start = self.lines.line_range(first).map_or(0, |line| line.start);
        let end = self
            .lines
            .line_range(last)
            .map_or(self.text.len(), |line| line.end);
        start..self.without_newline(start, end)
    }

    /// Returns the surroundings of a span in its line.
    fn reach_of(&self, span: Span) -> Range<usize> {
        let line = self
            .lines
            .line_range(self.lines.line_of(span.start))
            .unwrap_or(0..0);
        let anchor = span.start.clamp(line.start, line.end);
        let start = floor_character(self.text, anchor.saturating_sub(LINE_REACH).max(line.start));
        let end = floor_character(self.text, (anchor + LINE_REACH).min(line.end)).max(start);
        start..self.without_newline(start, end)
    }

    fn without_newline(&self, start: usize, end: usize) -> usize {
        match &self.text[start..end] {
            [.., b'\r', b'\n'] => end - 2,
            [.., b'\n'] => end - 1,
            _ => end,
        }
    }
}

/// A part of the source as valid UTF-8, with a map to the original offsets.
struct Window {
    /// Zero-based number of the first line.
    line: usize,
    /// Whether the window begins inside a line or contains an escape.
    is_altered: bool,
    /// The quoted text.
    text: String,
    /// Source offset, source length and offset in `text` of each piece.
    pieces: Vec<(usize, usize, usize)>,
}

impl Window {
    fn over(source: &Source<'_>, range: Range<usize>) -> Self {
        let line = source.lines.line_of(range.start);
        let line_start = source.lines.line_range(line).map_or(0, |line| line.start);
        let mut window = Self {
            line,
            is_altered: range.start != line_start,
            text: String::new(),
            pieces: Vec::new(),
        };
        let mut at = range.start;
        for chunk in source.text[range].utf8_chunks() {
            window.push_valid(at, chunk.valid());
            at += chunk.valid().len();
            for _ in chunk.invalid() {
                window.pieces.push((at, 1, window.text.len()));
                window.text.push(char::REPLACEMENT_CHARACTER);
                at += 1;
            }
        }
        window.pieces.push((at, 0, window.text.len()));
        window
    }

    /// Appends text in which characters without a glyph are escaped.
    ///
    /// The renderer writes the control characters of ASCII as symbols.
    fn push_valid(&mut self, start: usize, text: &str) {
        let mut escaper = UntrustedEscaper::default();
        let mut kept = 0;
        for (at, character) in text.char_indices() {
            let end = at + character.len_utf8();
            let escaped = escaper.escape(&text[at..end]);
            if character.is_ascii() || escaped == text[at..end] {
                continue;
            }
            self.push_piece(start + kept, &text[kept..at]);
            self.pieces.push((start + at, end - at, self.text.len()));
            self.text.push_str(&escaped);
            self.is_altered = true;
            kept = end;
        }
        self.push_piece(start + kept, &text[kept..]);
    }

    fn push_piece(&mut self, start: usize, text: &str) {
        self.pieces.push((start, text.len(), self.text.len()));
        self.text.push_str(text);
    }

    /// Returns the part of `span` in this window as a range of its text.
    fn map(&self, span: Span) -> Option<Range<usize>> {
        let first = self.pieces.first()?.0;
        let last = self.pieces.last()?.0;
        if span.start > last || span.start < first {
            return None;
        }
        let start = self.offset(span.start);
        let end = self.offset(span.end.min(last)).max(start);
        Some(start..end)
    }

    fn offset(&self, at: usize) -> usize {
        let index = self
            .pieces
            .partition_point(|piece| piece.0 <= at)
            .saturating_sub(1);
        let Some(&(from, len, offset)) = self.pieces.get(index) else {
            return 0;
        };
        let inside = (at - from).min(len);
        let limit = self
            .pieces
            .get(index + 1)
            .map_or(self.text.len(), |next| next.2);
        let offset = (offset + inside).min(limit);
        (0..=offset)
            .rev()
            .find(|at| self.text.is_char_boundary(*at))
            .unwrap_or(0)
    }
}

/// Returns the nearest character boundary at or below `at`.
fn floor_character(text: &[u8], at: usize) -> usize {
    let at = at.min(text.len());
    (at.saturating_sub(3)..=at)
        .rev()
        .find(|&offset| text.get(offset).is_none_or(|byte| byte & 0xC0 != 0x80))
        .unwrap_or(at)
}
