//! A tool call and its arguments, kept as the text that the model produced.
//!
//! Models produce arguments as JSON text, sometimes broken JSON. The text is what is stored,
//! recorded and sent back, because a re-serialised object would neither be what was said nor hit a
//! provider's prompt cache; [`Arguments::object`] gives the parsed form to whoever runs the call.

use serde_json::{Map, Value};

/// Whether a call is a function call or a provider's "custom" call with free-form input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CallKind {
    /// JSON arguments.
    #[default]
    Function,
    /// Free text (`type="custom_tool_call"` in ChatMD §7.1).
    Custom,
}

/// A call of one tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// Unique within its message; kept verbatim.
    pub id: String,
    /// The tool's name, without a `functions.` prefix.
    pub name: String,
    /// What it is called with.
    pub arguments: Arguments,
    /// Function or custom.
    pub kind: CallKind,
    /// A provider's signature over the call.
    pub signature: Option<String>,
}

impl ToolCall {
    /// A function call.
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
}

/// The arguments of a call: verbatim text that should be a JSON object.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Arguments(String);

impl Arguments {
    /// Arguments from the text that a model produced, valid or not.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Arguments from an object, written as compact JSON in the object's own order.
    pub fn from_object(object: &Map<String, Value>) -> Self {
        Self(Value::Object(object.clone()).to_string())
    }

    /// The verbatim text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The arguments as an object. Empty text counts as an empty object, because several servers
    /// send it for tools without parameters.
    ///
    /// # Errors
    /// The text is not JSON, or is JSON but no object.
    pub fn object(&self) -> Result<Map<String, Value>, ArgumentsError> {
        if self.0.trim().is_empty() {
            return Ok(Map::new());
        }
        match serde_json::from_str::<Value>(&self.0) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(other) => Err(ArgumentsError {
                reason: format!("expected a JSON object, found {}", kind_of(&other)),
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

/// Why arguments are no object.
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
