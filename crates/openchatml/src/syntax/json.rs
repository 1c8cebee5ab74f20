//! The JSON grammar check, with the place of the first error, and JSON strings.
//!
//! Only the grammar is asked: a number may be too large for any type, a `\u` escape may be half a
//! pair, and nesting has no limit. Nothing is built, so the cost is one pass.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::de::IgnoredAny;
use serde_json::Value;

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

/// Returns the text of a JSON string, which is spelled without its quotes.
///
/// Returns `None` for half of a surrogate pair. The string is known to be JSON.
pub(crate) fn unescaped(spelled: &str) -> Option<Cow<'_, str>> {
    let Some(mut at) = memchr::memchr(b'\\', spelled.as_bytes()) else {
        return Some(Cow::Borrowed(spelled));
    };
    let mut text = String::with_capacity(spelled.len());
    let mut rest = spelled;
    loop {
        let (before, escape) = rest.split_at_checked(at)?;
        text.push_str(before);
        let (c, length) = unescape(escape)?;
        text.push(c);
        rest = escape.get(length..)?;
        match memchr::memchr(b'\\', rest.as_bytes()) {
            Some(next) => at = next,
            None => break,
        }
    }
    text.push_str(rest);
    Some(Cow::Owned(text))
}

/// The character of the escape at the start, and the length of the escape.
fn unescape(text: &str) -> Option<(char, usize)> {
    let c = match text.as_bytes().get(1)? {
        b'n' => '\n',
        b't' => '\t',
        b'r' => '\r',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'u' => {
            let unit = code_unit(text)?;
            if let Some(c) = char::from_u32(unit.into()) {
                return Some((c, 6));
            }
            let pair = [unit, code_unit(text.get(6..)?)?];
            let c = char::decode_utf16(pair).next()?.ok()?;
            return Some((c, 12));
        }
        other => char::from(*other),
    };
    Some((c, 2))
}

/// The code unit that `\\u` and four digits spell.
fn code_unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

/// A value that is written as JSON on one line, in the spelling of `serde_json`.
pub(crate) trait PushJson {
    /// Appends the value.
    fn push_json(&self, out: &mut String);
}

impl PushJson for Value {
    fn push_json(&self, out: &mut String) {
        match self {
            Self::String(text) => push_string(out, text),
            Self::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    item.push_json(out);
                }
                out.push(']');
            }
            Self::Object(entries) => {
                out.push('{');
                for (index, (key, item)) in entries.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    push_string(out, key);
                    out.push(':');
                    item.push_json(out);
                }
                out.push('}');
            }
            // Writing to a string cannot fail.
            Self::Null | Self::Bool(_) | Self::Number(_) => drop(write!(out, "{self}")),
        }
    }
}

/// A value that is spelled already.
impl PushJson for String {
    fn push_json(&self, out: &mut String) {
        out.push_str(self);
    }
}

/// Appends a text as a JSON string, in the spelling of `serde_json`.
pub(crate) fn push_string(out: &mut String, text: &str) {
    out.reserve(text.len() + 2);
    out.push('"');
    let mut rest = text;
    while let Some(at) = first_escaped(rest.as_bytes()) {
        let Some((before, from)) = rest.split_at_checked(at) else {
            break;
        };
        out.push_str(before);
        match from.as_bytes().first() {
            Some(b'\n') => out.push_str("\\n"),
            Some(b'"') => out.push_str("\\\""),
            Some(b'\\') => out.push_str("\\\\"),
            Some(b'\t') => out.push_str("\\t"),
            Some(b'\r') => out.push_str("\\r"),
            Some(8) => out.push_str("\\b"),
            Some(12) => out.push_str("\\f"),
            Some(byte) => drop(write!(out, "\\u{byte:04x}")),
            None => {}
        }
        rest = from.get(1..).unwrap_or_default();
    }
    out.push_str(rest);
    out.push('"');
}

/// The first byte that a JSON string must escape: a control character, `"` or `\`.
///
/// Compares eight bytes at a time. In `differs - 0x01 & !differs`, the high bit of the lowest byte
/// that is zero is the lowest one that is set.
fn first_escaped(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    let (words, rest) = bytes.as_chunks::<8>();
    for (number, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        let quote = word ^ (ONES * 0x22);
        let quote = quote.wrapping_sub(ONES) & !quote;
        let backslash = word ^ (ONES * 0x5c);
        let backslash = backslash.wrapping_sub(ONES) & !backslash;
        let found = (control | quote | backslash) & HIGH;
        if found != 0 {
            return Some(number * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let is_escaped = |byte: &u8| *byte < 0x20 || matches!(byte, b'"' | b'\\');
    let found = rest.iter().position(is_escaped)?;
    Some(words.len() * 8 + found)
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

#[cfg(test)]
mod tests {
    use super::{PushJson as _, unescaped};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    /// Texts with many escapes, also in the middle of eight bytes.
    fn texts() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            "[\\x00-\\x7f]{0,9}",
            "[a-z ]{0,20}",
            any::<char>().prop_map(String::from),
            Just("\u{7f}\u{80}é😀".to_owned()),
        ];
        proptest::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn strings_are_spelled_as_by_serde_json(text in texts(), key in texts()) {
            let values = [json!(text), json!([]), json!({}), json!({key: [text, 1.5, null, true]})];
            for value in values {
                let mut written = String::new();
                value.push_json(&mut written);
                prop_assert_eq!(written, value.to_string());
            }
        }

        #[test]
        fn escapes_are_read_as_by_serde_json(
            parts in proptest::collection::vec(prop_oneof![
                "[a-z]{0,12}",
                "\\\\[nrtbf/\"\\\\]",
                "\\\\u[0-9a-fA-F]{4}",
                "\\\\u[dD][89abAB][0-9a-f]{2}",
                "\\\\u[dD][c-fC-F][0-9a-f]{2}",
                Just("\\ud83d\\uDE00".to_owned()),
                Just("é😀".to_owned()),
            ], 0..12),
        ) {
            let spelled = parts.concat();
            let expected: Option<String> = serde_json::from_str(&format!("\"{spelled}\"")).ok();
            prop_assert_eq!(unescaped(&spelled).map(String::from), expected);
        }
    }

    #[test]
    fn an_unescaped_string_is_borrowed() {
        let text = Value::from("plain é");
        assert!(matches!(
            unescaped(text.as_str().unwrap()),
            Some(std::borrow::Cow::Borrowed(_))
        ));
    }
}
