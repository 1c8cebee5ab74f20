//! A part of a source that supports spans of the whole.
//!
//! The batch reader has the whole source at hand, the stream only the header that it is in.

use logue_source::Span;

/// Bytes of a source, from `base` on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OffsetSlice<'s> {
    bytes: &'s [u8],
    base: usize,
}

impl<'s> OffsetSlice<'s> {
    /// The bytes at `base`.
    pub(crate) const fn new(bytes: &'s [u8], base: usize) -> Self {
        Self { bytes, base }
    }

    /// The part of `span` within the slice.
    pub(crate) fn get(self, span: Span) -> &'s [u8] {
        let start = span.start.saturating_sub(self.base);
        let end = span.end.saturating_sub(self.base);
        Span::new(start, end).bytes(self.bytes)
    }

    /// The end of the slice.
    pub(crate) const fn end(self) -> usize {
        self.base + self.bytes.len()
    }
}
