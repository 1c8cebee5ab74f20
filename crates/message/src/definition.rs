//! What a model is told of a tool.

use serde_json::Value;

/// The declaration of one tool, as a provider is sent it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    /// The name that the model calls.
    pub name: String,
    /// What the tool does, for the model.
    pub description: String,
    /// JSON Schema of the arguments; its root is an object.
    pub parameters: Value,
    /// Whether the provider shall hold the model to the schema exactly.
    pub strict: bool,
}

impl ToolDefinition {
    /// A definition that is not strict.
    pub fn new(name: impl Into<String>, description: impl Into<String>, parameters: Value) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            parameters,
            strict: false,
        }
    }
}
