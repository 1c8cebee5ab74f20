//! The form of a message in its column.
//!
//! Most messages have a role and a text. They are one letter and the text itself, which needs a tenth
//! less of the file than their JSON. All others are JSON, which begins with another letter.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use serde_json::Value;

use crate::encoding::parsed_message;

pub(super) use crate::encoding::written_message;

/// The condition of a body that no message has.
pub(super) const INVALID: &str =
    "substr(body, 1, 1) NOT IN ('u', 'a', 's') AND NOT json_valid(body)";

/// A message that was read from its column.
pub(super) struct MessageBody(pub(super) Value);

impl FromSql for MessageBody {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let message = parsed_message(value.as_str()?);
        message
            .map(Self)
            .map_err(|error| FromSqlError::Other(Box::new(error)))
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
