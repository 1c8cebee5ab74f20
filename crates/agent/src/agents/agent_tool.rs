//! A prompt as a tool (ChatMD §5.3): the model sends it a text and receives its response.

use logue_message::{ContentBlock, ToolDefinition};
use logue_tools::{BoxFuture, Tool, ToolInvocation, ToolResult};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::prompt::scope::{AgentRequest, CachePolicy, PromptScope};

/// A tool that runs another prompt, with a new history for each call.
#[derive(Debug)]
pub(crate) struct AgentTool {
    definition: ToolDefinition,
    scope: PromptScope,
    src: String,
    local: bool,
}

impl AgentTool {
    pub(crate) fn new(
        name: &str,
        description: Option<&str>,
        src: &str,
        local: bool,
        scope: PromptScope,
    ) -> Self {
        Self {
            definition: agent_definition(name, description, src),
            scope,
            src: src.to_owned(),
            local,
        }
    }
}

/// Returns the definition of an agent as a tool.
pub(crate) fn agent_definition(name: &str, description: Option<&str>, src: &str) -> ToolDefinition {
    let description = description.map_or_else(
        || format!("Asks the agent {src} and gives its answer."),
        str::to_owned,
    );
    let parameters = json!({
        "type": "object",
        "properties": {
            "input": {"type": "string", "description": "The task of the agent."}
        },
        "required": ["input"],
        "additionalProperties": false
    });
    ToolDefinition::new(name, description, parameters)
}

impl Tool for AgentTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let object = call.arguments.object().unwrap_or_default();
            let input = object.get("input").and_then(Value::as_str);
            let Some(input) = input.filter(|input| !input.trim().is_empty()) else {
                return ToolResult::error(
                    "E-CALL-SCHEMA",
                    "the arguments are not an object with the string `input`, such as {\"input\": \"…\"}",
                );
            };
            let request = AgentRequest {
                src: &self.src,
                local: self.local,
                input: vec![ContentBlock::text(input)],
                freshness: CachePolicy::Fresh,
                call_id: Some(call.id),
                place: String::new(),
            };
            match self.scope.ask_agent(request).await {
                Ok(answer) => ToolResult::success(answer),
                Err(failure) => failure.into_result(),
            }
        })
    }

    /// Identifies the agent by the text of its prompt.
    fn fingerprint<'a>(&'a self, _: ToolInvocation<'a>) -> BoxFuture<'a, Option<String>> {
        let prompt = self.scope.files.prompt(&self.src).ok();
        let prompt = prompt.filter(|_| self.local);
        let digest = prompt.map(|(text, _)| format!("{:x}", Sha256::digest(text)));
        Box::pin(std::future::ready(digest))
    }
}
