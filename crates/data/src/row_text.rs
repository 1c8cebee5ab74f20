//! Rows that contain one text.

use std::borrow::Cow;
use std::fmt;

use memchr::memmem;
use serde::Deserialize;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// Returns the text of a row `{"text": …}`, in which `convert` writes textual forms.
pub fn row_text(line: &[u8]) -> Option<String> {
    // Almost every other row has no such key at any depth, and is not parsed for it.
    if memmem::find(line, b"\"text\"").is_none() && !has_escaped_letter(line) {
        return None;
    }
    let mut row = serde_json::Deserializer::from_slice(line);
    let value = row.deserialize_map(TextVisitor).ok()?;
    row.end().ok()?;
    match value? {
        Value::String(text) => Some(text),
        _ => None,
    }
}

/// Returns whether a letter of `text` may be spelled as an escape.
fn has_escaped_letter(line: &[u8]) -> bool {
    let mut escapes = memmem::find_iter(line, b"\\u00");
    escapes.any(|at| matches!(line.get(at + 4..at + 6), Some(b"74" | b"65" | b"78")))
}

/// Takes the last value of the key `text`, as a map does.
struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a row")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut row: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = row.next_key::<Key>()? {
            if key.0 == "text" {
                found = Some(row.next_value()?);
            } else {
                row.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// A key, borrowed if it has no escape.
#[derive(Deserialize)]
#[serde(transparent)]
struct Key<'k>(#[serde(borrow)] Cow<'k, str>);
