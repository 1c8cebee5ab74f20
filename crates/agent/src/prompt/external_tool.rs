//! Functions that are declared and cannot be run here.

use logue_message::ToolDefinition;
use logue_tools::{BoxFuture, Tool, ToolInvocation, ToolResult};

/// A tool without an implementation: the model may call it, and the turn ends there.
#[derive(Debug)]
pub(crate) struct ExternalTool(pub(crate) ToolDefinition);

impl Tool for ExternalTool {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn call<'a>(&'a self, _: ToolInvocation<'a>) -> BoxFuture<'a, ToolResult> {
        let name = &self.0.name;
        let outcome = ToolResult::failure(format!("nothing here can run `{name}`"));
        Box::pin(std::future::ready(outcome))
    }

    fn is_runnable(&self) -> bool {
        false
    }
}
