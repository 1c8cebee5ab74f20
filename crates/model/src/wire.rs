//! A request as the Chat Completions format writes it.

use logue_message::{
    CallKind, ChatMessage, Content, ContentBlock, ImageSource, Role, ToolDefinition,
};
use serde_json::{Map, Value, json};

use crate::choosing::{Choice, Offer, SCHEMA_NAME, is_strict, sampling, schema_instruction};
use crate::normalise::normalise;
use crate::rules::{Effort, SchemaBy};
use crate::{Category, ProviderError, Request, Rules};

/// A wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wire {
    /// Chat Completions: `POST BASE/chat/completions`.
    Chat,
    /// `OpenAI` Responses: `POST BASE/responses`.
    Responses,
    /// Anthropic Messages: `POST BASE/v1/messages`.
    Anthropic,
}

/// The body of a request.
///
/// # Errors
/// The request holds what the format or the server cannot carry.
pub(crate) fn request_body(
    request: &Request<'_>,
    rules: &Rules,
    stream: bool,
) -> Result<Value, ProviderError> {
    let offer = Offer::of(request, rules)?;
    let mut body = Map::new();
    body.insert("model".into(), json!(request.model));
    let mut messages = normalise(request.messages, rules)?;
    if let (Some(schema), SchemaBy::JsonObject) = (request.response_schema, rules.schema) {
        instruct(&mut messages, &schema_instruction(schema));
    }
    let messages: Vec<Value> = messages
        .iter()
        .map(|message| message_body(message, rules))
        .collect::<Result<_, _>>()?;
    body.insert("messages".into(), Value::Array(messages));
    if !offer.tools.is_empty() {
        let tools = offer.tools.iter().map(|tool| {
            let mut tool = ToolDefinition::clone(tool);
            tool.strict &= rules.strict_tools;
            tool_body(&tool)
        });
        body.insert("tools".into(), tools.collect());
    }
    let choice = match offer.choice {
        Choice::Auto => None,
        Choice::None => Some(json!("none")),
        Choice::Required => Some(json!("required")),
        Choice::Tool(name) => Some(json!({"type": "function", "function": {"name": name}})),
    };
    if let Some(choice) = choice {
        body.insert("tool_choice".into(), choice);
    }
    if let Some(schema) = request.response_schema {
        let format = match rules.schema {
            SchemaBy::JsonObject => json!({"type": "json_object"}),
            SchemaBy::Schema | SchemaBy::AnswerTool => json!({
                "type": "json_schema",
                "json_schema": {"name": SCHEMA_NAME, "schema": schema, "strict": is_strict(schema)},
            }),
        };
        body.insert("response_format".into(), format);
    }
    for (key, value) in sampling(request, rules)? {
        body.insert(key.into(), value);
    }
    if let Some(max_tokens) = request.settings.max_tokens.or(rules.max_tokens) {
        body.insert(rules.max_tokens_field.into(), json!(max_tokens));
    }
    if let Some(effort) = &request.settings.reasoning_effort {
        if rules.effort == Effort::Object {
            body.insert("reasoning".into(), json!({"effort": effort}));
        } else {
            body.insert("reasoning_effort".into(), json!(effort));
        }
    }
    body.insert("stream".into(), json!(stream));
    if stream && rules.stream_usage {
        body.insert("stream_options".into(), json!({"include_usage": true}));
    }
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

/// Adds words to the instructions of a conversation.
pub(crate) fn instruct(messages: &mut Vec<ChatMessage>, words: &str) {
    match messages.first_mut() {
        Some(first) if first.role == Role::System => {
            first.content = Content::Text(format!("{}\n\n{words}", first.text()));
        }
        _ => messages.insert(0, ChatMessage::system(words)),
    }
}

/// The address of a picture, for formats that take inline data as one.
pub(crate) fn image_url(source: &ImageSource, media_type: Option<&str>) -> String {
    match source {
        ImageSource::Url(url) => url.clone(),
        ImageSource::Inline(data) => {
            format!("data:{};base64,{data}", media_type.unwrap_or("image/png"))
        }
    }
}

fn message_body(message: &ChatMessage, rules: &Rules) -> Result<Value, ProviderError> {
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
            if let (Some(field), false) = (rules.reasoning_field, reasoning.is_empty()) {
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
                json!(image_url(source, media_type.as_deref())),
            );
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
