//! A range of bytes in one text.

use std::fmt;
use std::ops::Range;

/// A half-open range `start..end` of byte offsets into one source text.
///
/// Spans are plain numbers: they stay valid as long as the text they were made for is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Span {
    /// Offset of the first byte.
    pub start: usize,
    /// Offset behind the last byte; never below `start` in a span that a reader made.
    pub end: usize,
}

impl Span {
    /// The span `start..end`.
    pub const fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// The empty span at `offset`.
    pub const fn empty(offset: usize) -> Self {
        Self {
            start: offset,
            end: offset,
        }
    }

    /// Length in bytes.
    pub const fn len(self) -> usize {
        self.end.saturating_sub(self.start)
    }

    /// Whether the span holds no byte.
    pub const fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// The smallest span that holds both.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        Self {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }

    /// The same span for a text in which this one's text begins at `offset`.
    #[must_use]
    pub const fn shifted(self, offset: usize) -> Self {
        Self {
            start: self.start + offset,
            end: self.end + offset,
        }
    }

    /// The bytes of `text` that the span covers, cut to the text's end.
    pub fn bytes(self, text: &[u8]) -> &[u8] {
        let end = self.end.min(text.len());
        &text[self.start.min(end)..end]
    }

    /// The part of `text` that the span covers; `None` where it is out of range or would cut a
    /// character.
    pub fn text(self, text: &str) -> Option<&str> {
        text.get(self.start..self.end)
    }

    /// The span as a standard range.
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
