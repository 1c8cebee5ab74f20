//! Messages, tools and settings as the Chat Completions format writes them.

use logue_message::{Block, CallKind, ChatMessage, Content, ImageSource, Role, ToolDefinition};
use serde_json::{Map, Value, json};

use crate::dialect::Dialect;
use crate::{Category, ProviderError, Request};

/// The body of a streaming request.
///
/// # Errors
/// A message holds content that the format cannot carry.
pub(crate) fn request_body(
    request: &Request<'_>,
    dialect: Dialect,
) -> Result<Value, ProviderError> {
    let mut body = Map::new();
    body.insert("model".into(), json!(request.model));
    let messages: Vec<Value> = request
        .messages
        .iter()
        .map(|message| message_body(message, dialect))
        .collect::<Result<_, _>>()?;
    body.insert("messages".into(), Value::Array(messages));
    if !request.tools.is_empty() {
        body.insert(
            "tools".into(),
            request.tools.iter().map(tool_body).collect(),
        );
    }
    if let Some(temperature) = request.settings.temperature {
        body.insert("temperature".into(), json!(temperature));
    }
    if let Some(max_tokens) = request.settings.max_tokens {
        body.insert(dialect.max_tokens_field().into(), json!(max_tokens));
    }
    if let Some(effort) = &request.settings.reasoning_effort {
        body.insert("reasoning_effort".into(), json!(effort));
    }
    for (name, value) in request.settings.further() {
        body.insert(name.into(), value);
    }
    body.insert("stream".into(), json!(true));
    body.insert("stream_options".into(), json!({"include_usage": true}));
    Ok(Value::Object(body))
}

/// A tool as the format declares it.
pub(crate) fn tool_body(tool: &ToolDefinition) -> Value {
    let mut function = Map::new();
    function.insert("name".into(), json!(tool.name));
    function.insert("description".into(), json!(tool.description));
    function.insert("parameters".into(), tool.parameters.clone());
    if tool.strict {
        function.insert("strict".into(), json!(true));
    }
    json!({"type": "function", "function": function})
}

fn message_body(message: &ChatMessage, dialect: Dialect) -> Result<Value, ProviderError> {
    let mut body = Map::new();
    let role = match message.role {
        Role::System if message.developer && dialect.knows_developer() => "developer",
        role => role.as_str(),
    };
    body.insert("role".into(), json!(role));
    match message.role {
        Role::Assistant => {
            let text = message.text();
            let content = if text.is_empty() && !message.tool_calls.is_empty() {
                Value::Null
            } else {
                json!(text)
            };
            body.insert("content".into(), content);
            if !message.tool_calls.is_empty() {
                let calls = message.tool_calls.iter().map(|call| match call.kind {
                    CallKind::Function => json!({"id": call.id, "type": "function",
                        "function": {"name": call.name, "arguments": call.arguments.as_str()}}),
                    CallKind::Custom => json!({"id": call.id, "type": "custom",
                        "custom": {"name": call.name, "input": call.arguments.as_str()}}),
                });
                body.insert("tool_calls".into(), calls.collect());
            }
        }
        Role::Tool => {
            body.insert("tool_call_id".into(), json!(message.tool_call_id));
            body.insert("content".into(), json!(message.text()));
        }
        Role::System | Role::User => {
            body.insert("content".into(), content_body(&message.content)?);
            if let Some(name) = &message.name {
                body.insert("name".into(), json!(name));
            }
        }
    }
    Ok(Value::Object(body))
}

fn content_body(content: &Content) -> Result<Value, ProviderError> {
    let blocks = match content {
        Content::Absent => return Ok(json!("")),
        Content::Text(text) => return Ok(json!(text)),
        Content::Blocks(blocks) => blocks,
    };
    let parts = blocks.iter().map(|block| match block {
        Block::Text { text, .. } => Ok(json!({"type": "text", "text": text})),
        Block::Image {
            source,
            media_type,
            detail,
        } => {
            let url = match source {
                ImageSource::Url(url) => url.clone(),
                ImageSource::Inline(data) => {
                    format!(
                        "data:{};base64,{data}",
                        media_type.as_deref().unwrap_or("image/png")
                    )
                }
            };
            let mut image = Map::new();
            image.insert("url".into(), json!(url));
            if let Some(detail) = detail {
                image.insert("detail".into(), json!(detail.as_str()));
            }
            Ok(json!({"type": "image_url", "image_url": image}))
        }
        _ => Err(ProviderError::new(
            Category::UnsupportedContentBlock,
            "Chat Completions carries text and images in a user message, nothing else",
        )),
    });
    parts.collect::<Result<Vec<Value>, _>>().map(Value::Array)
}
