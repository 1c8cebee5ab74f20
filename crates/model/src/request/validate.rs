//! Validation of requests for every provider and wire format.
//!
//! Some server would reject an invalid request with its own error, or accept and answer it wrongly. It
//! is therefore rejected before it is sent, with one error text for all providers. The text contains
//! the index of the invalid message, from 0.

use std::collections::BTreeSet;

use logue_message::{ChatMessage, Role};
use serde_json::Value;

use crate::{Category, ModelRequest, ProviderError, ToolChoice};

impl ModelRequest<'_> {
    /// Validates the request; every provider calls this before sending.
    ///
    /// The messages end with a user message or a tool result.
    /// Each message is valid for its role. The calls of a message are followed by exactly one result
    /// each, before any other message. A tool choice requires tools, and a chosen tool must be offered.
    /// The response schema has an object at its root. The time is linear in the conversation.
    ///
    /// # Errors
    /// Returns `provider_invalid_request` with the first violation.
    pub fn validate(&self) -> Result<(), ProviderError> {
        check_messages(self.messages)?;
        self.check_choice()?;
        match self.response_schema {
            Some(schema) if schema.get("type").and_then(Value::as_str) != Some("object") => Err(
                invalid("the response schema has no `\"type\": \"object\"` at its root")
                    .with_help("describe an object; an array or a string can be its property"),
            ),
            _ => Ok(()),
        }
    }

    fn check_choice(&self) -> Result<(), ProviderError> {
        let offered = |name: &str| self.tools.iter().any(|tool| tool.name == name);
        match self.tool_choice {
            ToolChoice::Required if self.tools.is_empty() => Err(invalid(
                "the tool choice requires a tool, and no tool is offered",
            )
            .with_help(
                "declare a tool in the prompt, or let the model choose: --tool-choice auto",
            )),
            ToolChoice::Tool(name) if !offered(name) => Err(invalid(format!(
                "the tool choice requires the tool `{name}`, which is not offered"
            ))
            .with_help("declare the tool in the prompt, or choose a declared tool")),
            _ => Ok(()),
        }
    }
}

fn check_messages(messages: &[ChatMessage]) -> Result<(), ProviderError> {
    let Some(last) = messages.last() else {
        return Err(invalid("the conversation is empty").with_help("add a user message"));
    };
    // The calls of the latest assistant message without a result.
    let mut open: BTreeSet<&str> = BTreeSet::new();
    let mut caller = 0;
    for (index, message) in messages.iter().enumerate() {
        if let Err(error) = message.validate() {
            return Err(at(index, message, &error.to_string()));
        }
        if message.role == Role::Tool {
            let id = message.tool_call_id.as_deref().unwrap_or_default();
            if !open.remove(id) {
                return Err(at(
                    index,
                    message,
                    &format!("it has no preceding call `{id}`"),
                ));
            }
            continue;
        }
        if let Some(id) = open.first() {
            return Err(missing_result(caller, id));
        }
        caller = index;
        open = message
            .tool_calls
            .iter()
            .map(|call| call.id.as_str())
            .collect();
    }
    if let Some(id) = open.first() {
        return Err(missing_result(caller, id));
    }
    if !matches!(last.role, Role::User | Role::Tool) {
        let index = messages.len() - 1;
        return Err(at(
            index,
            last,
            "a request must end with a user message or a tool result",
        ));
    }
    Ok(())
}

fn missing_result(index: usize, id: &str) -> ProviderError {
    invalid(format!(
        "messages[{index}] (assistant): the call `{id}` is not followed by its result"
    ))
    .with_help(HELP)
}

fn at(index: usize, message: &ChatMessage, cause: &str) -> ProviderError {
    let role = message.role.as_str();
    invalid(format!("messages[{index}] ({role}): {cause}")).with_help(HELP)
}

const HELP: &str = "correct the conversation at that message; the index counts the messages sent to the model from 0";

fn invalid(cause: impl Into<String>) -> ProviderError {
    let cause = cause.into();
    ProviderError::new(
        Category::InvalidRequest,
        format!("the request was not sent: {cause}"),
    )
    .without_quotes()
}
