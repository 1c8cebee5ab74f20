//! The stored form of JSON, messages and ids, which all databases share.

use logue_harness::store::{EntryPayload, StoreError};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The maximum nesting depth of JSON. Deeper values could be written and not read.
const MAX_DEPTH: usize = 512;

/// The roles with a short form, and their letters.
const LETTERS: [(char, &str); 3] = [('u', "user"), ('a', "assistant"), ('s', "system")];

/// Serialises JSON for a column.
pub(crate) fn written(value: &Value) -> Result<String, StoreError> {
    if !fits(value, MAX_DEPTH) {
        return Err(StoreError::Unavailable {
            message: format!("JSON that is nested more than {MAX_DEPTH} deep cannot be stored"),
            source: None,
        });
    }
    serde_json::to_string(value).map_err(StoreError::unavailable)
}

/// Serialises a value; `null` is stored as SQL `NULL`.
pub(crate) fn optional(value: &Value) -> Result<Option<String>, StoreError> {
    (!value.is_null()).then(|| written(value)).transpose()
}

/// Serialises what an entry asks for.
pub(crate) fn stored_work(work: &EntryPayload) -> Result<String, StoreError> {
    let value = serde_json::to_value(work).map_err(StoreError::unavailable)?;
    written(&value)
}

/// Parses the JSON of a column.
pub(crate) fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    match serde_json::from_str(text) {
        // Only nesting deeper than 128 is parsed again, with `MAX_DEPTH` as the bound.
        Err(_) if (MAX_DEPTH / 8..=MAX_DEPTH + 2).contains(&nesting(text)) => {
            let mut deserializer = serde_json::Deserializer::from_str(text);
            deserializer.disable_recursion_limit();
            let value = T::deserialize(&mut deserializer)?;
            deserializer.end()?;
            Ok(value)
        }
        result => result,
    }
}

/// Returns the nesting depth of the brackets of a JSON text.
fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    let (mut quoted, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

fn fits(value: &Value, left: usize) -> bool {
    match value {
        Value::Array(items) => left > 0 && items.iter().all(|item| fits(item, left - 1)),
        Value::Object(members) => left > 0 && members.values().all(|item| fits(item, left - 1)),
        _ => true,
    }
}

/// Serialises a message for its column.
pub(crate) fn written_message(message: &Value) -> Result<String, StoreError> {
    short(message).map_or_else(|| written(message), Ok)
}

/// Returns the short form, if the message has one.
fn short(message: &Value) -> Option<String> {
    let mut members = message.as_object()?.iter();
    let (role, content) = (members.next()?, members.next()?);
    if members.next().is_some() || role.0 != "role" || content.0 != "content" {
        return None;
    }
    let role = role.1.as_str()?;
    let (letter, _) = LETTERS.iter().find(|(_, name)| *name == role)?;
    let content = content.1.as_str()?;
    // Functions of SQL end a text at such a byte.
    if content.contains('\0') {
        return None;
    }
    let mut body = String::with_capacity(1 + content.len());
    body.push(*letter);
    body.push_str(content);
    Some(body)
}

/// Parses a message that [`written_message`] serialised.
pub(crate) fn parsed_message(body: &str) -> Result<Value, serde_json::Error> {
    let known = LETTERS.iter().find(|(letter, _)| body.starts_with(*letter));
    let Some((_, role)) = known else {
        return parsed(body);
    };
    let content = body.get(1..).unwrap_or_default();
    let mut message = Map::with_capacity(2);
    message.insert("role".to_owned(), Value::from(*role));
    message.insert("content".to_owned(), Value::from(content));
    Ok(Value::Object(message))
}

pub(crate) fn uuid_bytes(text: &str) -> Option<Vec<u8>> {
    if text.len() != 36 {
        return None;
    }
    let mut bytes = Vec::with_capacity(16);
    let mut high = None;
    for (index, byte) in text.bytes().enumerate() {
        let digit = match byte {
            b'-' if matches!(index, 8 | 13 | 18 | 23) => continue,
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        match high.take() {
            None => high = Some(digit),
            Some(high) => bytes.push(high << 4 | digit),
        }
    }
    // A text with dashes at other places has too many or too few digits.
    (bytes.len() == 16).then_some(bytes)
}

pub(crate) fn uuid_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
    }
    text
}
