//! Encoding of an Anthropic Messages request.

use logue_message::{ChatMessage, Content, ContentBlock, ImageSource, Role, ToolDefinition};
use serde_json::{Map, Value, json};

use super::decode::AnthropicDecoder;
use crate::http::RequestTarget;
use crate::wire::definition::WireRequest;
use crate::wire::normalize::normalize;
use crate::wire::request_options::{
    RequestTools, ResolvedToolChoice, SCHEMA_NAME, add_instruction, sampling, schema_instruction,
    unsupported_image,
};
use crate::{Category, ModelRequest, ProviderError, ServerProfile};

/// Encodes a request.
pub(super) fn encode<'r>(
    request: &'r ModelRequest<'r>,
    profile: &ServerProfile,
    stream: bool,
) -> Result<WireRequest<'r>, ProviderError> {
    let mut messages = normalize(request.messages, profile)?;
    let effort = request.settings.reasoning_effort.as_deref();
    let has_reasoning = effort.is_some_and(|effort| effort != "none");
    let EncodedTools {
        tools,
        choice,
        answer_tool,
        instruction,
    } = encode_tools(request, profile, has_reasoning)?;
    if let Some(instruction) = instruction {
        add_instruction(&mut messages, &instruction);
    }
    let mut body = Map::new();
    body.insert("model".into(), json!(request.model));
    if let Some(max_tokens) = request.settings.max_tokens.or(profile.max_tokens) {
        body.insert(profile.max_tokens_field.into(), json!(max_tokens));
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
    for (key, value) in sampling(request, profile)? {
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
    let decoder = AnthropicDecoder::with_answer_tool(answer_tool);
    Ok(WireRequest::new(
        RequestTarget::from_path(&["v1", "messages"]),
        Value::Object(body),
        Box::new(decoder),
    ))
}

/// The tools of a request, and the settings for a response that matches the schema.
struct EncodedTools {
    tools: Vec<Value>,
    choice: Option<Value>,
    /// The name of the tool whose input is the response.
    answer_tool: Option<String>,
    /// The instruction that replaces the answer tool.
    instruction: Option<String>,
}

fn encode_tools(
    request: &ModelRequest<'_>,
    profile: &ServerProfile,
    has_reasoning: bool,
) -> Result<EncodedTools, ProviderError> {
    let options = RequestTools::new(request, profile)?;
    let is_required = matches!(
        options.choice,
        ResolvedToolChoice::Required | ResolvedToolChoice::Tool(_)
    );
    if has_reasoning && is_required {
        return Err(ProviderError::new(
            Category::InvalidRequest,
            "Anthropic Messages cannot require a tool call during reasoning",
        )
        .with_help(
            "set `reasoning_effort` to `none`, or let the model choose (`tool_choice`: auto)",
        ));
    }
    let tool_body = |tool: &&ToolDefinition| {
        let mut body = json!({"name": tool.name, "description": tool.description,
            "input_schema": tool.provider_parameters()});
        if tool.strict
            && profile.supports_strict_tools
            && let Some(body) = body.as_object_mut()
        {
            body.insert("strict".into(), json!(true));
        }
        body
    };
    let mut encoded = EncodedTools {
        tools: options.tools.iter().map(tool_body).collect(),
        choice: match options.choice {
            ResolvedToolChoice::Auto => None,
            ResolvedToolChoice::None => Some(json!({"type": "none"})),
            ResolvedToolChoice::Required => Some(json!({"type": "any"})),
            ResolvedToolChoice::Tool(name) => Some(json!({"type": "tool", "name": name})),
        },
        answer_tool: None,
        instruction: None,
    };
    // A required tool call precludes a response that must match a schema.
    let Some(schema) = request.response_schema.filter(|_| !is_required) else {
        return Ok(encoded);
    };
    if has_reasoning {
        encoded.instruction = Some(schema_instruction(schema));
        return Ok(encoded);
    }
    let name = free_name(&options);
    encoded
        .tools
        .push(json!({"name": name, "input_schema": schema,
            "description": "Gives the answer to the user. Call it when the answer is known."}));
    let is_only_choice = options.tools.is_empty() || options.choice == ResolvedToolChoice::None;
    encoded.choice = Some(if is_only_choice {
        json!({"type": "tool", "name": name})
    } else {
        json!({"type": "any"})
    });
    encoded.answer_tool = Some(name);
    Ok(encoded)
}

/// Returns a name for the answer tool that differs from the offered tools.
fn free_name(options: &RequestTools<'_>) -> String {
    let mut name = SCHEMA_NAME.to_owned();
    while options.tools.iter().any(|tool| tool.name == name) {
        name.push('_');
    }
    name
}

/// Returns the turns; tool results and the user text that follows form one user turn.
fn turns(messages: &[ChatMessage]) -> Result<Vec<Value>, ProviderError> {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in messages {
        let (role, blocks) = match message.role {
            Role::System => continue,
            Role::User => ("user", blocks_of(&message.content)?),
            Role::Tool => {
                let content = if message.content.has_image() {
                    Value::Array(blocks_of(&message.content)?)
                } else {
                    json!(message.text())
                };
                let result = json!({"type": "tool_result",
                    "tool_use_id": message.tool_call_id, "content": content});
                ("user", vec![result])
            }
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
        Content::Text(content) if content.is_empty() => return Ok(Vec::new()),
        Content::Text(content) => return Ok(vec![text(content)]),
        Content::Blocks(blocks) => blocks,
    };
    let block = |block: &ContentBlock| match block {
        ContentBlock::Text { text: content, .. } => Ok(text(content)),
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
                _ => return Err(unsupported_image()),
            };
            Ok(json!({"type": "image", "source": source}))
        }
        _ => Err(ProviderError::new(
            Category::UnsupportedContentBlock,
            "Anthropic Messages supports only text, images and its own reasoning",
        )),
    };
    blocks.iter().map(block).collect()
}
