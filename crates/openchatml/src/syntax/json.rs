//! The JSON grammar check, with the place of the first error.
//!
//! Only the grammar is asked: a number may be too large for any type, a `\u` escape may be half a
//! pair, and nesting has no limit. Nothing is built, so the cost is one pass.

use serde::de::IgnoredAny;

/// An error of the JSON grammar.
#[derive(Debug)]
pub(crate) struct JsonError {
    /// The error without its place.
    pub(crate) what: String,
    /// The offending byte; the text's length where it ends too early.
    pub(crate) offset: usize,
}

/// The first error in `text`; `None` if it is JSON. Linear, without recursion.
pub(crate) fn find_error(text: &[u8]) -> Option<JsonError> {
    let error = serde_json::from_slice::<IgnoredAny>(text).err()?;
    let what = error.to_string();
    let what = what
        .rsplit_once(" at line ")
        .map_or(what.as_str(), |(what, _)| what);
    let mut offset = stopped_at(text, &error);
    if what.starts_with("control character") {
        // The library stops in front of such a character.
        let rest = text.get(offset..).unwrap_or_default();
        offset += rest.iter().position(|byte| *byte < b' ').unwrap_or(0);
    } else if what.starts_with("invalid escape") {
        // It stops somewhere in the escape.
        let before = text.get(..offset).unwrap_or_default();
        offset = memchr::memrchr(b'\\', before).unwrap_or(offset);
    }
    Some(JsonError {
        what: what.to_owned(),
        offset,
    })
}

/// The offset in `text` at which the library reported this error.
pub(crate) fn stopped_at(text: &[u8], error: &serde_json::Error) -> usize {
    if error.is_eof() {
        text.len()
    } else {
        offset_of(text, error.line(), error.column())
    }
}

/// Returns whether `text` is JSON.
pub(crate) fn is_json(text: &str) -> bool {
    find_error(text.as_bytes()).is_none()
}

/// The line and column of a byte in `text`, both from 1, columns in bytes.
pub(crate) fn line_column(text: &[u8], offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let start = memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
    let lines = memchr::memchr_iter(b'\n', before).count();
    (lines + 1, before.len() - start + 1)
}

/// The offset of a line and column as the library counts them: it has read `column` bytes of the
/// line, and none where the offending byte is the newline before.
fn offset_of(text: &[u8], line: usize, column: usize) -> usize {
    let starts = std::iter::once(0).chain(memchr::memchr_iter(b'\n', text).map(|at| at + 1));
    let start = starts.take(line).last().unwrap_or(0);
    (start + column).saturating_sub(1).min(text.len())
}
