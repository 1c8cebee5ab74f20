//! Findings as programs read them: a JSON object each, or an annotation each.

use std::borrow::Cow;

use logue_source::{Diagnostic, Severity, Source};
use serde_json::{Value, json};

/// A finding as one JSON object; lines and columns count from 1, columns in characters.
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

/// A finding as one workflow command of GitHub Actions, on one line.
pub(super) fn annotation(source: &Source<'_>, diagnostic: &Diagnostic) -> String {
    let level = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "notice",
    };
    let start = source.line_column(diagnostic.primary.start);
    let end = source.line_column(diagnostic.primary.end);
    // A column is only allowed where start and end are on one line.
    let columns = if start.line == end.line {
        format!(",col={},endColumn={}", start.column, end.column)
    } else {
        String::new()
    };
    format!(
        "::{level} file={},line={},endLine={}{columns},title={}::{}",
        property(source.name()),
        start.line,
        end.line,
        property(diagnostic.code.as_str()),
        data(&told(diagnostic)),
    )
}

/// What is wrong and what to do, as plain text of several lines.
pub(super) fn told(diagnostic: &Diagnostic) -> String {
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

/// The text of a workflow command, which ends at a line's end.
fn data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// A property of a workflow command, which ends at a comma, too.
fn property(text: &str) -> Cow<'_, str> {
    if !text.contains(['%', '\r', '\n', ':', ',']) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(data(text).replace(':', "%3A").replace(',', "%2C"))
}
