//! Messages in the form of AG-UI.

use logue_agent::is_pending;
use logue_message::{ChatMessage, Content, ContentBlock, ImageSource, Role, ToolCall};
use serde_json::{Map, Value, json};

use crate::chat::visible::visible_message;

/// Returns stored messages, from position `from` of the history on, as a client receives them.
///
/// Lists of pending calls are left out: the interrupts contain them.
pub(super) fn snapshot(from: u64, stored: &[Value]) -> Vec<Value> {
    let numbered = (from..).zip(stored);
    let messages = numbered.filter_map(|(at, message)| {
        let message = shown(message)?;
        Some(message_json(&format!("message-{at}"), &message))
    });
    messages.collect()
}

/// Returns the part of a message that a client receives; `None` if it receives nothing.
pub(super) fn shown(message: &Value) -> Option<ChatMessage> {
    let message = ChatMessage::from_json(message).ok()?;
    if is_pending(&message) {
        return None;
    }
    visible_message(&message)
}

/// Returns a message in the form of AG-UI.
pub(super) fn message_json(id: &str, message: &ChatMessage) -> Value {
    let mut json = Map::new();
    json.insert("id".to_owned(), json!(id));
    json.insert("role".to_owned(), json!(message.role.as_str()));
    match message.role {
        Role::Assistant => {
            let text = message.text();
            if !text.is_empty() {
                json.insert("content".to_owned(), json!(text));
            }
            if !message.tool_calls.is_empty() {
                let calls = message.tool_calls.iter().map(call_json);
                json.insert("toolCalls".to_owned(), calls.collect());
            }
        }
        Role::Tool => {
            json.insert("toolCallId".to_owned(), json!(message.tool_call_id));
            json.insert("content".to_owned(), json!(message.text()));
        }
        Role::User | Role::System => {
            json.insert("content".to_owned(), content_json(message));
        }
    }
    Value::Object(json)
}

fn call_json(call: &ToolCall) -> Value {
    json!({"id": call.id, "type": "function",
        "function": {"name": call.name, "arguments": call.arguments.as_str()}})
}

fn content_json(message: &ChatMessage) -> Value {
    match &message.content {
        Content::Blocks(blocks) => blocks.iter().filter_map(part_json).collect(),
        _ => json!(message.text()),
    }
}

fn part_json(block: &ContentBlock) -> Option<Value> {
    match block {
        ContentBlock::Text { text, .. } => Some(json!({"type": "text", "text": text})),
        ContentBlock::Image {
            source, media_type, ..
        } => {
            let mut source = match source {
                ImageSource::Url(url) => json!({"type": "url", "value": url}),
                ImageSource::Inline(data) => json!({"type": "data", "value": data}),
                _ => return None,
            };
            if let Some(media_type) = media_type {
                source["mimeType"] = json!(media_type);
            }
            Some(json!({"type": "image", "source": source}))
        }
        _ => None,
    }
}
