//! A diagnostic and its text, as people read them.
//!
//! The renderer takes any bytes: text that is not UTF-8 is shown with replacement characters, a
//! file of a gigabyte or a line of a megabyte is cut to the neighbourhood of the finding, and
//! control characters are shown as pictures, so that a hostile file cannot drive the terminal.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::{Diagnostic, LineColumn, LineIndex, Severity, Span, visible};

/// Bytes on each side of a finding that are shown of a line too long to show whole.
const LINE_REACH: usize = 120;

/// Bytes of whole lines that one report may quote; lines between two places are folded.
const WHOLE_LINES: usize = 16 * 1024;

/// Whether a report carries terminal colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColorMode {
    /// Text only.
    Plain,
    /// With ANSI colours.
    Ansi,
}

/// A text with its name and line index: what reports are made from.
#[derive(Debug)]
pub struct Source<'a> {
    name: String,
    text: &'a [u8],
    lines: LineIndex,
    /// Where the first byte stands in the whole text.
    start: Origin,
}

/// The place of a part in the text that it was cut from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Bytes before it.
    pub offset: usize,
    /// Its line, from 1.
    pub line: usize,
    /// Its column in characters, from 1.
    pub column: usize,
}

impl Default for Origin {
    /// The begin of the text.
    fn default() -> Self {
        Self {
            offset: 0,
            line: 1,
            column: 1,
        }
    }
}

impl<'a> Source<'a> {
    /// Indexes `text`, which reports will call `name`. Linear in the length of the text.
    pub fn new(name: impl Into<String>, text: &'a [u8]) -> Self {
        Self::fragment(name, text, Origin::default())
    }

    /// A part of a longer text that was read piece by piece: reports count lines and columns from
    /// the begin of the whole. Spans still count from the begin of the part.
    ///
    /// ```
    /// use logue_source::{Source, Origin};
    ///
    /// let start = Origin { offset: 6, line: 3, column: 1 };
    /// let part = Source::fragment("data.jsonl", b"{\"a\": 1}", start);
    /// assert_eq!(part.place(1), "data.jsonl:3:2");
    /// assert_eq!(part.offset(1), 7);
    /// ```
    pub fn fragment(name: impl Into<String>, text: &'a [u8], start: Origin) -> Self {
        Self {
            name: visible(&name.into()).into_owned(),
            text,
            lines: LineIndex::new(text),
            start,
        }
    }

