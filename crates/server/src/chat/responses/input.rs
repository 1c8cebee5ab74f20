//! The input of a request for a response.

use logue_message::{ChatMessage, Content, ContentBlock, Role};
use serde_json::Value;

use super::ids::ApprovalId;
use crate::chat::accepted_images::check_images;
use crate::chat::completions::image;
use crate::chat::problem::Problem;

/// The input of a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ResponseInput {
    /// A message, after others that begin the conversation.
    Message {
        earlier: Vec<ChatMessage>,
        message: ChatMessage,
    },
    /// Decisions about calls that wait for a person.
    Decisions(Vec<CallDecision>),
}

/// The decision about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CallDecision {
    pub(super) id: ApprovalId,
    pub(super) is_approved: bool,
    pub(super) reason: Option<String>,
}

/// An item of the input.
enum Item {
    Message(ChatMessage),
    Decision(CallDecision),
    /// An output of the server that a client returns.
    Own,
}

/// Parses the input and the instructions of a request.
///
/// Instructions, and messages of the roles `system` and `developer`, have the rank of a user.
/// Adjacent messages of this rank become one.
///
/// # Errors
/// Returns a problem if an item is malformed or of an unknown type.
pub(super) fn parse_input(
    input: &Value,
    instructions: Option<&str>,
) -> Result<ResponseInput, Problem> {
    let mut messages = Vec::new();
    let mut decisions = Vec::new();
    match input {
        Value::String(text) => messages.push(ChatMessage::user(text.as_str())),
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                let item = parse_item(item)
                    .map_err(|cause| Problem::invalid(format!("input[{at}]: {cause}")))?;
                match item {
                    Item::Message(message) => messages.push(message),
                    Item::Decision(decision) => decisions.push(decision),
                    Item::Own => {}
                }
            }
        }
        _ => {
            return Err(Problem::invalid(
                "`input` must be a text or a list of items",
            ));
        }
    }
    if !decisions.is_empty() {
        if messages.last().is_some_and(|last| last.role == Role::User) {
            return Err(Problem::invalid(
                "`input` has a decision and a message: send the decision alone, and the message after \
                 its response",
            ));
        }
        return Ok(ResponseInput::Decisions(decisions));
    }
    let mut messages = joined(messages);
    match messages.pop() {
        Some(mut message) if message.role == Role::User => {
            if let Some(instructions) = instructions {
                let mut blocks = vec![ContentBlock::text(instructions)];
                blocks.extend(blocks_of(message.content));
                message.content = Content::Blocks(blocks);
            }
            message
                .validate()
                .map_err(|error| Problem::invalid(format!("`input`: {error}")))?;
            let earlier = messages;
            Ok(ResponseInput::Message { earlier, message })
        }
        _ => Err(Problem::invalid(
            "the last item of `input` must be a message of the user",
        )),
    }
}

/// Parses items that begin a conversation.
///
/// # Errors
/// Returns a problem if an item is not a message.
pub(super) fn parse_items(items: &[Value]) -> Result<Vec<ChatMessage>, Problem> {
    let mut messages = Vec::new();
    for (at, item) in items.iter().enumerate() {
        match parse_item(item) {
            Ok(Item::Message(message)) => messages.push(message),
            Ok(Item::Own) => {}
            Ok(Item::Decision(_)) => {
                return Err(Problem::invalid(format!("items[{at}]: nothing waits yet")));
            }
            Err(cause) => return Err(Problem::invalid(format!("items[{at}]: {cause}"))),
        }
    }
    Ok(joined(messages))
}

/// Joins adjacent messages of one role.
fn joined(messages: Vec<ChatMessage>) -> Vec<ChatMessage> {
    let mut joined: Vec<ChatMessage> = Vec::with_capacity(messages.len());
    for message in messages {
        match joined.last_mut() {
            Some(last) if last.role == message.role => {
                let content = std::mem::replace(&mut last.content, "".into());
                let mut blocks = blocks_of(content);
                blocks.extend(blocks_of(message.content));
                last.content = Content::Blocks(blocks);
            }
            _ => joined.push(message),
        }
    }
    joined
}

fn blocks_of(content: Content) -> Vec<ContentBlock> {
    match content {
        Content::Absent => Vec::new(),
        Content::Text(text) => vec![ContentBlock::text(text)],
        Content::Blocks(blocks) => blocks,
    }
}

fn parse_item(item: &Value) -> Result<Item, String> {
    match item.get("type").and_then(Value::as_str) {
        Some("message") | None => match parse_message(item)? {
            Some(message) => Ok(Item::Message(message)),
            None => Ok(Item::Own),
        },
        Some("mcp_approval_response") => parse_decision(item).map(Item::Decision),
        // The session contains the calls of tools, and reasoning is never returned.
        Some("reasoning" | "mcp_call" | "mcp_list_tools" | "mcp_approval_request") => Ok(Item::Own),
        Some("function_call" | "function_call_output") => {
            Err("calls are not accepted: the server runs the tools".to_owned())
        }
        Some(kind) => Err(format!("items of the type `{kind}` are not accepted")),
    }
}

fn parse_decision(item: &Value) -> Result<CallDecision, String> {
    let text = |name: &str| item.get(name).and_then(Value::as_str);
    let id = text("approval_request_id").ok_or("`approval_request_id` is missing")?;
    let id = ApprovalId::parse(id).ok_or_else(|| format!("no call waits for `{id}`"))?;
    let is_approved = item.get("approve").and_then(Value::as_bool);
    Ok(CallDecision {
        id,
        is_approved: is_approved.ok_or("`approve` must be true or false")?,
        reason: text("reason").map(str::to_owned),
    })
}

/// Parses a message; `None` for an answer without text.
fn parse_message(item: &Value) -> Result<Option<ChatMessage>, String> {
    let content = match item.get("content") {
        Some(Value::String(text)) => Content::from(text.as_str()),
        Some(Value::Array(parts)) => {
            let blocks = parts
                .iter()
                .map(parse_part)
                .collect::<Result<Vec<_>, _>>()?;
            match blocks.as_slice() {
                [ContentBlock::Text { text, .. }] => text.as_str().into(),
                _ => blocks.into(),
            }
        }
        _ => return Err("`content` must be a text or a list of parts".to_owned()),
    };
    match item.get("role").and_then(Value::as_str) {
        Some("user" | "system" | "developer") => {
            let message = ChatMessage::user(content);
            message.validate().map_err(|error| error.to_string())?;
            check_images(&message)?;
            Ok(Some(message))
        }
        Some("assistant") => {
            let message = ChatMessage::assistant(content);
            Ok((!message.text().is_empty()).then_some(message))
        }
        Some(role) => Err(format!("the role `{role}` is not accepted")),
        None => Err("`role` is missing".to_owned()),
    }
}

fn parse_part(part: &Value) -> Result<ContentBlock, String> {
    let text = |name: &str| {
        let text = part.get(name).and_then(Value::as_str);
        text.ok_or_else(|| format!("a part requires `{name}`"))
    };
    match part.get("type").and_then(Value::as_str) {
        Some("input_text" | "output_text" | "text") => Ok(ContentBlock::text(text("text")?)),
        Some("refusal") => Ok(ContentBlock::text(text("refusal")?)),
        Some("input_image") => {
            let detail = part.get("detail").and_then(Value::as_str);
            Ok(image(text("image_url")?, detail))
        }
        Some(kind) => Err(format!("parts of the type `{kind}` are not accepted")),
        None => Err("a part requires `type`".to_owned()),
    }
}
