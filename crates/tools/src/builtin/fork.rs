//! `fork`: a copy of the conversation that works on one task.
//!
//! A turn runs it, because a tool has neither the conversation nor the model. This is its
//! definition.

use logue_message::ToolDefinition;
use serde_json::json;

use crate::{BoxFuture, Tool, ToolInvocation, ToolResult};

/// The definition of `fork`.
#[derive(Clone, Debug)]
pub(super) struct Fork(ToolDefinition);

impl Fork {
    pub(super) fn new() -> Self {
        let description = "Gives one task to a copy of this conversation, which has all of its \
                           history and most of its tools, and returns the result of the copy. \
                           The steps of the copy are not added to this conversation.";
        let parameters = json!({
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "The task, in one sentence"},
                "arguments": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Details of the task, such as paths, names and limits",
                },
            },
            "required": ["command", "arguments"],
            "additionalProperties": false,
        });
        Self(ToolDefinition::new("fork", description, parameters))
    }
}

impl Tool for Fork {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn call<'a>(&'a self, _: ToolInvocation<'a>) -> BoxFuture<'a, ToolResult> {
        let refused = ToolResult::failure("`fork` runs only in a turn, so it was not run");
        Box::pin(std::future::ready(refused))
    }
}
