//! Offered tools, and the check of calls against their schemas.

use std::collections::BTreeMap;

use logue_message::schema::{Schema, Violation};
use logue_message::{ChatMessage, ToolCall, ToolDefinition, object_parameters};
use logue_model::ToolChoice;
use serde_json::{Value, json};

/// The maximum size in bytes of a schema that is repeated with the violations.
const MAX_REPEATED_SCHEMA_BYTES: usize = 16 * 1024;

/// The tools of a request.
#[derive(Debug, Default)]
pub(super) struct OfferedTools {
    pub(super) definitions: Vec<ToolDefinition>,
    checks: BTreeMap<String, ToolCheck>,
}

#[derive(Debug)]
struct ToolCheck {
    schema: Schema,
    source: Value,
    is_strict: bool,
}

/// A call whose arguments violate the schema of its tool.
#[derive(Debug)]
pub(super) struct InvalidCall {
    /// The index among the calls of the message.
    at: usize,
    pub(super) name: String,
    pub(super) violations: Vec<Violation>,
    pub(super) is_strict: bool,
}

impl InvalidCall {
    /// Returns the first violation and the number of others.
    pub(super) fn summary(&self) -> String {
        let first = self.violations.first().map(ToString::to_string);
        let first = first.unwrap_or_default();
        match self.violations.len() {
            0 | 1 => first,
            count => format!("{first} (violations: {count})"),
        }
    }
}

impl OfferedTools {
    /// Adds a function: its name, description, parameters and `strict`.
    ///
    /// # Errors
    /// Returns the cause if the name or the schema is unusable.
    pub(super) fn add(&mut self, function: &Value) -> Result<(), String> {
        let text = |key: &str| function.get(key).and_then(Value::as_str);
        let name = text("name").ok_or("a function requires `name`")?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if name.is_empty() || name.len() > 128 || !name.chars().all(is_plain) {
            return Err(format!(
                "invalid function name `{}`: use up to 128 letters, digits, `_`, `-` and `.`",
                name.escape_debug()
            ));
        }
        if self.checks.contains_key(name) || self.definitions.iter().any(|own| own.name == name) {
            return Err(format!("the function `{name}` is declared twice"));
        }
        let is_strict = function.get("strict").and_then(Value::as_bool) == Some(true);
        let declared = function.get("parameters").filter(|own| !own.is_null());
        let parameters = match declared {
            Some(declared) => object_parameters(declared.clone()),
            None => json!({"type": "object", "properties": {}}),
        };
        // A function without parameters accepts what the model sends.
        if declared.is_some() {
            let schema = Schema::compile(&parameters)
                .map_err(|error| format!("the parameters of `{name}`: {error}"))?;
            let check = ToolCheck {
                schema,
                source: parameters.clone(),
                is_strict,
            };
            self.checks.insert(name.to_owned(), check);
        }
        let description = text("description").unwrap_or_default();
        let definition = ToolDefinition::new(name, description, parameters).with_strict(is_strict);
        self.definitions.push(definition);
        Ok(())
    }

    /// Returns the calls that violate the schemas of their tools.
    pub(super) fn invalid(&self, calls: &[ToolCall]) -> Vec<InvalidCall> {
        let invalid = calls.iter().enumerate().filter_map(|(at, call)| {
            let check = self.checks.get(&call.name)?;
            let violations = match serde_json::from_str(call.arguments.as_str()) {
                Ok(value) => check.schema.violations(&value),
                Err(error) => {
                    let cause = format!("the arguments are not JSON ({error})");
                    vec![Violation::new("", cause)]
                }
            };
            (!violations.is_empty()).then(|| InvalidCall {
                at,
                name: call.name.clone(),
                violations,
                is_strict: check.is_strict,
            })
        });
        invalid.collect()
    }

    /// Returns the results that ask the model to correct the calls of its message.
    pub(super) fn corrections(
        &self,
        calls: &[ToolCall],
        invalid: &[InvalidCall],
    ) -> Vec<ChatMessage> {
        let results = calls.iter().enumerate().map(|(at, call)| {
            let own = invalid.iter().find(|invalid| invalid.at == at);
            let error = match own {
                None => json!({"error": {"code": "not_run",
                    "message": "another call of the same message was invalid; call again"}}),
                Some(own) => {
                    let lines: Vec<String> =
                        own.violations.iter().map(ToString::to_string).collect();
                    let mut error = json!({"error": {"code": "tool_arguments_invalid",
                        "message": "the arguments violate the JSON Schema of the tool; \
                            call it again with corrected arguments",
                        "violations": lines}});
                    let source = self.checks.get(&call.name).map(|check| &check.source);
                    let source =
                        source.filter(|own| own.to_string().len() <= MAX_REPEATED_SCHEMA_BYTES);
                    if let Some(source) = source {
                        error["schema"] = source.clone();
                    }
                    error
                }
            };
            ChatMessage::tool(call.id.clone(), error.to_string())
        });
        results.collect()
    }
}

/// Parses the tool choice of a request.
///
/// # Errors
/// Returns the cause if the choice has an unknown form.
pub(super) fn tool_choice(choice: Option<&Value>, has_tools: bool) -> Result<ToolChoice, String> {
    let Some(choice) = choice.filter(|choice| !choice.is_null()) else {
        return Ok(ToolChoice::Auto);
    };
    match choice.as_str() {
        Some("auto") => return Ok(ToolChoice::Auto),
        Some("none") => return Ok(ToolChoice::None),
        Some("required") if has_tools => return Ok(ToolChoice::Required),
        Some("required") => return Err("`tool_choice` requires `tools`".to_owned()),
        Some(other) => return Err(format!("unknown tool choice `{}`", other.escape_debug())),
        None => {}
    }
    // Chat Completions nests the name, Responses does not.
    let name = choice.pointer("/function/name").or(choice.get("name"));
    match (
        choice.get("type").and_then(Value::as_str),
        name.and_then(Value::as_str),
    ) {
        (Some("function"), Some(name)) => Ok(ToolChoice::Tool(name.to_owned())),
        _ => Err("`tool_choice` is `none`, `auto`, `required` or a function".to_owned()),
    }
}
