//! Settings of a row against their types.

use logue_source::{Diagnostic, DiagnosticCode};

use super::node::{Node, Object};
use crate::check::settings::expected;

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
