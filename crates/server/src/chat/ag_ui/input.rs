//! Inputs of runs.

use logue_message::{ChatMessage, Content, ContentBlock, ImageSource};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::chat::accepted_images::check_images;
use crate::chat::problem::Problem;

/// The longest id of a run, in bytes.
const MAX_RUN: usize = 255;

/// The input of a run.
///
/// Unknown fields are ignored, as the protocol requires of a server.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    thread_id: String,
    run_id: String,
    messages: Vec<Value>,
    #[serde(default)]
    resume: Option<Vec<ResumeEntry>>,
    #[serde(default)]
    tools: Option<Vec<Value>>,
    #[serde(default)]
    context: Option<Vec<Value>>,
    #[serde(default)]
    state: Value,
    #[serde(default)]
    forwarded_props: Value,
}

/// The answer to one interrupt.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResumeEntry {
    pub(super) interrupt_id: String,
    pub(super) status: ResumeStatus,
    #[serde(default)]
    pub(super) payload: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ResumeStatus {
    Resolved,
    Cancelled,
}

/// The purpose of a run.
pub(super) enum RunPurpose {
    /// A new message of the user.
    Message(ChatMessage),
    /// Answers to the open interrupts.
    Resume(Vec<ResumeEntry>),
    /// Neither: the client reads the thread.
    Connect,
}

/// A checked input.
pub(super) struct RunInput {
    pub(super) thread: String,
    pub(super) run: String,
    pub(super) purpose: RunPurpose,
    /// The messages before the new one, as the client has them.
    pub(super) earlier: Vec<Value>,
    /// The parts of the input that have no effect.
    pub(super) ignored: Option<Value>,
}

impl RunInput {
    /// Parses and checks a body.
    ///
    /// # Errors
    /// Returns a problem if a field is missing or malformed.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Problem> {
        let body: Body = serde_json::from_slice(bytes)
            .map_err(|error| Problem::invalid(format!("invalid run input: {error}")))?;
        for (at, message) in body.messages.iter().enumerate() {
            check_role(message)
                .map_err(|cause| Problem::invalid(format!("messages[{at}]: {cause}")))?;
        }
        if body.run_id.is_empty() || body.run_id.len() > MAX_RUN {
            return Err(Problem::invalid(format!(
                "`runId` has 1 to {MAX_RUN} bytes"
            )));
        }
        let ignored = ignored(&body);
        let mut earlier = body.messages;
        let purpose = match body.resume {
            // An empty list answers nothing.
            Some(resume) if !resume.is_empty() => RunPurpose::Resume(resume),
            _ if earlier.last().is_some_and(is_of_user) => {
                let message = earlier.pop().unwrap_or_default();
                RunPurpose::Message(user_message(&message)?)
            }
            _ => RunPurpose::Connect,
        };
        Ok(Self {
            thread: body.thread_id,
            run: body.run_id,
            purpose,
            earlier,
            ignored,
        })
    }
}

/// Refuses a message whose role the protocol does not have.
///
/// As the last message, it would turn the run into one that only reads.
fn check_role(message: &Value) -> Result<(), String> {
    const ROLES: [&str; 7] = [
        "activity",
        "assistant",
        "developer",
        "reasoning",
        "system",
        "tool",
        "user",
    ];
    match message.get("role").and_then(Value::as_str) {
        Some(role) if ROLES.contains(&role) => Ok(()),
        Some(role) => Err(format!("the role `{role}` is not accepted")),
        None => Err("`role` is missing".to_owned()),
    }
}

fn is_of_user(message: &Value) -> bool {
    message.get("role").and_then(Value::as_str) == Some("user")
}

/// Returns the parts of an input that have no effect, for the client.
fn ignored(body: &Body) -> Option<Value> {
    let mut ignored = serde_json::Map::new();
    let tools = body.tools.as_deref().unwrap_or_default();
    if !tools.is_empty() {
        let names = tools.iter().filter_map(|tool| tool.get("name"));
        ignored.insert("tools".to_owned(), names.cloned().collect());
    }
    let context = body.context.as_deref().unwrap_or_default();
    if !context.is_empty() {
        ignored.insert("context".to_owned(), json!(context.len()));
    }
    for (name, value) in [
        ("state", &body.state),
        ("forwardedProps", &body.forwarded_props),
    ] {
        let is_empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
        if !is_empty {
            ignored.insert(name.to_owned(), json!(true));
        }
    }
    let instructions = body.messages.iter().filter(|message| {
        let role = message.get("role").and_then(Value::as_str);
        matches!(role, Some("system" | "developer"))
    });
    let instructions = instructions.count();
    if instructions > 0 {
        ignored.insert("instructions".to_owned(), json!(instructions));
    }
    (!ignored.is_empty()).then_some(Value::Object(ignored))
}

/// Reads a message of the user.
///
/// # Errors
/// Returns a problem if its content is empty or has a part that no agent reads.
pub(super) fn user_message(message: &Value) -> Result<ChatMessage, Problem> {
    let content = content(message.get("content"))
        .map_err(|cause| Problem::invalid(format!("the message of the user: {cause}")))?;
    let message = ChatMessage::user(content);
    message
        .validate()
        .map_err(|error| error.to_string())
        .and_then(|()| check_images(&message))
        .map_err(|cause| Problem::invalid(format!("the message of the user: {cause}")))?;
    Ok(message)
}

fn content(content: Option<&Value>) -> Result<Content, String> {
    match content {
        Some(Value::String(text)) => Ok(text.as_str().into()),
        Some(Value::Array(parts)) => {
            let blocks = parts.iter().map(block).collect::<Result<Vec<_>, _>>()?;
            match blocks.as_slice() {
                [ContentBlock::Text { text, .. }] => Ok(text.as_str().into()),
                _ => Ok(blocks.into()),
            }
        }
        _ => Err("`content` must be a text or a list of parts".to_owned()),
    }
}

fn block(part: &Value) -> Result<ContentBlock, String> {
    let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
    match kind {
        "text" => {
            let text = part.get("text").and_then(Value::as_str);
            let text = text.ok_or("a part of the type `text` requires `text`")?;
            Ok(ContentBlock::text(text))
        }
        "image" => image(part.get("source")).ok_or_else(|| {
            "a part of the type `image` requires `source` with `type` data or url and `value`"
                .to_owned()
        }),
        kind => Err(format!("parts of the type `{kind}` are not accepted")),
    }
}

fn image(source: Option<&Value>) -> Option<ContentBlock> {
    let field = |name: &str| source?.get(name)?.as_str();
    let (kind, value) = (field("type")?, field("value")?);
    match kind {
        "data" => Some(ContentBlock::inline_image(field("mimeType")?, value)),
        "url" => Some(ContentBlock::Image {
            source: ImageSource::Url(value.to_owned()),
            media_type: field("mimeType").map(str::to_owned),
            detail: None,
        }),
        _ => None,
    }
}
