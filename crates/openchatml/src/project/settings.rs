//! Settings of a request: their place in the header of a transcript, and their types.

use logue_source::{Diagnostic, DiagnosticCode};
use serde_json::{Value, json};

use super::node::{Node, Object};
use super::tools::ToolShape;
use crate::check::settings::expected;

/// The settings of a request that are generation settings of a header.
const SETTINGS: [&str; 11] = [
    "temperature",
    "top_p",
    "stop",
    "seed",
    "max_tokens",
    "max_completion_tokens",
    "tool_choice",
    "response_format",
    "reasoning_effort",
    "presence_penalty",
    "frequency_penalty",
];

/// Names of settings in requests of other providers.
const RENAMED: [(ToolShape, &str, &str); 2] = [
    (ToolShape::Flat, "max_output_tokens", "max_tokens"),
    (ToolShape::InputSchema, "stop_sequences", "stop"),
];

/// Settings that requests of a provider cannot contain.
const FOREIGN: [(ToolShape, &[&str]); 2] = [
    (
        ToolShape::Flat,
        &["stop", "seed", "presence_penalty", "frequency_penalty"],
    ),
    (
        ToolShape::InputSchema,
        &[
            "seed",
            "reasoning_effort",
            "response_format",
            "presence_penalty",
            "frequency_penalty",
        ],
    ),
];

/// Reads the generation setting of a key; `None` for other keys and types.
pub(super) fn read_setting(
    key: &str,
    value: &Value,
    shape: ToolShape,
) -> Option<(&'static str, Value)> {
    if let Some(setting) = translated(key, value, shape) {
        return Some(setting);
    }
    let renamed = RENAMED
        .iter()
        .find(|(of, name, _)| *of == shape && *name == key);
    let is_replaced = RENAMED
        .iter()
        .any(|(of, _, name)| *of == shape && *name == key);
    let known = || {
        SETTINGS
            .into_iter()
            .find(|name| *name == key && !is_replaced)
    };
    let name = renamed.map(|(_, _, name)| *name).or_else(known)?;
    let is_list = renamed.is_none() || name != "stop" || value.is_array();
    // The choices of this provider are objects, and were read before.
    let is_choice = shape == ToolShape::InputSchema && name == "tool_choice";
    let fits = expected(name, value).is_none() && is_list && !value.is_null() && !is_choice;
    fits.then(|| (name, value.clone()))
}

/// Writes a setting as key and value; `None` if reading would not restore it.
pub(super) fn write_setting(
    name: &str,
    value: &Value,
    shape: ToolShape,
) -> Option<(&'static str, Value)> {
    let is_foreign = FOREIGN
        .iter()
        .any(|(of, names)| *of == shape && names.contains(&name));
    if is_foreign {
        return None;
    }
    let renamed = RENAMED
        .iter()
        .find(|(of, _, setting)| *of == shape && *setting == name);
    let known = || SETTINGS.into_iter().find(|setting| *setting == name);
    let written = match renamed {
        Some((_, key, _)) => (*key, value.clone()),
        None => translation(name, value, shape).or_else(|| Some((known()?, value.clone())))?,
    };
    let read = read_setting(written.0, &written.1, shape)?;
    (read.0 == name && read.1 == *value).then_some(written)
}

/// Returns the entry of an object that has no other one.
fn only<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    let object = value.as_object().filter(|object| object.len() == 1)?;
    object.get(key)
}

/// Returns the name in a choice of one tool.
fn chosen<'v>(value: &'v Value, kind: &str) -> Option<&'v str> {
    let object = value.as_object().filter(|object| object.len() == 2)?;
    let is_kind = object.get("type").and_then(Value::as_str) == Some(kind);
    object
        .get("name")
        .and_then(Value::as_str)
        .filter(|_| is_kind)
}

/// Reads a setting that Responses or Anthropic Messages write in another way.
fn translated(key: &str, value: &Value, shape: ToolShape) -> Option<(&'static str, Value)> {
    let function = |name: &str| json!({"type": "function", "function": {"name": name}});
    Some(match (shape, key) {
        (ToolShape::Flat, "reasoning") => {
            let effort = only(value, "effort").filter(|effort| effort.is_string())?;
            ("reasoning_effort", effort.clone())
        }
        (ToolShape::Flat, "text") => {
            let mut format = only(value, "format")?.as_object()?.clone();
            let kind = format.get("type").cloned()?;
            if kind == "json_schema" {
                format.remove("type");
                let wrapped = json!({"type": kind, "json_schema": format});
                return Some(("response_format", wrapped));
            }
            ("response_format", Value::Object(format))
        }
        (ToolShape::Flat, "tool_choice") => ("tool_choice", function(chosen(value, "function")?)),
        (ToolShape::InputSchema, "tool_choice") => {
            let choice = match only(value, "type").and_then(Value::as_str) {
                Some("auto") => "auto".into(),
                Some("any") => "required".into(),
                Some("none") => "none".into(),
                _ => function(chosen(value, "tool")?),
            };
            ("tool_choice", choice)
        }
        _ => return None,
    })
}

/// Writes a setting that Responses or Anthropic Messages write in another way.
fn translation(name: &str, value: &Value, shape: ToolShape) -> Option<(&'static str, Value)> {
    let function = only_function(value);
    Some(match (shape, name) {
        (ToolShape::Flat, "reasoning_effort") => ("reasoning", json!({"effort": value})),
        (ToolShape::Flat, "response_format") => {
            let mut format = value.as_object()?.clone();
            if let Some(Value::Object(schema)) = format.remove("json_schema") {
                format.extend(schema);
            }
            ("text", json!({"format": format}))
        }
        (ToolShape::Flat, "tool_choice") => (
            "tool_choice",
            json!({"type": "function", "name": function?}),
        ),
        (ToolShape::InputSchema, "tool_choice") => {
            let choice = match (value.as_str(), function) {
                (Some("required"), _) => json!({"type": "any"}),
                (Some(word), _) => json!({"type": word}),
                (None, name) => json!({"type": "tool", "name": name?}),
            };
            ("tool_choice", choice)
        }
        _ => return None,
    })
}

/// Returns the function that a choice names.
fn only_function(value: &Value) -> Option<&str> {
    value.get("function")?.get("name")?.as_str()
}

/// Checks the settings of a row, and of its header.
///
/// Columns of other rows may have the same names, so only rows that are requests are checked.
pub(super) fn check_settings(row: &Object<'_>) -> Vec<Diagnostic> {
    let is_request = ["messages", "input"]
        .iter()
        .any(|key| row.get(key).is_some());
    let header = row.get("header").and_then(Node::object);
    let settings = header
        .as_ref()
        .and_then(|header| header.get("generation_settings")?.object());
    let own = settings.or_else(|| is_request.then(|| row.clone()));
    let entries = own.map(|object| object.entries).unwrap_or_default();
    let wrong = entries.iter().filter_map(|(_, key, node)| {
        let expectation = expected(key, &node.value()?)?;
        let message = format!("the setting `{key}` has a value of another type");
        Some(
            Diagnostic::error(DiagnosticCode::JsonShape, message, node.span())
                .with_expected(expectation)
                .with_help("correct the value, or rename the key"),
        )
    });
    wrong.collect()
}
