//! Settings of a request: their place in the header of a transcript, and their types.

use logue_source::{Diagnostic, DiagnosticCode};
use serde_json::Value;

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

/// Returns the generation setting of a key; `None` for other keys and types.
pub(super) fn setting_of(key: &str, value: &Value, shape: ToolShape) -> Option<&'static str> {
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
    (expected(name, value).is_none() && is_list && !value.is_null()).then_some(name)
}

/// Returns the key of a setting; `None` if reading would not restore it.
pub(super) fn key_of(name: &str, value: &Value, shape: ToolShape) -> Option<&'static str> {
    let renamed = RENAMED
        .iter()
        .find(|(of, _, setting)| *of == shape && *setting == name);
    let known = || SETTINGS.into_iter().find(|setting| *setting == name);
    let key = renamed.map(|(_, key, _)| *key).or_else(known)?;
    (setting_of(key, value, shape) == Some(name)).then_some(key)
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
