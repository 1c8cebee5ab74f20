//! Replies of tools, and the deadline of a call (OpenChatML 2.2 §8.2).

use logue_message::Arguments;
use logue_source::DiagnosticCode;
use serde_json::{Map, Value};

/// The recommended envelope of a tool's reply: `{"ok", "content", "error", "provenance"}`.
///
/// ```
/// use openchatml::ReplyEnvelope;
/// use logue_source::DiagnosticCode;
///
/// let reply = ReplyEnvelope::parse(r#"{"ok": false, "error": {"code": "E-TOOL-TIMEOUT"}}"#).unwrap();
/// assert_eq!(reply.error_code(), Some(DiagnosticCode::ToolTimeout));
/// assert!(ReplyEnvelope::parse("14 °C").is_none());
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ReplyEnvelope {
    /// Whether the tool did what it was asked.
    pub ok: bool,
    /// The result; null if there is none.
    pub content: Value,
    /// The error, if there is one.
    pub error: Option<ReplyError>,
    /// The origin of the content: a source, a checksum, a time.
    pub provenance: Map<String, Value>,
    /// Other members, in order.
    pub extra: Map<String, Value>,
}

/// An error of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplyError {
    /// A code, of this crate or of the tool.
    pub code: Option<String>,
    /// A description in words.
    pub message: Option<String>,
}

impl ReplyEnvelope {
    /// The envelope in the body of a reply. `None` if the body is not an envelope: tools may answer
    /// anything. It is one if it is a JSON object with `ok` as a boolean, and its `error`, if
    /// there is one, agrees with that.
    pub fn parse(body: &str) -> Option<Self> {
        let Ok(Value::Object(mut object)) = serde_json::from_str(body) else {
            return None;
        };
        let ok = object.shift_remove("ok")?.as_bool()?;
        let error = match object.shift_remove("error") {
            None | Some(Value::Null) => None,
            Some(_) if ok => return None,
            Some(error) => Some(ReplyError::read(error)),
        };
        let content = object.shift_remove("content").unwrap_or_default();
        let provenance = match object.shift_remove("provenance") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(provenance)) => provenance,
            Some(other) => Map::from_iter([("source".to_owned(), other)]),
        };
        Some(Self {
            ok,
            content,
            error,
            provenance,
            extra: object,
        })
    }

    /// The error's code, if it is one of OpenChatML: [`DiagnosticCode::ToolTimeout`],
    /// [`DiagnosticCode::ToolCancelled`], [`DiagnosticCode::CallSchema`] and so on.
    pub fn error_code(&self) -> Option<DiagnosticCode> {
        let code = self.error.as_ref()?.code.as_deref()?;
        DiagnosticCode::ALL
            .iter()
            .copied()
            .find(|known| known.as_str() == code)
    }
}

impl ReplyError {
    /// Reads an error from an object or a text.
    ///
    /// An object has `code` and `message`. A text is a code or begins with one: `E-CODE: message`.
    fn read(error: Value) -> Self {
        match error {
            Value::String(text) => Self::of_text(text),
            Value::Object(mut object) => {
                let mut text = |key| match object.shift_remove(key) {
                    Some(Value::String(text)) => Some(text),
                    _ => None,
                };
                Self {
                    code: text("code"),
                    message: text("message"),
                }
            }
            _ => Self::default(),
        }
    }

    fn of_text(text: String) -> Self {
        let (head, rest) = match text.split_once(':') {
            Some((head, rest)) => (head, Some(rest.trim().to_owned())),
            None => (text.as_str(), None),
        };
        let is_code = head.starts_with("E-") && !head.contains(char::is_whitespace);
        if is_code {
            let code = Some(head.to_owned());
            return Self {
                code,
                message: rest,
            };
        }
        Self {
            code: None,
            message: Some(text),
        }
    }
}

/// The deadline that a call's body sets in `deadline_ms`, in milliseconds.
///
/// `None` if the body is not a JSON object or sets none that is a positive integer. Linear in the
/// body.
///
/// ```
/// assert_eq!(openchatml::deadline_ms(r#"{"city": "Oslo", "deadline_ms": 1500}"#), Some(1500));
/// ```
pub fn deadline_ms(body: &str) -> Option<u64> {
    let arguments = Arguments::from_text(body);
    let split = arguments.split_deadline(&Value::Null).ok()?;
    u64::try_from(split.deadline?.as_millis()).ok()
}
