//! Items of a response's input as messages of Chat Completions.

use serde_json::{Value, json};

/// Returns the messages of an input.
///
/// Reasoning, text and calls that follow one another become one message of the assistant.
///
/// # Errors
/// Returns the cause if an item is not accepted.
pub(super) fn messages(input: &Value, instructions: Option<&str>) -> Result<Vec<Value>, String> {
    let mut messages = Vec::new();
    if let Some(text) = instructions {
        messages.push(json!({"role": "developer", "content": text}));
    }
    let items = match input {
        Value::String(text) => {
            messages.push(json!({"role": "user", "content": text}));
            return Ok(messages);
        }
        Value::Array(items) => items,
        _ => return Err("`input` must be a text or a list of items".to_owned()),
    };
    for (at, item) in items.iter().enumerate() {
        add(&mut messages, item).map_err(|cause| format!("input[{at}]: {cause}"))?;
    }
    Ok(messages)
}

fn add(messages: &mut Vec<Value>, item: &Value) -> Result<(), String> {
    let field = |name: &str| item.get(name).cloned().unwrap_or_default();
    match item.get("type").and_then(Value::as_str) {
        None | Some("message") if item["role"] != "assistant" => {
            messages.push(json!({"role": field("role"), "content": field("content")}));
        }
        None | Some("message") => match assistant(messages) {
            Some(open) if open["content"].is_null() && open["tool_calls"].is_null() => {
                open["content"] = field("content");
            }
            _ => messages.push(json!({"role": "assistant", "content": field("content")})),
        },
        Some("reasoning") => {
            let text = reasoning(item);
            match assistant(messages) {
                Some(open) if open["content"].is_null() && open["tool_calls"].is_null() => {
                    let earlier = open["reasoning"].as_str().unwrap_or_default();
                    open["reasoning"] = json!(format!("{earlier}{text}"));
                }
                _ => messages.push(json!({"role": "assistant", "reasoning": text})),
            }
        }
        Some("function_call") => {
            let call = json!({"id": field("call_id"), "type": "function",
                "function": {"name": field("name"), "arguments": field("arguments")}});
            match assistant(messages) {
                Some(open) => match open["tool_calls"].as_array_mut() {
                    Some(calls) => calls.push(call),
                    None => open["tool_calls"] = json!([call]),
                },
                None => messages.push(json!({"role": "assistant", "tool_calls": [call]})),
            }
        }
        Some("function_call_output") => messages.push(json!({"role": "tool",
            "tool_call_id": field("call_id"), "content": field("output")})),
        Some(kind) => {
            return Err(format!(
                "items of the type `{}` are not accepted",
                kind.escape_debug()
            ));
        }
    }
    Ok(())
}

/// Returns the last message if it is the assistant's.
fn assistant(messages: &mut [Value]) -> Option<&mut Value> {
    let last = messages.last_mut();
    last.filter(|message| message["role"] == "assistant")
}

fn reasoning(item: &Value) -> String {
    let parts = item["content"].as_array().into_iter().flatten();
    parts.filter_map(|part| part["text"].as_str()).collect()
}
