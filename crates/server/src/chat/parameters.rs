//! The parameters of one turn that its client states.

use std::sync::Arc;

use axum::http::StatusCode;
use logue_message::schema::Schema;
use serde_json::{Value, json};

use super::problem::Problem;

/// The most texts of `stop`, and their length in bytes.
const MAX_STOPS: usize = 16;
const MAX_STOP: usize = 256;

/// The parameters of one turn that its client states. The others are those of the agent.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TurnParameters {
    /// The JSON Schema of the answer, with an object at its root.
    pub response_schema: Option<Arc<Value>>,
    /// Texts that end an answer, besides those of the agent.
    pub stop: Vec<String>,
    /// The maximum number of tokens of an answer; a lower one of the agent holds.
    pub max_tokens: Option<u64>,
}

impl TurnParameters {
    /// Returns whether the client leaves everything to the agent.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether the answer has a schema.
    pub(crate) const fn is_structured(&self) -> bool {
        self.response_schema.is_some()
    }

    /// Checks an answer, which another process may have given without these parameters.
    ///
    /// # Errors
    /// Returns a problem if it violates the schema.
    pub(crate) fn check(&self, answer: &str) -> Result<(), Problem> {
        let Some(schema) = &self.response_schema else {
            return Ok(());
        };
        let is_valid = serde_json::from_str(answer).is_ok_and(|value| {
            Schema::compile(schema).is_ok_and(|schema| schema.violations(&value).is_empty())
        });
        if is_valid {
            return Ok(());
        }
        let detail = "the answer does not have the required form";
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        Err(Problem::new(status, "structured_output_invalid", detail))
    }

    /// Sets the schema by a format: `response_format`, or `text.format`, whose schema is not nested.
    ///
    /// # Errors
    /// Returns a problem if the format is unknown, or its schema unusable.
    pub(crate) fn set_format(
        &mut self,
        format: Option<&Value>,
        param: &'static str,
    ) -> Result<(), Problem> {
        let Some(format) = format.filter(|format| !format.is_null()) else {
            return Ok(());
        };
        let invalid = |detail: String| Problem::invalid(detail).with_param(param);
        let nested = format.pointer("/json_schema/schema");
        let schema = match format.get("type").and_then(Value::as_str) {
            Some("text") => return Ok(()),
            Some("json_object") => json!({"type": "object"}),
            Some("json_schema") => match nested.or(format.get("schema")) {
                Some(schema) => schema.clone(),
                None => return Err(invalid(format!("`{param}` requires a schema"))),
            },
            _ => {
                let detail = format!("`{param}` is text, json_object or json_schema");
                return Err(invalid(detail));
            }
        };
        if schema["type"] != "object" {
            let detail = format!("the schema of `{param}` must have `\"type\": \"object\"`");
            return Err(invalid(detail));
        }
        Schema::compile(&schema)
            .map_err(|error| invalid(format!("the schema of `{param}`: {error}")))?;
        self.response_schema = Some(Arc::new(schema));
        Ok(())
    }

    /// Sets the texts that end an answer: one, or a list.
    ///
    /// # Errors
    /// Returns a problem if they are malformed, or too many or too long.
    pub(crate) fn set_stop(&mut self, stop: Option<&Value>) -> Result<(), Problem> {
        let texts = match stop {
            None | Some(Value::Null) => return Ok(()),
            Some(Value::String(text)) => Some(vec![text.clone()]),
            Some(texts) => serde_json::from_value::<Vec<String>>(texts.clone()).ok(),
        };
        let is_short = |text: &String| !text.is_empty() && text.len() <= MAX_STOP;
        let texts = texts.filter(|texts| texts.len() <= MAX_STOPS && texts.iter().all(is_short));
        self.stop = texts.ok_or_else(|| {
            let detail = format!("`stop` has at most {MAX_STOPS} texts of 1 to {MAX_STOP} bytes");
            Problem::invalid(detail).with_param("stop")
        })?;
        Ok(())
    }

    /// Sets the maximum number of tokens of an answer.
    ///
    /// # Errors
    /// Returns a problem if it is zero.
    pub(crate) fn set_max_tokens(
        &mut self,
        max: Option<u64>,
        param: &'static str,
    ) -> Result<(), Problem> {
        if max == Some(0) {
            return Err(Problem::invalid(format!("`{param}` must be 1 or more")).with_param(param));
        }
        self.max_tokens = max;
        Ok(())
    }
}

/// Refuses tools of a client, and a choice among them.
///
/// # Errors
/// Returns a problem if the request has tools, or requires a call.
pub(crate) fn refuse_tools(tools: Option<&[Value]>, choice: Option<&Value>) -> Result<(), Problem> {
    if tools.is_some_and(|tools| !tools.is_empty()) {
        let problem = Problem::invalid("`tools` must be empty").with_param("tools");
        return Err(problem
            .with_help("the tools of an agent are those of its prompt, and the server runs them"));
    }
    // Both are about the tools of the request, which has none.
    let is_free = |choice: &Value| choice.is_null() || choice == "auto" || choice == "none";
    if choice.is_some_and(|choice| !is_free(choice)) {
        let problem = Problem::invalid("`tool_choice` must be `auto` or `none`");
        return Err(problem.with_param("tool_choice"));
    }
    Ok(())
}

/// Refuses fields that would change the meaning of an answer, unless they are empty.
///
/// # Errors
/// Returns a problem that names the first one.
pub(crate) fn refuse_fields(fields: &[(&'static str, Option<&Value>)]) -> Result<(), Problem> {
    let is_empty = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    match fields
        .iter()
        .find(|(_, value)| value.is_some_and(|own| !is_empty(own)))
    {
        None => Ok(()),
        Some((name, _)) => {
            let detail = format!("`{name}` is not accepted: agents do not offer it");
            Err(Problem::invalid(detail).with_param(name))
        }
    }
}