    /// The name that reports use.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text.
    pub fn text(&self) -> &'a [u8] {
        self.text
    }

    /// Line and column of a byte offset.
    pub fn line_column(&self, offset: usize) -> LineColumn {
        let LineColumn { line, column } = self.lines.line_column(self.text, offset);
        LineColumn {
            line: line + self.start.line - 1,
            column: if line == 1 {
                column + self.start.column - 1
            } else {
                column
            },
        }
    }

    /// The byte offset in the whole text.
    pub const fn offset(&self, offset: usize) -> usize {
        self.start.offset + offset
    }

    /// `name:line:column` of a byte offset.
    pub fn place(&self, offset: usize) -> String {
        let LineColumn { line, column } = self.line_column(offset);
        format!("{}:{line}:{column}", self.name)
    }

    /// The report of one diagnostic: code, message, place, the offending text underlined, what was
    /// expected and what to do. It ends in a newline.
    pub fn render(&self, diagnostic: &Diagnostic, style: ColorMode) -> String {
        self.render_with(diagnostic, &[], style)
    }

    /// The same with notes behind the labels.
    pub(crate) fn render_with(
        &self,
        diagnostic: &Diagnostic,
        notes: &[String],
        style: ColorMode,
    ) -> String {
        let level = match diagnostic.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
            Severity::Note => Level::NOTE,
        };
        let title = level
            .primary_title(visible(&diagnostic.message))
            .id(diagnostic.code.as_str());
        let mut group = Group::with_title(title);
        let whole = self.lines_of(diagnostic);
        let window = if whole.len() <= WHOLE_LINES {
            Window::over(self, whole)
        } else {
            Window::over(self, self.reach_of(diagnostic.primary))
        };
        let mut snippet =
            Snippet::source(window.text.as_str()).line_start(window.line + self.start.line);
        if window.cut || self.start.column > 1 {
            // The columns of a cut line would count from the cut, so the place is our own.
            let LineColumn { line, column } = self.line_column(diagnostic.primary.start);
            let origin = annotate_snippets::Origin::path(self.name.as_str())
                .line(line)
                .char_column(column);
            group = group.element(origin);
        } else {
            snippet = snippet.path(self.name.as_str());
        }
        if let Some(range) = window.map(diagnostic.primary) {
            let annotation = AnnotationKind::Primary.span(range);
            snippet = snippet.annotation(match &diagnostic.expected {
                Some(expected) => annotation.label(format!("expected {}", visible(expected))),
                None => annotation,
            });
        }
        let mut elsewhere = Vec::new();
        for label in &diagnostic.labels {
            if let Some(range) = window.map(label.span) {
                let annotation = AnnotationKind::Context.span(range);
                snippet = snippet.annotation(annotation.label(visible(&label.text)));
            } else {
                elsewhere.push(format!(
                    "{}: {}",
                    self.place(label.span.start),
                    visible(&label.text)
                ));
            }
        }
        group = group.element(snippet);
        for note in &elsewhere {
            group = group.element(Level::NOTE.message(note.as_str()));
        }
        for note in notes {
            group = group.element(Level::NOTE.message(visible(note)));
        }
        for help in &diagnostic.help {
            group = group.element(Level::HELP.message(visible(help)));
        }
        let renderer = match style {
            ColorMode::Plain => Renderer::plain(),
            ColorMode::Ansi => Renderer::styled(),
        };
        let mut report = renderer.render(&[group]);
        report.push('\n');
        report
    }
}

impl Source<'_> {
    /// The lines from the first place of a diagnostic to its last, without the last newline.
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

    /// The neighbourhood of a place in its line.
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

/// A part of the source as valid UTF-8, with the way back to its offsets.
struct Window {
    /// Zero-based number of the first line.
    line: usize,
    /// Whether it begins inside a line.
    cut: bool,
    /// The shown text.
    text: String,
    /// For each shown piece: its first byte in the source, its length there, its offset in `text`.
    pieces: Vec<(usize, usize, usize)>,
}

impl Window {
    fn over(source: &Source<'_>, range: Range<usize>) -> Self {
        let line = source.lines.line_of(range.start);
        let line_start = source.lines.line_range(line).map_or(0, |line| line.start);
        let mut window = Self {
            line,
            cut: range.start != line_start,
            text: String::new(),
            pieces: Vec::new(),
        };
        let mut at = range.start;
        for chunk in source.text[range].utf8_chunks() {
            window
                .pieces
                .push((at, chunk.valid().len(), window.text.len()));
            window.text.push_str(chunk.valid());
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

    /// The part of `span` that this window shows, as a range of its text.
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
        let Some(&(from, len, shown)) = self.pieces.get(index) else {
            return 0;
        };
        let inside = (at - from).min(len);
        let limit = self
            .pieces
            .get(index + 1)
            .map_or(self.text.len(), |next| next.2);
        let offset = (shown + inside).min(limit);
        (0..=offset)
            .rev()
            .find(|at| self.text.is_char_boundary(*at))
            .unwrap_or(0)
    }
}

/// The nearest offset at or below `at` that does not stand inside a character.
fn floor_character(text: &[u8], at: usize) -> usize {
    let at = at.min(text.len());
    (at.saturating_sub(3)..=at)
        .rev()
        .find(|&offset| text.get(offset).is_none_or(|byte| byte & 0xC0 != 0x80))
        .unwrap_or(at)
}
