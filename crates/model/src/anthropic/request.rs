//! A request as Anthropic Messages writes it.

use logue_message::{ChatMessage, Content, ContentBlock, ImageSource, Role};
use serde_json::{Map, Value, json};

use crate::choosing::{Choice, Offer, SCHEMA_NAME, sampling, schema_instruction};
use crate::normalise::normalise;
use crate::wire::instruct;
use crate::{Category, ProviderError, Request, Rules};

/// What is sent, and how the answer to it is to be read.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) body: Value,
    /// The tool whose input is the answer.
    pub(crate) answer_tool: Option<String>,
}

/// The body of a request.
///
/// # Errors
/// The request holds what the format cannot carry.
pub(crate) fn request(
    request: &Request<'_>,
    rules: &Rules,
    stream: bool,
) -> Result<Asked, ProviderError> {
    let offer = Offer::of(request, rules)?;
    let mut messages = normalise(request.messages, rules)?;
    let effort = request.settings.reasoning_effort.as_deref();
    let thinks = effort.is_some_and(|effort| effort != "none");
    if thinks && matches!(offer.choice, Choice::Required | Choice::Tool(_)) {
        return Err(ProviderError::new(
            Category::InvalidRequest,
            "Anthropic Messages cannot force a tool call while the model thinks",
        )
        .with_help(
            "set `reasoning_effort` to `none`, or let the model choose (`tool_choice`: auto)",
        ));
    }
    let mut tools: Vec<Value> = offer
        .tools
        .iter()
        .map(|tool| {
            let mut body = json!({"name": tool.name, "description": tool.description,
                "input_schema": tool.parameters});
            if let (true, Some(body)) = (tool.strict && rules.strict_tools, body.as_object_mut()) {
                body.insert("strict".into(), json!(true));
            }
            body
        })
        .collect();
    let mut choice = match offer.choice {
        Choice::Auto => None,
        Choice::None => Some(json!({"type": "none"})),
        Choice::Required => Some(json!({"type": "any"})),
        Choice::Tool(name) => Some(json!({"type": "tool", "name": name})),
    };
    let mut answer_tool = None;
    // A tool that must be called leaves no room for an answer that would have to meet a schema.
    let answers = matches!(offer.choice, Choice::Auto | Choice::None);
    if let Some(schema) = request.response_schema.filter(|_| answers) {
        if thinks {
            instruct(&mut messages, &schema_instruction(schema));
        } else {
            let name = free_name(&offer);
            tools.push(json!({"name": name, "input_schema": schema,
                "description": "Gives the answer to the user. Call it when the answer is known."}));
            choice = Some(if offer.tools.is_empty() || offer.choice == Choice::None {
                json!({"type": "tool", "name": name})
            } else {
                json!({"type": "any"})
            });
            answer_tool = Some(name);
        }
    }
    let mut body = Map::new();
    body.insert("model".into(), json!(request.model));
    if let Some(max_tokens) = request.settings.max_tokens.or(rules.max_tokens) {
        body.insert(rules.max_tokens_field.into(), json!(max_tokens));
    }
    if let Some(first) = messages.first().filter(|first| first.role == Role::System) {
        body.insert("system".into(), json!(first.text()));
    }
    body.insert("messages".into(), Value::Array(turns(&messages)?));
    if !tools.is_empty() {
        body.insert("tools".into(), Value::Array(tools));
    }
    if let Some(choice) = choice {
        body.insert("tool_choice".into(), choice);
    }
    for (key, value) in sampling(request, rules)? {
        body.insert(key.into(), value);
    }
    match effort {
        None => {}
        Some("none") => {
            body.insert("thinking".into(), json!({"type": "disabled"}));
        }
        Some(effort) => {
            body.insert("thinking".into(), json!({"type": "adaptive"}));
            body.insert("output_config".into(), json!({"effort": effort}));
        }
    }
    body.insert("stream".into(), json!(stream));
    let body = Value::Object(body);
    Ok(Asked { body, answer_tool })
}

/// A name for the answer that no tool on offer has.
fn free_name(offer: &Offer<'_>) -> String {
    let mut name = SCHEMA_NAME.to_owned();
    while offer.tools.iter().any(|tool| tool.name == name) {
        name.push('_');
    }
    name
}

/// The turns: results of tools and the user's words that follow are one turn of the user.
fn turns(messages: &[ChatMessage]) -> Result<Vec<Value>, ProviderError> {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in messages {
        let (role, blocks) = match message.role {
            Role::System => continue,
            Role::User => ("user", blocks_of(&message.content)?),
            Role::Tool => (
                "user",
                vec![json!({"type": "tool_result",
                "tool_use_id": message.tool_call_id, "content": message.text()})],
            ),
            Role::Assistant => {
                let mut blocks = blocks_of(&message.content)?;
                for call in &message.tool_calls {
                    let input = call.arguments.object().unwrap_or_default();
                    blocks.push(json!({"type": "tool_use", "id": call.id, "name": call.name,
                        "input": input}));
                }
                ("assistant", blocks)
            }
        };
        if blocks.is_empty() {
            continue;
        }
        match turns.last_mut() {
            Some((last, all)) if *last == role => all.extend(blocks),
            _ => turns.push((role, blocks)),
        }
    }
    let turn = |(role, blocks)| json!({"role": role, "content": Value::Array(blocks)});
    Ok(turns.into_iter().map(turn).collect())
}

fn blocks_of(content: &Content) -> Result<Vec<Value>, ProviderError> {
    let text = |text: &str| json!({"type": "text", "text": text});
    let blocks = match content {
        Content::Absent => return Ok(Vec::new()),
        Content::Text(words) if words.is_empty() => return Ok(Vec::new()),
        Content::Text(words) => return Ok(vec![text(words)]),
        Content::Blocks(blocks) => blocks,
    };
    let block = |block: &ContentBlock| match block {
        ContentBlock::Text { text: words, .. } => Ok(text(words)),
        ContentBlock::Thinking {
            text, signature, ..
        } => Ok(json!({"type": "thinking", "thinking": text, "signature": signature})),
        ContentBlock::RedactedThinking { data } => {
            Ok(json!({"type": "redacted_thinking", "data": data}))
        }
        ContentBlock::Image {
            source, media_type, ..
        } => {
            let source = match source {
                ImageSource::Url(url) => json!({"type": "url", "url": url}),
                ImageSource::Inline(data) => json!({"type": "base64",
                    "media_type": media_type.as_deref().unwrap_or("image/png"), "data": data}),
            };
            Ok(json!({"type": "image", "source": source}))
        }
        _ => Err(ProviderError::new(
            Category::UnsupportedContentBlock,
            "Anthropic Messages carries text, images and its own thinking, nothing else",
        )),
    };
    blocks.iter().map(block).collect()
}
