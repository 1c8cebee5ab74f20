//! The tools of one run, and only those.

use std::sync::Arc;

use logue_message::{ToolCall, ToolDefinition};

use crate::{Call, Outcome, Preview, Tool};

/// The declared tools in the order of their declaration.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: Vec<Arc<dyn Tool>>,
    definitions: Vec<ToolDefinition>,
}

impl std::fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.definitions.iter().map(|tool| &tool.name))
            .finish()
    }
}

/// A tool that cannot join the others.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolboxError {
    /// Another tool has the same name.
    Duplicate(String),
}

impl std::fmt::Display for ToolboxError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Duplicate(name) => write!(f, "two tools are named `{name}`"),
        }
    }
}

impl std::error::Error for ToolboxError {}

impl Toolbox {
    /// A toolbox with nothing in it: every call is refused.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool.
    ///
    /// # Errors
    /// Another tool has the same name.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), ToolboxError> {
        let definition = tool.definition().clone();
        if self
            .definitions
            .iter()
            .any(|other| other.name == definition.name)
        {
            return Err(ToolboxError::Duplicate(definition.name));
        }
        self.definitions.push(definition);
        self.tools.push(tool);
        Ok(())
    }

    /// What the model is told, in the order of declaration.
    pub fn definitions(&self) -> &[ToolDefinition] {
        &self.definitions
    }

    /// The tool of that name, if it is declared.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools
            .iter()
            .find(|tool| tool.definition().name == name)
    }

    /// Runs a call; a tool that nobody declared is refused.
    pub async fn call(&self, call: &ToolCall) -> Outcome {
        self.call_approved(call, None).await
    }

    /// Runs a call as it was approved: `approved` is the fingerprint of the preview that was shown.
    pub async fn call_approved(&self, call: &ToolCall, approved: Option<&str>) -> Outcome {
        let Some(tool) = self.get(&call.name) else {
            return self.undeclared(&call.name);
        };
        tool.call(Call::from(call).approved_as(approved)).await
    }

    /// The outcome of a call of a tool that is not here.
    pub(crate) fn undeclared(&self, name: &str) -> Outcome {
        let declared = self
            .definitions
            .iter()
            .map(|definition| definition.name.as_str());
        let declared: Vec<&str> = declared.collect();
        let declared = if declared.is_empty() {
            "none".to_owned()
        } else {
            declared.join(", ")
        };
        Outcome::error(
            "E-CALL-SCHEMA",
            format_args!(
                "no tool named `{name}` is declared, so it was not run. Declared tools: {declared}"
            ),
        )
    }

    /// What a call would do, if its tool says more than its arguments do. A call of an undeclared tool
    /// would do nothing.
    pub async fn preview(&self, call: &ToolCall) -> Option<Preview> {
        self.get(&call.name)?.preview(call.into()).await
    }
}
