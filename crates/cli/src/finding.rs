//! Findings in machine-readable form and as plain text.

use logue_source::{Diagnostic, Source};
use serde_json::{Value, json};

/// Returns a finding as a JSON object.
pub(crate) fn to_json(source: &Source<'_>, diagnostic: &Diagnostic) -> Value {
    let labels: Vec<Value> = diagnostic
        .labels
        .iter()
        .map(|label| {
            json!({"start": place_json(source, label.span.start), "end": place_json(source, label.span.end), "text": label.text})
        })
        .collect();
    json!({
        "file": source.name(),
        "code": diagnostic.code.as_str(),
        "severity": diagnostic.severity.as_str(),
        "message": diagnostic.message,
        "start": place_json(source, diagnostic.primary.start),
        "end": place_json(source, diagnostic.primary.end),
        "expected": diagnostic.expected,
        "labels": labels,
        "help": diagnostic.help,
    })
}

/// Returns a position as a JSON object.
///
/// Lines and columns count from 1; columns count characters.
pub(crate) fn place_json(source: &Source<'_>, offset: usize) -> Value {
    let place = source.line_column(offset);
    json!({"offset": source.offset(offset), "line": place.line, "column": place.column})
}

/// Returns the message and the remedies as plain text of several lines.
pub(crate) fn plain_text(diagnostic: &Diagnostic) -> String {
    let mut text = diagnostic.message.clone();
    if let Some(expected) = &diagnostic.expected {
        text.push_str("\nexpected: ");
        text.push_str(expected);
    }
    for help in &diagnostic.help {
        text.push_str("\nhelp: ");
        text.push_str(help);
    }
    text
}
