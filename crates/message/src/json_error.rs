//! The error of the JSON form of a message.

use std::fmt;

use serde_json::Value;

/// Maximum length of a quoted word, in characters.
const MAX_WORD_CHARS: usize = 40;

/// An invalid JSON form of a message, from [`ChatMessage::from_json`](crate::ChatMessage::from_json).
///
/// ```
/// use logue_message::ChatMessage;
/// use serde_json::json;
///
/// let error = ChatMessage::from_json(&json!({"role": "bot"})).unwrap_err();
/// assert_eq!(error.path(), "role");
/// assert_eq!(
///     error.to_string(),
///     "role: expected system, developer, user, assistant or tool, found `bot`"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageJsonError {
    path: String,
    expected: &'static str,
    found: Option<String>,
}

impl MessageJsonError {
    /// Creates an error about a value of a wrong type.
    pub(crate) fn type_of(path: &str, expected: &'static str, value: &Value) -> Self {
        let found = match value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        Self {
            path: path.to_owned(),
            expected,
            found: Some(found.to_owned()),
        }
    }

    /// Creates an error about an unknown word.
    pub(crate) fn word(path: &str, expected: &'static str, word: &str) -> Self {
        let mut found: String = word.chars().take(MAX_WORD_CHARS).collect();
        if found.len() < word.len() {
            found.push('…');
        }
        Self {
            path: path.to_owned(),
            expected,
            found: Some(format!("`{}`", found.escape_debug())),
        }
    }

    /// Creates an error about a missing field.
    pub(crate) fn missing(path: &str, expected: &'static str) -> Self {
        Self {
            path: path.to_owned(),
            expected,
            found: None,
        }
    }

    /// Returns the path of the invalid value, such as `content[1].source.url`.
    ///
    /// The path of the message itself is empty.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the expected type or words.
    pub const fn expected(&self) -> &'static str {
        self.expected
    }

    /// Returns the type or word in the JSON, or `None` if the field is missing.
    pub fn found(&self) -> Option<&str> {
        self.found.as_deref()
    }
}

impl fmt::Display for MessageJsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        match &self.found {
            Some(found) => write!(f, "expected {}, found {found}", self.expected),
            None => write!(f, "missing; expected {}", self.expected),
        }
    }
}

impl std::error::Error for MessageJsonError {}
