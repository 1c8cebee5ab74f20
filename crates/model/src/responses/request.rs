//! A request as the Responses format writes it: a list of items.

use logue_message::{CallKind, ChatMessage, Content, ContentBlock, Role};
use serde_json::{Map, Value, json};

use crate::choosing::{Choice, Offer, SCHEMA_NAME, is_strict, sampling};
use crate::normalise::normalise;
use crate::rules::Proof;
use crate::wire::image_url;
use crate::{Category, ProviderError, Request, Rules};

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
    let messages = normalise(request.messages, rules)?;
    let mut items = Vec::with_capacity(messages.len());
    let mut custom = Vec::new();
    for message in &messages {
        let calls = message.tool_calls.iter();
        custom.extend(
            calls
                .filter(|call| call.kind == CallKind::Custom)
                .map(|call| call.id.as_str()),
        );
        items_of(message, rules, &custom, &mut items)?;
    }
    let mut body = Map::new();
    body.insert("model".into(), json!(request.model));
    body.insert("input".into(), Value::Array(items));
    if !offer.tools.is_empty() {
        // The format takes a tool for strict where nothing is said.
        let tools = offer.tools.iter().map(|tool| {
            json!({"type": "function", "name": tool.name, "description": tool.description,
                "parameters": tool.parameters, "strict": tool.strict && rules.strict_tools})
        });
        body.insert("tools".into(), tools.collect());
    }
    let choice = match offer.choice {
        Choice::Auto => None,
        Choice::None => Some(json!("none")),
        Choice::Required => Some(json!("required")),
        Choice::Tool(name) => Some(json!({"type": "function", "name": name})),
    };
    if let Some(choice) = choice {
        body.insert("tool_choice".into(), choice);
    }
    if let Some(schema) = request.response_schema {
        let format = json!({"type": "json_schema", "name": SCHEMA_NAME, "schema": schema,
            "strict": is_strict(schema)});
        body.insert("text".into(), json!({"format": format}));
    }
    for (key, value) in sampling(request, rules)? {
        body.insert(key.into(), value);
    }
    if let Some(max_tokens) = request.settings.max_tokens.or(rules.max_tokens) {
        body.insert(rules.max_tokens_field.into(), json!(max_tokens));
    }
    if let Some(effort) = &request.settings.reasoning_effort {
        body.insert("reasoning".into(), json!({"effort": effort}));
    }
    body.insert("store".into(), json!(false));
    if rules.proof == Proof::Encrypted {
        body.insert("include".into(), json!(["reasoning.encrypted_content"]));
    }
    body.insert("stream".into(), json!(stream));
    Ok(Value::Object(body))
}

fn items_of(
    message: &ChatMessage,
    rules: &Rules,
    custom: &[&str],
    items: &mut Vec<Value>,
) -> Result<(), ProviderError> {
    match message.role {
        Role::Assistant => {
            // Words before calls are for the user to read meanwhile, whether they are marked or not.
            let before_calls = rules.proof == Proof::Encrypted && !message.tool_calls.is_empty();
            answer_items(&message.content, before_calls, items);
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
            items.push(json!({"type": kind, "call_id": id, "output": message.text()}));
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

/// Words and reasoning of an answer, each as an item of its own in its place.
fn answer_items(content: &Content, before_calls: bool, items: &mut Vec<Value>) {
    let said = |text: &str, preamble: bool| {
        let mut item = json!({"type": "message", "role": "assistant", "content": text});
        if (preamble || before_calls)
            && let Some(item) = item.as_object_mut()
        {
            item.insert("phase".into(), json!("commentary"));
        }
        item
    };
    let blocks = match content {
        Content::Absent => return,
        Content::Text(text) if text.is_empty() => return,
        Content::Text(text) => return items.push(said(text, false)),
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
                    items.push(said(text, *preamble));
                }
            }
            _ => {}
        }
    }
    items.extend(open.take().map(Reasoning::into_item));
}

/// A reasoning item that is being put together again.
struct Reasoning<'m> {
    id: &'m str,
    texts: Vec<&'m str>,
    encrypted: Option<&'m str>,
}

impl Reasoning<'_> {
    /// What is encrypted was summed up; what is not was told whole.
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
            "image_url": image_url(source, media_type.as_deref()),
            "detail": detail.map_or("auto", logue_message::ImageDetail::as_str)})),
        _ => Err(ProviderError::new(
            Category::UnsupportedContentBlock,
            "Responses carries text and images in a message of the user, nothing else",
        )),
    });
    parts.collect::<Result<Vec<Value>, _>>().map(Value::Array)
}
