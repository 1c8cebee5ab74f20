//! A tool call and its arguments, kept verbatim.
//!
//! Models produce arguments as JSON text, sometimes invalid JSON. The text is stored, recorded and
//! sent back unchanged, because a re-serialised object would differ from the original and miss a
//! provider's prompt cache. [`Arguments::object`] parses the text.

use serde_json::{Map, Value};

/// The kind of a call: function, or a provider's "custom" call with free text.
///
/// ChatMD §7.1 closes the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CallKind {
    /// A call with JSON arguments.
    #[default]
    Function,
    /// A call with free text (`type="custom_tool_call"` in ChatMD §7.1).
    Custom,
}

/// A call of one tool.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolCall {
    /// The id, unique within its message; kept verbatim.
    pub id: String,
    /// The tool's name, without a `functions.` prefix.
    pub name: String,
    /// The arguments.
    pub arguments: Arguments,
    /// Function or custom.
    pub kind: CallKind,
    /// A provider's signature over the call.
    pub signature: Option<String>,
}

impl ToolCall {
    /// Creates a function call.
    pub fn new(
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            arguments: Arguments::from_text(arguments),
            kind: CallKind::Function,
            signature: None,
        }
    }

    /// Sets the kind of the call.
    #[must_use]
    pub const fn with_kind(mut self, kind: CallKind) -> Self {
        self.kind = kind;
        self
    }

    /// Sets the provider's signature over the call.
    #[must_use]
    pub fn with_signature(mut self, signature: impl Into<Option<String>>) -> Self {
        self.signature = signature.into();
        self
    }
}

/// The arguments of a call: verbatim text that should be a JSON object.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Arguments(String);

impl Arguments {
    /// Creates arguments from the text of a model, valid or not.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Creates arguments from an object, as compact JSON in the object's order.
    pub fn from_object(object: &Map<String, Value>) -> Self {
        Self(Value::Object(object.clone()).to_string())
    }

    /// Returns the verbatim text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Parses the arguments as an object.
    ///
    /// Empty text counts as an empty object, because several servers send it for tools without
    /// parameters.
    ///
    /// # Errors
    ///
    /// Returns [`ArgumentsError`] if the text is invalid JSON or not an object.
    pub fn object(&self) -> Result<Map<String, Value>, ArgumentsError> {
        if self.0.trim().is_empty() {
            return Ok(Map::new());
        }
        match serde_json::from_str::<Value>(&self.0) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(other) => Err(ArgumentsError {
                reason: format!("not a JSON object but {}", kind_of(&other)),
            }),
            Err(error) => Err(ArgumentsError {
                reason: format!("not valid JSON: {error}"),
            }),
        }
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// The reason why arguments are not a JSON object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentsError {
    reason: String,
}

impl std::fmt::Display for ArgumentsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for ArgumentsError {}
