//! Messages of Chat Completions as messages of a Harmony prompt.

use logue_message::{ChatMessage, Content, ContentBlock, ToolCall};
use serde_json::Value;

/// The fields in which clients send reasoning back.
const REASONING_FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "thinking"];

/// Parses the messages of a request.
///
/// Messages without any content are left out, as servers do.
///
/// # Errors
/// Returns the cause if a message is malformed.
pub(super) fn chat_messages(messages: &[Value]) -> Result<Vec<ChatMessage>, String> {
    let mut parsed = Vec::with_capacity(messages.len());
    for (at, message) in messages.iter().enumerate() {
        let message = parse(message).map_err(|cause| format!("messages[{at}]: {cause}"))?;
        parsed.extend(message);
    }
    Ok(parsed)
}

fn parse(message: &Value) -> Result<Option<ChatMessage>, String> {
    let role = message.get("role").and_then(Value::as_str);
    let text = text(message.get("content"))?;
    let name = message.get("name").and_then(Value::as_str);
    let parsed = match role {
        Some("system" | "developer" | "assistant") if is_void(message, &text) => return Ok(None),
        Some("system") => ChatMessage::system(text),
        Some("developer") => ChatMessage::developer(text),
        Some("user") => {
            let user = ChatMessage::user(text);
            match name {
                Some(name) => user.with_name(name),
                None => user,
            }
        }
        Some("assistant") => assistant(message, text)?,
        Some("tool") => {
            let id = message.get("tool_call_id").and_then(Value::as_str);
            ChatMessage::tool(id.ok_or("`tool_call_id` is missing")?, text)
        }
        Some(role) => {
            return Err(format!(
                "the role `{}` is not accepted",
                role.escape_debug()
            ));
        }
        None => return Err("`role` is missing".to_owned()),
    };
    parsed.validate().map_err(|error| error.to_string())?;
    Ok(Some(parsed))
}

/// Returns whether a message has neither text nor calls.
fn is_void(message: &Value, text: &str) -> bool {
    let calls = message.get("tool_calls").and_then(Value::as_array);
    text.is_empty() && calls.is_none_or(Vec::is_empty)
}

fn assistant(message: &Value, text: String) -> Result<ChatMessage, String> {
    let calls = match message.get("tool_calls") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(calls)) => calls.iter().map(call).collect::<Result<_, _>>()?,
        Some(_) => return Err("`tool_calls` must be a list".to_owned()),
    };
    let content = match reasoning(message) {
        None if text.is_empty() => Content::Absent,
        None => Content::Text(text),
        Some(reasoning) => {
            let text = (!text.is_empty()).then(|| ContentBlock::text(text));
            let blocks = std::iter::once(ContentBlock::thinking(reasoning)).chain(text);
            Content::Blocks(blocks.collect())
        }
    };
    Ok(ChatMessage::assistant(content).with_tool_calls(calls))
}

fn reasoning(message: &Value) -> Option<String> {
    let mut fields = REASONING_FIELDS.iter();
    fields.find_map(|field| {
        let text = message.get(field)?.as_str()?;
        (!text.is_empty()).then(|| text.to_owned())
    })
}

fn call(call: &Value) -> Result<ToolCall, String> {
    let text = |pointer: &str| call.pointer(pointer).and_then(Value::as_str);
    let id = text("/id").ok_or("a call requires `id`")?;
    let name = text("/function/name").ok_or("a call requires `function.name`")?;
    let arguments = text("/function/arguments").unwrap_or("{}");
    Ok(ToolCall::new(id, name, arguments))
}

/// Returns the text of a content: a string, or parts of text.
fn text(content: Option<&Value>) -> Result<String, String> {
    let parts = match content {
        None | Some(Value::Null) => return Ok(String::new()),
        Some(Value::String(text)) => return Ok(text.clone()),
        Some(Value::Array(parts)) => parts,
        Some(_) => return Err("`content` must be a text or a list of parts".to_owned()),
    };
    let mut texts = Vec::with_capacity(parts.len());
    for part in parts {
        let text = part.get("text").and_then(Value::as_str);
        match (part.get("type").and_then(Value::as_str), text) {
            (Some("text" | "input_text" | "output_text") | None, Some(text)) => texts.push(text),
            (Some("refusal"), _) => texts.extend(part.get("refusal").and_then(Value::as_str)),
            (Some(kind), _) => {
                let kind = kind.escape_debug();
                return Err(format!(
                    "parts of the type `{kind}` are not accepted: the model reads text only"
                ));
            }
            (None, None) => return Err("a part requires `type` and `text`".to_owned()),
        }
    }
    Ok(texts.join("\n"))
}
