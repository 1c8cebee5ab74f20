//! Messages as items of a response, of its input, and of a conversation.

use logue_agent::is_pending;
use logue_message::{ChatMessage, Content, ContentBlock, ImageSource, Role, ToolCall};
use serde_json::{Value, json};

use super::ids::ApprovalId;
use crate::chat::visible::visible_message;

/// The name of the server of all tools.
const SERVER: &str = "logue";

/// Returns the items of answers, of which `earlier` are the messages before.
///
/// Calls become `mcp_call` items when they have their results. Text before a call is not part of a
/// structured answer, which clients parse.
pub(super) fn output_items(
    suffix: &str,
    earlier: &[ChatMessage],
    messages: &[ChatMessage],
    is_structured: bool,
) -> Vec<Value> {
    let mut items = Vec::new();
    let mut texts = 0;
    let known: Vec<&ToolCall> = earlier
        .iter()
        .chain(messages)
        .flat_map(|message| &message.tool_calls)
        .collect();
    for message in messages.iter().filter_map(visible_message) {
        match message.role {
            Role::Assistant if !is_pending(&message) => {
                let text = message.text();
                let is_left_out = is_structured && !message.tool_calls.is_empty();
                if !text.is_empty() && !is_left_out {
                    let id = message_id(suffix, texts);
                    let status = if message.interrupted {
                        "incomplete"
                    } else {
                        "completed"
                    };
                    items.push(message_item(&id, &text, status));
                    texts += 1;
                }
            }
            Role::Tool => {
                let id = message.tool_call_id.as_deref().unwrap_or_default();
                // Ids of calls may repeat: the latest call is meant.
                let call = known.iter().rev().find(|call| call.id == id);
                if let Some(call) = call {
                    items.push(call_item(
                        suffix,
                        (id, &call.name, call.arguments.as_str()),
                        Some(&message.text()),
                    ));
                }
            }
            _ => {}
        }
    }
    items
}

/// Returns the id of the `n`-th text of a response.
pub(super) fn message_id(suffix: &str, n: usize) -> String {
    format!("msg_{suffix}_{n}")
}

/// Returns the id of a call of a response.
pub(super) fn call_id(suffix: &str, call: &str) -> String {
    format!("mcp_{suffix}_{call}")
}

/// Returns an answer as an item.
pub(super) fn message_item(id: &str, text: &str, status: &str) -> Value {
    json!({"id": id, "type": "message", "role": "assistant", "status": status,
        "content": [text_part(text)]})
}

/// Returns a text of an answer.
pub(super) fn text_part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

/// Returns a call of a tool as an item, with its result in `output`.
pub(super) fn call_item(
    suffix: &str,
    (call, name, arguments): (&str, &str, &str),
    output: Option<&str>,
) -> Value {
    let status = match output {
        None => "in_progress",
        Some(output) if is_failure(output) => "failed",
        Some(_) => "completed",
    };
    let error = output.filter(|output| is_failure(output));
    let error = error.map(|output| json!({"type": "mcp_tool_execution_error", "content": output}));
    json!({"id": call_id(suffix, call), "type": "mcp_call", "status": status, "name": name,
        "arguments": arguments, "server_label": SERVER, "approval_request_id": null,
        "output": output, "error": error})
}

/// Returns whether the result of a call is an error.
fn is_failure(output: &str) -> bool {
    let code = output.split_once(':').map_or("", |(code, _)| code);
    code.starts_with("E-")
        && code
            .bytes()
            .all(|byte| byte == b'-' || byte.is_ascii_uppercase())
}

/// Returns the calls that wait for a person as items, by the visible signal.
pub(super) fn approval_items(signal: &Value) -> Vec<Value> {
    let id = signal["signal_id"].as_str().unwrap_or_default();
    let calls = signal["calls"].as_array().into_iter().flatten();
    let items = calls.map(|call| {
        let own = call["id"].as_str().unwrap_or_default();
        let arguments = match &call["arguments"] {
            Value::String(text) => text.clone(),
            arguments => arguments.to_string(),
        };
        json!({"id": ApprovalId::new(id, own).to_string(), "type": "mcp_approval_request",
            "server_label": SERVER, "name": call["name"], "arguments": arguments})
    });
    items.collect()
}

/// Returns a message of the user as an item of an input.
pub(super) fn input_item(id: &str, content: &[ContentBlock]) -> Value {
    let parts: Vec<Value> = content.iter().filter_map(input_part).collect();
    json!({"id": id, "type": "message", "role": "user", "status": "completed", "content": parts})
}

fn input_part(block: &ContentBlock) -> Option<Value> {
    match block {
        ContentBlock::Text { text, .. } => Some(json!({"type": "input_text", "text": text})),
        ContentBlock::Image {
            source,
            media_type,
            detail,
        } => {
            let url = match source {
                ImageSource::Url(url) => url.clone(),
                ImageSource::Inline(data) => {
                    let media_type = media_type.as_deref().unwrap_or("image/png");
                    format!("data:{media_type};base64,{data}")
                }
                _ => return None,
            };
            let detail = detail.map_or("auto", logue_message::ImageDetail::as_str);
            Some(json!({"type": "input_image", "image_url": url, "detail": detail}))
        }
        _ => None,
    }
}

/// Returns the parts of a content.
pub(super) fn blocks(content: &Content) -> Vec<ContentBlock> {
    match content {
        Content::Absent => Vec::new(),
        Content::Text(text) => vec![ContentBlock::text(text.as_str())],
        Content::Blocks(blocks) => blocks.clone(),
    }
}
