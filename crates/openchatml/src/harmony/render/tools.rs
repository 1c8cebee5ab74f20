//! Tools as described to a model: namespaces of functions.

use serde_json::Value;

use super::builtin;

/// A function that the model may call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FunctionTool {
    /// Its name, without the namespace.
    pub name: String,
    /// Its description.
    pub description: String,
    /// The JSON Schema of its arguments; `None` if it takes none.
    pub parameters: Option<Value>,
}

impl FunctionTool {
    /// A function; `parameters` is a JSON Schema.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: Option<Value>,
    ) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            parameters,
        }
    }
}

/// Functions under one name.
///
/// ```
/// use openchatml::harmony::{RenderMessage, DeveloperContent, FunctionTool, RenderOptions, ToolNamespace};
/// use serde_json::json;
///
/// let lamp = FunctionTool::new("lamp", "Switches the lamp.", Some(json!({
///     "type": "object",
///     "properties": {"on": {"type": "boolean", "description": "Whether it shines."}},
///     "required": ["on"],
/// })));
/// let content = DeveloperContent::new("Be brief.").with_tools(ToolNamespace::functions([lamp]));
/// assert_eq!(
///     RenderMessage::developer(content).to_text(false, &RenderOptions::default())?,
///     "<|start|>developer<|message|># Instructions\n\nBe brief.\n\n\u{23} Tools\n\n\
///      \u{23}# functions\n\nnamespace functions {\n\n\
///      // Switches the lamp.\ntype lamp = (_: {\n// Whether it shines.\non: boolean,\n}) => any;\n\n\
///      } // namespace functions<|end|>",
/// );
/// # Ok::<(), openchatml::harmony::RenderError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolNamespace {
    /// The name before the dot of a recipient.
    pub name: String,
    /// Its purpose.
    pub description: Option<String>,
    /// Its functions. A namespace without any is a tool itself.
    pub functions: Vec<FunctionTool>,
}

impl ToolNamespace {
    /// The namespace of what the developer declares.
    pub const FUNCTIONS: &'static str = "functions";

    /// A namespace without a description.
    pub fn new(name: impl Into<String>, functions: impl IntoIterator<Item = FunctionTool>) -> Self {
        Self {
            name: name.into(),
            description: None,
            functions: functions.into_iter().collect(),
        }
    }

    /// The namespace `functions`.
    pub fn functions(functions: impl IntoIterator<Item = FunctionTool>) -> Self {
        Self::new(Self::FUNCTIONS, functions)
    }

    /// The browser that models of this format know, in the words that they know.
    pub fn browser() -> Self {
        builtin::browser()
    }

    /// The Python interpreter that models of this format know, in the words that they know.
    pub fn python() -> Self {
        builtin::python()
    }

    /// Sets the description.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }
}
