//! Encoding of a Chat Completions request.

use logue_message::{CallKind, ChatMessage, Content, ContentBlock, Role, ToolDefinition};
use serde_json::{Map, Value, json};

use super::decode::ChatDecoder;
use crate::http::RequestTarget;
use crate::server::{EffortEncoding, StructuredOutputMode};
use crate::wire::definition::WireRequest;
use crate::wire::normalize::normalize;
use crate::wire::request_options::{
    RequestTools, ResolvedToolChoice, SCHEMA_NAME, add_instruction, image_url, is_strict, sampling,
    schema_instruction,
};
use crate::{Category, ModelRequest, ProviderError, ServerProfile};

/// Encodes a request.
pub(super) fn encode<'r>(
    request: &'r ModelRequest<'r>,
    profile: &ServerProfile,
    stream: bool,
) -> Result<WireRequest<'r>, ProviderError> {
    let body = encode_body(request, profile, stream)?;
    Ok(WireRequest::new(
        RequestTarget::from_path(&["chat", "completions"]),
        body,
        Box::<ChatDecoder>::default(),
    ))
}

fn encode_body(
    request: &ModelRequest<'_>,
    profile: &ServerProfile,
    stream: bool,
) -> Result<Value, ProviderError> {
    let options = RequestTools::new(request, profile)?;
    let mut body = Map::new();
    body.insert("model".into(), json!(request.model));
    let mut messages = normalize(request.messages, profile)?;
    if let (Some(schema), StructuredOutputMode::JsonObject) =
        (request.response_schema, profile.structured_output)
    {
        add_instruction(&mut messages, &schema_instruction(schema));
    }
    let messages: Vec<Value> = messages
        .iter()
        .map(|message| message_body(message, profile))
        .collect::<Result<_, _>>()?;
    body.insert("messages".into(), Value::Array(messages));
    if !options.tools.is_empty() {
        let tools = options.tools.iter().map(|tool| {
            let mut tool = ToolDefinition::clone(tool);
            tool.strict &= profile.supports_strict_tools;
            tool_body(&tool)
        });
        body.insert("tools".into(), tools.collect());
    }
    let choice = match options.choice {
        ResolvedToolChoice::Auto => None,
        ResolvedToolChoice::None => Some(json!("none")),
        ResolvedToolChoice::Required => Some(json!("required")),
        ResolvedToolChoice::Tool(name) => {
            Some(json!({"type": "function", "function": {"name": name}}))
        }
    };
    if let Some(choice) = choice {
        body.insert("tool_choice".into(), choice);
    }
    if let Some(schema) = request.response_schema {
        let format = match profile.structured_output {
            StructuredOutputMode::JsonObject => json!({"type": "json_object"}),
            StructuredOutputMode::Schema | StructuredOutputMode::AnswerTool => json!({
                "type": "json_schema",
                "json_schema": {"name": SCHEMA_NAME, "schema": schema, "strict": is_strict(schema)},
            }),
        };
        body.insert("response_format".into(), format);
    }
    for (key, value) in sampling(request, profile)? {
        body.insert(key.into(), value);
    }
    if let Some(max_tokens) = request.settings.max_tokens.or(profile.max_tokens) {
        body.insert(profile.max_tokens_field.into(), json!(max_tokens));
    }
    if let Some(effort) = &request.settings.reasoning_effort {
        if profile.effort_encoding == EffortEncoding::Object {
            body.insert("reasoning".into(), json!({"effort": effort}));
        } else {
            body.insert("reasoning_effort".into(), json!(effort));
        }
    }
    body.insert("stream".into(), json!(stream));
    if stream && profile.requests_stream_usage {
        body.insert("stream_options".into(), json!({"include_usage": true}));
    }
    Ok(Value::Object(body))
}

/// Returns a tool declaration in the format.
pub(crate) fn tool_body(tool: &ToolDefinition) -> Value {
    let mut function = Map::new();
    function.insert("name".into(), json!(tool.name));
    function.insert("description".into(), json!(tool.description));
    function.insert("parameters".into(), tool.provider_parameters());
    if tool.strict {
        function.insert("strict".into(), json!(true));
    }
    json!({"type": "function", "function": function})
}

fn message_body(message: &ChatMessage, profile: &ServerProfile) -> Result<Value, ProviderError> {
    let mut body = Map::new();
    let role = match message.role {
        Role::System if message.developer => "developer",
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
            let reasoning = reasoning_of(message);
            if let (Some(field), false) = (profile.reasoning_field, reasoning.is_empty()) {
                body.insert(field.into(), json!(reasoning));
            }
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

fn reasoning_of(message: &ChatMessage) -> String {
    let Content::Blocks(blocks) = &message.content else {
        return String::new();
    };
    let texts = blocks.iter().filter_map(|block| match block {
        ContentBlock::Thinking { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

fn content_body(content: &Content) -> Result<Value, ProviderError> {
    let blocks = match content {
        Content::Absent => return Ok(json!("")),
        Content::Text(text) => return Ok(json!(text)),
        Content::Blocks(blocks) => blocks,
    };
    let parts = blocks.iter().map(|block| match block {
        ContentBlock::Text { text, .. } => Ok(json!({"type": "text", "text": text})),
        ContentBlock::Image {
            source,
            media_type,
            detail,
        } => {
            let mut image = Map::new();
            image.insert(
                "url".into(),
                json!(image_url(source, media_type.as_deref())?),
            );
            if let Some(detail) = detail {
                image.insert("detail".into(), json!(detail.as_str()));
            }
            Ok(json!({"type": "image_url", "image_url": image}))
        }
        _ => Err(ProviderError::new(
            Category::UnsupportedContentBlock,
            "a user message of Chat Completions supports only text and images",
        )),
    });
    parts.collect::<Result<Vec<Value>, _>>().map(Value::Array)
}
