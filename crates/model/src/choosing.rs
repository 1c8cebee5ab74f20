//! What a request says beside its messages, as far as a server can be told: which tools it offers and
//! which of them are to be called, the sampling, the schema of the answer.

use logue_message::ToolDefinition;
use serde_json::{Value, json};

use crate::rules::Choices;
use crate::{Category, ProviderError, Request, Rules, ToolChoice};

/// What a request says of its tools.
#[derive(Debug)]
pub(crate) struct Offer<'a> {
    /// The tools on offer.
    pub(crate) tools: Vec<&'a ToolDefinition>,
    /// Which are to be called.
    pub(crate) choice: Choice<'a>,
}

/// Which tools are to be called, in what a server can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice<'a> {
    /// Not said: as the model likes.
    Auto,
    /// None.
    None,
    /// At least one.
    Required,
    /// This one.
    Tool(&'a str),
}

impl<'a> Offer<'a> {
    /// What `request` says, as far as the server can be told.
    ///
    /// # Errors
    /// Tools must be called, and the server cannot be told so.
    pub(crate) fn of(request: &Request<'a>, rules: &Rules) -> Result<Self, ProviderError> {
        let mut tools: Vec<&ToolDefinition> = request.tools.iter().collect();
        let refused = |why: String| {
            ProviderError::new(Category::InvalidRequest, why)
                .with_help("offer the tool, or let the model choose (`tool_choice`: auto)")
        };
        let choice = match request.tool_choice {
            ToolChoice::Auto => Choice::Auto,
            // Where no tool is on offer none can be called, and some servers refuse the word.
            ToolChoice::None if tools.is_empty() => Choice::Auto,
            ToolChoice::None if rules.choices == Choices::Nothing => {
                tools.clear();
                Choice::Auto
            }
            ToolChoice::None => Choice::None,
            ToolChoice::Required | ToolChoice::Tool(_) if rules.choices == Choices::Nothing => {
                let why = format!("the provider {} cannot be made to call a tool", rules.name);
                return Err(refused(why));
            }
            ToolChoice::Required => Choice::Required,
            ToolChoice::Tool(name) => {
                if rules.choices == Choices::Words {
                    tools.retain(|tool| tool.name == *name);
                    Choice::Required
                } else {
                    Choice::Tool(name)
                }
            }
        };
        Ok(Self { tools, choice })
    }
}

/// The settings of the sampling, by the names that the server has for them.
///
/// # Errors
/// A setting is given that the server does not have.
pub(crate) fn sampling(
    request: &Request<'_>,
    rules: &Rules,
) -> Result<Vec<(&'static str, Value)>, ProviderError> {
    let settings = request.settings;
    let temperature = settings
        .temperature
        .map(|value| ("temperature", json!(value)));
    let given = temperature.into_iter().chain(settings.further());
    let named = given.map(|(name, value)| {
        let known = rules.settings.iter().find(|(known, _)| *known == name);
        let (_, key) = known.ok_or_else(|| {
            let why = format!("the provider {} takes no `{name}`", rules.name);
            ProviderError::new(Category::InvalidRequest, why)
                .with_help(format!("leave the setting `{name}` out"))
        })?;
        Ok((*key, value))
    });
    named.collect()
}

/// The words by which an answer is held to a schema where a server does not do it.
pub(crate) fn schema_instruction(schema: &Value) -> String {
    format!(
        "Answer with one JSON object that is valid against this JSON Schema, and with nothing else:\n{schema}"
    )
}

/// The name that a schema goes by on the wire.
pub(crate) const SCHEMA_NAME: &str = "answer";

/// Whether servers can hold an answer to exactly this schema: each object in it names all of its
/// properties as required and allows no other.
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
