//! Findings as workflow commands of GitHub Actions.

use std::borrow::Cow;

use logue_source::{Diagnostic, Severity, Source};

use crate::finding::plain_text;

/// Returns a finding as one workflow command of GitHub Actions, on one line.
pub(super) fn annotation(source: &Source<'_>, diagnostic: &Diagnostic) -> String {
    let level = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "notice",
    };
    let start = source.line_column(diagnostic.primary.start);
    let end = source.line_column(diagnostic.primary.end);
    // GitHub allows columns only if start and end are on one line.
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
        data(&plain_text(diagnostic)),
    )
}

/// Escapes the text of a workflow command, which a line break would end.
fn data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// Escapes a property of a workflow command, which a comma would also end.
fn property(text: &str) -> Cow<'_, str> {
    if !text.contains(['%', '\r', '\n', ':', ',']) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(data(text).replace(':', "%3A").replace(',', "%2C"))
}
