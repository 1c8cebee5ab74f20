//! The declaration of a tool.

use serde_json::Value;

/// The declaration of one tool in a provider request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolDefinition {
    /// The name of the tool in calls.
    pub name: String,
    /// The purpose of the tool, written for the model.
    pub description: String,
    /// JSON Schema of the arguments; its root is an object.
    pub parameters: Value,
    /// Whether the provider should enforce the schema exactly.
    pub strict: bool,
}

impl ToolDefinition {
    /// Creates a definition that is not strict.
    pub fn new(name: impl Into<String>, description: impl Into<String>, parameters: Value) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            parameters,
            strict: false,
        }
    }

    /// Sets whether the provider should enforce the schema exactly.
    #[must_use]
    pub const fn with_strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }
}
