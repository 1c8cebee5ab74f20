//! What no provider may be sent, whatever its wire format.
//!
//! A request that breaks a rule here would be refused by some server in words of its own, or worse,
//! be taken and answered wrongly. So it is refused before anything is sent, in the same words for
//! every provider, with the message at fault by its index from 0.

use std::collections::BTreeSet;

use logue_message::{ChatMessage, Role};
use serde_json::Value;

use crate::{Category, ProviderError, Request, ToolChoice};

impl Request<'_> {
    /// Whether any provider may be sent this. Every provider asks this first.
    ///
    /// The messages begin with the system or the user and end with the user or a tool; each keeps the
    /// rules of its role; the calls of a message are followed by one result each and by nothing else
    /// before them. A choice of tools needs tools, and a chosen one has to be offered. The schema of
    /// an answer has an object at its root. Linear in the size of the conversation.
    ///
    /// # Errors
    /// `provider_invalid_request`, with the first rule that is broken.
    pub fn validate(&self) -> Result<(), ProviderError> {
        check_messages(self.messages)?;
        self.check_choice()?;
        match self.response_schema {
            Some(schema) if schema.get("type").and_then(Value::as_str) != Some("object") => Err(
                refused("the response schema has no `\"type\": \"object\"` at its root").with_help(
                    "let the schema describe an object; a list or a word can be its property",
                ),
            ),
            _ => Ok(()),
        }
    }

    fn check_choice(&self) -> Result<(), ProviderError> {
        let offered = |name: &str| self.tools.iter().any(|tool| tool.name == name);
        match self.tool_choice {
            ToolChoice::Required if self.tools.is_empty() => Err(refused(
                "a tool is to be called, and none is offered",
            )
            .with_help(
                "declare a tool in the prompt, or let the model choose: --tool-choice auto",
            )),
            ToolChoice::Tool(name) if !offered(name) => Err(refused(format!(
                "the tool `{name}` is to be called, and is not offered"
            ))
            .with_help("declare the tool in the prompt, or choose one that is declared")),
            _ => Ok(()),
        }
    }
}

fn check_messages(messages: &[ChatMessage]) -> Result<(), ProviderError> {
    let (Some(first), Some(last)) = (messages.first(), messages.last()) else {
        return Err(refused("there is no message").with_help("say something first"));
    };
    // Calls of the latest message that have no result yet.
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
                    &format!("it answers no call before it (`{id}`)"),
                ));
            }
            continue;
        }
        if let Some(id) = open.first() {
            return Err(unanswered(caller, id));
        }
        caller = index;
        open = message
            .tool_calls
            .iter()
            .map(|call| call.id.as_str())
            .collect();
    }
    if let Some(id) = open.first() {
        return Err(unanswered(caller, id));
    }
    if !matches!(first.role, Role::System | Role::User) {
        return Err(at(
            0,
            first,
            "a conversation begins with the system or the user",
        ));
    }
    if !matches!(last.role, Role::User | Role::Tool) {
        let index = messages.len() - 1;
        return Err(at(index, last, "a request ends with the user or a tool"));
    }
    Ok(())
}

fn unanswered(index: usize, id: &str) -> ProviderError {
    refused(format!(
        "messages[{index}] (assistant): the call `{id}` has no result behind it"
    ))
    .with_help(HELP)
}

fn at(index: usize, message: &ChatMessage, why: &str) -> ProviderError {
    let role = message.role.as_str();
    refused(format!("messages[{index}] ({role}): {why}")).with_help(HELP)
}

const HELP: &str =
    "mend the conversation at that message; its index counts from 0 in what the model is sent";

fn refused(why: impl Into<String>) -> ProviderError {
    let why = why.into();
    ProviderError::new(
        Category::InvalidRequest,
        format!("the request was not sent: {why}"),
    )
}
