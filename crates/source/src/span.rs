//! A range of bytes in one text.

use std::fmt;
use std::ops::Range;

/// A half-open range `start..end` of byte offsets into one source text.
///
/// Spans are plain numbers: they stay valid as long as their text is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Span {
    /// Offset of the first byte.
    pub start: usize,
    /// Offset after the last byte; not below `start` in a span from a reader.
    pub end: usize,
}

impl Span {
    /// Creates the span `start..end`.
    pub const fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// Creates the empty span at `offset`.
    pub const fn empty(offset: usize) -> Self {
        Self {
            start: offset,
            end: offset,
        }
    }

    /// Returns the length in bytes.
    pub const fn len(self) -> usize {
        self.end.saturating_sub(self.start)
    }

    /// Returns whether the span contains no byte.
    pub const fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// Returns the smallest span that contains both.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        Self {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }

    /// Returns the span shifted right by `offset` bytes.
    #[must_use]
    pub const fn shifted(self, offset: usize) -> Self {
        Self {
            start: self.start + offset,
            end: self.end + offset,
        }
    }

    /// Returns the covered bytes of `text`, cut at its end.
    pub fn bytes(self, text: &[u8]) -> &[u8] {
        let end = self.end.min(text.len());
        &text[self.start.min(end)..end]
    }

    /// Returns the covered part of `text`.
    ///
    /// Returns `None` if the span is out of range or cuts a character.
    pub fn text(self, text: &str) -> Option<&str> {
        text.get(self.start..self.end)
    }

    /// Returns the span as a standard range.
    pub const fn range(self) -> Range<usize> {
        self.start..self.end
    }
}

impl From<Range<usize>> for Span {
    fn from(range: Range<usize>) -> Self {
        Self::new(range.start, range.end)
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}
