//! Findings in machine-readable form and as plain text.

use logue_source::{Diagnostic, Source};
use serde_json::{Value, json};

/// Returns a finding as a JSON object.
///
/// Lines and columns count from 1; columns count characters.
pub(crate) fn to_json(source: &Source<'_>, diagnostic: &Diagnostic) -> Value {
    let place = |offset: usize| {
        let place = source.line_column(offset);
        let offset_in_all = source.offset(offset);
        json!({"offset": offset_in_all, "line": place.line, "column": place.column})
    };
    let labels: Vec<Value> = diagnostic
        .labels
        .iter()
        .map(|label| {
            json!({"start": place(label.span.start), "end": place(label.span.end), "text": label.text})
        })
        .collect();
    json!({
        "file": source.name(),
        "code": diagnostic.code.as_str(),
        "severity": diagnostic.severity.as_str(),
        "message": diagnostic.message,
        "start": place(diagnostic.primary.start),
        "end": place(diagnostic.primary.end),
        "expected": diagnostic.expected,
        "labels": labels,
        "help": diagnostic.help,
    })
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
