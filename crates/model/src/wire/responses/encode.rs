//! Encoding of a Responses request, which is a list of items.

use logue_message::{CallKind, ChatMessage, Content, ContentBlock, Role};
use serde_json::{Map, Value, json};

use super::decode::ResponsesDecoder;
use crate::http::RequestTarget;
use crate::server::ReasoningEvidence;
use crate::wire::definition::WireRequest;
use crate::wire::normalize::normalize;
use crate::wire::request_options::{
    RequestTools, ResolvedToolChoice, SCHEMA_NAME, image_url, is_strict, sampling,
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
        RequestTarget::from_path(&["responses"]),
        body,
        Box::<ResponsesDecoder>::default(),
    ))
}

fn encode_body(
    request: &ModelRequest<'_>,
    profile: &ServerProfile,
    stream: bool,
) -> Result<Value, ProviderError> {
    let options = RequestTools::new(request, profile)?;
    let messages = normalize(request.messages, profile)?;
    let mut items = Vec::with_capacity(messages.len());
    let mut custom = Vec::new();
    for message in &messages {
        let calls = message.tool_calls.iter();
        custom.extend(
            calls
                .filter(|call| call.kind == CallKind::Custom)
                .map(|call| call.id.as_str()),
        );
        items_of(message, profile, &custom, &mut items)?;
    }
    let mut body = Map::new();
    body.insert("model".into(), json!(request.model));
    body.insert("input".into(), Value::Array(items));
    if !options.tools.is_empty() {
        // A tool without `strict` is strict in this format.
        let tools = options.tools.iter().map(|tool| {
            json!({"type": "function", "name": tool.name, "description": tool.description,
                "parameters": tool.provider_parameters(), "strict": tool.strict && profile.supports_strict_tools})
        });
        body.insert("tools".into(), tools.collect());
    }
    let choice = match options.choice {
        ResolvedToolChoice::Auto => None,
        ResolvedToolChoice::None => Some(json!("none")),
        ResolvedToolChoice::Required => Some(json!("required")),
        ResolvedToolChoice::Tool(name) => Some(json!({"type": "function", "name": name})),
    };
    if let Some(choice) = choice {
        body.insert("tool_choice".into(), choice);
    }
    if let Some(schema) = request.response_schema {
        let format = json!({"type": "json_schema", "name": SCHEMA_NAME, "schema": schema,
            "strict": is_strict(schema)});
        body.insert("text".into(), json!({"format": format}));
    }
    for (key, value) in sampling(request, profile)? {
        body.insert(key.into(), value);
    }
    if let Some(max_tokens) = request.settings.max_tokens.or(profile.max_tokens) {
        body.insert(profile.max_tokens_field.into(), json!(max_tokens));
    }
    if let Some(effort) = &request.settings.reasoning_effort {
        body.insert("reasoning".into(), json!({"effort": effort}));
    }
    body.insert("store".into(), json!(false));
    if profile.reasoning_evidence == ReasoningEvidence::Encrypted {
        body.insert("include".into(), json!(["reasoning.encrypted_content"]));
    }
    body.insert("stream".into(), json!(stream));
    Ok(Value::Object(body))
}

fn items_of(
    message: &ChatMessage,
    profile: &ServerProfile,
    custom: &[&str],
    items: &mut Vec<Value>,
) -> Result<(), ProviderError> {
    match message.role {
        Role::Assistant => {
            // Text before calls is commentary, even if it is not marked as such.
            let before_calls = profile.reasoning_evidence == ReasoningEvidence::Encrypted
                && !message.tool_calls.is_empty();
            answer_items(message, before_calls, items);
            items.extend(message.tool_calls.iter().map(|call| match call.kind {
                CallKind::Function => json!({"type": "function_call", "call_id": call.id,
                    "name": call.name, "arguments": call.arguments.as_str()}),
                CallKind::Custom => json!({"type": "custom_tool_call", "call_id": call.id,
                    "name": call.name, "input": call.arguments.as_str()}),
            }));
        }
        Role::Tool => {
            let id = message.tool_call_id.as_deref().unwrap_or_default();
            let kind = if custom.contains(&id) {
                "custom_tool_call_output"
            } else {
                "function_call_output"
            };
            let output = if message.content.has_image() {
                content_of(&message.content)?
            } else {
                json!(message.text())
            };
            items.push(json!({"type": kind, "call_id": id, "output": output}));
        }
        Role::System | Role::User => {
            let role = if message.developer {
                "developer"
            } else {
                message.role.as_str()
            };
            items.push(json!({"type": "message", "role": role,
                "content": content_of(&message.content)?}));
        }
    }
    Ok(())
}

