//! A function that somebody declares and nothing here can run.

use logue_message::ToolDefinition;
use logue_tools::{BoxFuture, Tool, ToolInvocation, ToolResult};

/// Offered to the model; a turn ends where it is called.
#[derive(Debug)]
pub(crate) struct Declared(pub(crate) ToolDefinition);

impl Tool for Declared {
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
