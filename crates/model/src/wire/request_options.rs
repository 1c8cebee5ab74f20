//! Encoding of tools, tool choice, sampling settings and schema, shared by the formats.

use logue_message::{ChatMessage, Content, ImageSource, Role, ToolDefinition};
use serde_json::{Value, json};

use crate::server::ToolChoiceSupport;
use crate::{Category, ModelRequest, ProviderError, ServerProfile, ToolChoice};

/// The tools of a request and the resolved tool choice.
#[derive(Debug)]
pub(crate) struct RequestTools<'a> {
    /// The offered tools.
    pub(crate) tools: Vec<&'a ToolDefinition>,
    /// The resolved tool choice.
    pub(crate) choice: ResolvedToolChoice<'a>,
}

/// A tool choice that the server supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResolvedToolChoice<'a> {
    /// The choice is omitted; the model decides.
    Auto,
    /// No tool may be called.
    None,
    /// At least one tool must be called.
    Required,
    /// The named tool must be called.
    Tool(&'a str),
}

impl<'a> RequestTools<'a> {
    /// Resolves the tools of `request` for a server.
    ///
    /// # Errors
    /// Returns an error if a tool call is required and the server cannot enforce it.
    pub(crate) fn new(
        request: &ModelRequest<'a>,
        profile: &ServerProfile,
    ) -> Result<Self, ProviderError> {
        let mut tools: Vec<&ToolDefinition> = request.tools.iter().collect();
        let choice = match request.tool_choice {
            ToolChoice::Auto => ResolvedToolChoice::Auto,
            // Some servers reject `none` without tools, and it has no effect there.
            ToolChoice::None if tools.is_empty() => ResolvedToolChoice::Auto,
            ToolChoice::None if profile.tool_choice == ToolChoiceSupport::Nothing => {
                tools.clear();
                ResolvedToolChoice::Auto
            }
            ToolChoice::None => ResolvedToolChoice::None,
            ToolChoice::Required | ToolChoice::Tool(_)
                if profile.tool_choice == ToolChoiceSupport::Nothing =>
            {
                return Err(ProviderError::new(
                    Category::InvalidRequest,
                    format!("the provider {} cannot require a tool call", profile.name),
                )
                .with_help("let the model choose (`tool_choice`: auto)"));
            }
            ToolChoice::Required => ResolvedToolChoice::Required,
            ToolChoice::Tool(name) => {
                if profile.tool_choice == ToolChoiceSupport::Words {
                    tools.retain(|tool| tool.name == *name);
                    ResolvedToolChoice::Required
                } else {
                    ResolvedToolChoice::Tool(name)
                }
            }
        };
        Ok(Self { tools, choice })
    }
}

/// Returns the sampling settings by their names on the server.
///
/// # Errors
/// Returns an error if the server does not support a setting.
pub(crate) fn sampling(
    request: &ModelRequest<'_>,
    profile: &ServerProfile,
) -> Result<Vec<(&'static str, Value)>, ProviderError> {
    let settings = request.settings;
    let temperature = settings
        .temperature
        .map(|value| ("temperature", json!(value)));
    let present = temperature.into_iter().chain(settings.secondary());
    let named = present.map(|(name, value)| {
        let known = profile.settings.iter().find(|(known, _)| *known == name);
        let (_, key) = known.ok_or_else(|| {
            let message = format!("the provider {} does not support `{name}`", profile.name);
            ProviderError::new(Category::InvalidRequest, message)
                .with_help(format!("remove the setting `{name}`"))
        })?;
        Ok((*key, value))
    });
    named.collect()
}

/// Returns the instruction that replaces schema support of the server.
pub(crate) fn schema_instruction(schema: &Value) -> String {
    format!(
        "Answer with one JSON object that is valid against this JSON Schema, and with nothing else:\n{schema}"
    )
}

/// The name of the response schema on the wire.
pub(crate) const SCHEMA_NAME: &str = "answer";

/// Returns whether servers can enforce a schema strictly.
///
/// Each object must require all of its properties and allow no others.
pub(crate) fn is_strict(schema: &Value) -> bool {
    let Value::Object(object) = schema else {
        return !matches!(schema, Value::Array(list) if !list.iter().all(is_strict));
    };
    if let Some(properties) = object.get("properties").and_then(Value::as_object) {
        let required = object.get("required").and_then(Value::as_array);
        let all = properties
            .keys()
            .all(|name| required.is_some_and(|names| names.contains(&json!(name))));
        if !all || !properties.values().all(is_strict) {
            return false;
        }
    }
    let is_object = object.get("type") == Some(&json!("object"));
    if is_object && object.get("additionalProperties") != Some(&json!(false)) {
        return false;
    }
    let nested = ["items", "anyOf", "$defs", "definitions"];
    nested.iter().all(|key| match object.get(*key) {
        Some(Value::Object(defs)) if key.starts_with('$') || *key == "definitions" => {
            defs.values().all(is_strict)
        }
        Some(inner) => is_strict(inner),
        None => true,
    })
}

/// Appends an instruction to the instructions of a conversation.
pub(crate) fn add_instruction(messages: &mut Vec<ChatMessage>, instruction: &str) {
    match messages.first_mut() {
        Some(first) if first.role == Role::System => {
            first.content = Content::Text(format!("{}\n\n{instruction}", first.text()));
        }
        _ => messages.insert(0, ChatMessage::system(instruction)),
    }
}

/// Returns the URL of an image, with inline data as a `data:` URL.
pub(crate) fn image_url(
    source: &ImageSource,
    media_type: Option<&str>,
) -> Result<String, ProviderError> {
    match source {
        ImageSource::Url(url) => Ok(url.clone()),
        ImageSource::Inline(data) => Ok(format!(
            "data:{};base64,{data}",
            media_type.unwrap_or("image/png")
        )),
        _ => Err(unsupported_image()),
    }
}

/// Returns the error for an image source that the wire formats cannot express.
pub(crate) fn unsupported_image() -> ProviderError {
    ProviderError::new(
        Category::UnsupportedContentBlock,
        "images are supported only as a URL or as inline data",
    )
}
