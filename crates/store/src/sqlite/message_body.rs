//! The form of a message in its column.
//!
//! Most messages have a role and a text. They are one letter and the text itself, which needs a tenth
//! less of the file than their JSON. All others are JSON, which begins with another letter.

use logue_harness::store::StoreError;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use serde_json::{Map, Value};

use super::column::{Json, written};

/// The roles with a short form, and their letters.
const LETTERS: [(char, &str); 3] = [('u', "user"), ('a', "assistant"), ('s', "system")];

/// The condition of a body that no message has.
pub(super) const INVALID: &str =
    "substr(body, 1, 1) NOT IN ('u', 'a', 's') AND NOT json_valid(body)";

/// Serialises a message for its column.
pub(super) fn written_message(message: &Value) -> Result<String, StoreError> {
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

/// A message that was read from its column.
pub(super) struct MessageBody(pub(super) Value);

impl FromSql for MessageBody {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let ValueRef::Text(bytes) = value else {
            return Err(FromSqlError::InvalidType);
        };
        let known = LETTERS.iter().find(|(letter, _)| {
            bytes
                .first()
                .is_some_and(|byte| char::from(*byte) == *letter)
        });
        let Some((_, role)) = known else {
            return Json::column_result(value).map(|json| Self(json.0));
        };
        let content = value.as_str()?.get(1..).unwrap_or_default();
        let mut message = Map::with_capacity(2);
        message.insert("role".to_owned(), Value::from(*role));
        message.insert("content".to_owned(), Value::from(content));
        Ok(Self(Value::Object(message)))
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::types::{FromSql as _, ValueRef};
    use serde_json::{Value, json};

    use super::{MessageBody, written_message};

    /// Every message reads back equal, with its members in order.
    #[test]
    fn messages_read_back() {
        for (message, body) in [
            (json!({"role": "user", "content": "hi"}), "uhi"),
            (json!({"role": "assistant", "content": ""}), "a"),
            (json!({"role": "system", "content": "{\"a\"}"}), "s{\"a\"}"),
            (json!({"role": "user", "content": "é\n\"\\"}), "ué\n\"\\"),
            (
                json!({"content": "hi", "role": "user"}),
                r#"{"content":"hi","role":"user"}"#,
            ),
            (
                json!({"role": "user", "content": "a\0b"}),
                r#"{"role":"user","content":"a\u0000b"}"#,
            ),
            (
                json!({"role": "tool", "content": "42", "tool_call_id": "c"}),
                r#"{"role":"tool","content":"42","tool_call_id":"c"}"#,
            ),
            (
                json!({"role": "user", "content": [{"type": "text", "text": "x"}]}),
                r#"{"role":"user","content":[{"type":"text","text":"x"}]}"#,
            ),
            (json!("user"), r#""user""#),
            (Value::Null, "null"),
        ] {
            let written = written_message(&message).unwrap();
            assert_eq!(written, body);
            let read = MessageBody::column_result(ValueRef::Text(written.as_bytes())).unwrap();
            assert_eq!(read.0.to_string(), message.to_string());
        }
    }

    #[test]
    fn other_bodies_are_errors() {
        for body in ["", "x", "{", "Uhi"] {
            let read = MessageBody::column_result(ValueRef::Text(body.as_bytes()));
            assert!(read.is_err(), "{body}");
        }
        assert!(MessageBody::column_result(ValueRef::Text(b"u\xff")).is_err());
        assert!(MessageBody::column_result(ValueRef::Blob(b"uhi")).is_err());
    }
}