/// Appends the text and reasoning of a response as items in order.
fn answer_items(message: &ChatMessage, before_calls: bool, items: &mut Vec<Value>) {
    let text_item = |text: &str, preamble: bool| {
        let mut item = json!({"type": "message", "role": "assistant", "content": text});
        let phase = match message.phase.as_deref() {
            _ if preamble => Some("commentary"),
            None if before_calls => Some("commentary"),
            phase => phase,
        };
        if let (Some(phase), Some(item)) = (phase, item.as_object_mut()) {
            item.insert("phase".into(), json!(phase));
        }
        item
    };
    let blocks = match &message.content {
        Content::Absent => return,
        Content::Text(text) if text.is_empty() => return,
        Content::Text(text) => return items.push(text_item(text, false)),
        Content::Blocks(blocks) => blocks,
    };
    let mut open: Option<Reasoning<'_>> = None;
    for block in blocks {
        match block {
            ContentBlock::Thinking {
                text,
                signature,
                id: Some(id),
            } => {
                if open.as_ref().is_some_and(|open| open.id != id) {
                    items.extend(open.take().map(Reasoning::into_item));
                }
                let item = open.get_or_insert(Reasoning {
                    id,
                    texts: Vec::new(),
                    encrypted: None,
                });
                if !text.is_empty() {
                    item.texts.push(text);
                }
                item.encrypted = signature.as_deref().or(item.encrypted);
            }
            ContentBlock::Text { text, preamble, .. } => {
                items.extend(open.take().map(Reasoning::into_item));
                if !text.is_empty() {
                    items.push(text_item(text, *preamble));
                }
            }
            _ => {}
        }
    }
    items.extend(open.take().map(Reasoning::into_item));
}

/// A reasoning item under reconstruction.
struct Reasoning<'m> {
    id: &'m str,
    texts: Vec<&'m str>,
    encrypted: Option<&'m str>,
}

impl Reasoning<'_> {
    /// Encrypted reasoning has a summary; other reasoning has its complete text.
    fn into_item(self) -> Value {
        let parts = |kind: &str| -> Value {
            let part = |text: &&str| json!({"type": kind, "text": text});
            self.texts.iter().map(part).collect()
        };
        match self.encrypted {
            Some(encrypted) => json!({"type": "reasoning", "id": self.id,
                "summary": parts("summary_text"), "encrypted_content": encrypted}),
            None => json!({"type": "reasoning", "id": self.id, "summary": [],
                "content": parts("reasoning_text")}),
        }
    }
}

fn content_of(content: &Content) -> Result<Value, ProviderError> {
    let blocks = match content {
        Content::Absent => return Ok(json!("")),
        Content::Text(text) => return Ok(json!(text)),
        Content::Blocks(blocks) => blocks,
    };
    let parts = blocks.iter().map(|block| match block {
        ContentBlock::Text { text, .. } => Ok(json!({"type": "input_text", "text": text})),
        ContentBlock::Image {
            source,
            media_type,
            detail,
        } => Ok(json!({"type": "input_image",
            "image_url": image_url(source, media_type.as_deref())?,
            "detail": detail.map_or("auto", logue_message::ImageDetail::as_str)})),
        _ => Err(ProviderError::new(
            Category::UnsupportedContentBlock,
            "a user message of Responses supports only text and images",
        )),
    });
    parts.collect::<Result<Vec<Value>, _>>().map(Value::Array)
}
