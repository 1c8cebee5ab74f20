//! Offsets in bytes and in code points.
//!
//! The readers count bytes; Python counts code points. Bytes that are not UTF-8 count as the text
//! that `bytes.decode("utf-8", "replace")` returns: one code point for each invalid sequence.

use logue_source::Span;

/// Distance of two entries of the table, in bytes.
const STEP: usize = 512;

/// Converts byte offsets of one text to code points.
pub(crate) enum Offsets<'t> {
    /// Every byte is a code point.
    Ascii,
    /// The code points before every [`STEP`] bytes.
    Utf8 { text: &'t [u8], before: Vec<usize> },
    /// The code points before each byte, for a text with invalid bytes.
    Invalid(Vec<usize>),
}

impl<'t> Offsets<'t> {
    /// Reads the text once.
    pub(crate) fn new(text: &'t [u8]) -> Self {
        if text.is_ascii() {
            return Self::Ascii;
        }
        if std::str::from_utf8(text).is_ok() {
            let mut total = 0;
            let before = text.chunks(STEP).map(|chunk| {
                let here = total;
                total += starts(chunk);
                here
            });
            let before = before.collect();
            return Self::Utf8 { text, before };
        }
        let mut before = Vec::with_capacity(text.len() + 1);
        let mut total = 0;
        for chunk in text.utf8_chunks() {
            for byte in chunk.valid().bytes() {
                total += usize::from(is_start(byte));
                before.push(total - 1);
            }
            let invalid = chunk.invalid().len();
            before.extend(std::iter::repeat_n(total, invalid));
            total += usize::from(invalid > 0);
        }
        before.push(total);
        Self::Invalid(before)
    }

    /// Returns the code points before byte `offset`; inside of a character, those before it.
    pub(crate) fn code_point(&self, offset: usize) -> usize {
        match self {
            Self::Ascii => offset,
            Self::Utf8 { text, before } => {
                let mut offset = offset.min(text.len());
                while text.get(offset).is_some_and(|byte| !is_start(*byte)) {
                    offset -= 1;
                }
                let entry = offset / STEP;
                let from = entry * STEP;
                match before.get(entry) {
                    Some(count) => count + starts(&text[from..offset]),
                    None => match before.last() {
                        Some(count) => count + starts(&text[from - STEP..offset]),
                        None => 0,
                    },
                }
            }
            Self::Invalid(before) => before
                .get(offset)
                .or(before.last())
                .copied()
                .unwrap_or_default(),
        }
    }

    /// Returns the span in code points. A character of which it has a part is in it.
    pub(crate) fn span(&self, span: Span) -> (usize, usize) {
        let end = self.code_point(span.end) + usize::from(self.is_inside(span.end));
        (self.code_point(span.start), end)
    }

    /// Returns whether byte `offset` is in a character that began before.
    fn is_inside(&self, offset: usize) -> bool {
        match self {
            Self::Ascii => false,
            Self::Utf8 { text, .. } => text.get(offset).is_some_and(|byte| !is_start(*byte)),
            Self::Invalid(before) => {
                let here = before.get(offset);
                let is_end = offset + 1 >= before.len();
                !is_end && offset > 0 && here == before.get(offset - 1)
            }
        }
    }
}

const fn is_start(byte: u8) -> bool {
    byte & 0xC0 != 0x80
}

/// The number of characters that start in valid UTF-8.
pub(crate) fn starts(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| is_start(**byte)).count()
}
