//! Findings as one SARIF 2.1.0 log, the format of code scanners and editors.
//!
//! The log holds one run. Its rules are the codes of the findings, in the order of their first
//! occurrence. A result names its rule by id and by its index in that list.

use std::fmt::Write as _;
use std::path::Path;

use logue_source::{Diagnostic, DiagnosticCode, Severity, Source, Span};
use serde_json::{Map, Value, json};

use crate::finding::plain_text;

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// A SARIF log that collects findings until [`Self::log`] renders it.
#[derive(Debug, Default)]
pub(crate) struct Sarif {
    rules: Vec<DiagnosticCode>,
    results: Vec<Value>,
}

impl Sarif {
    /// Adds a finding of the file at `path`; `None` is standard input.
    pub(crate) fn add(&mut self, path: Option<&Path>, source: &Source<'_>, found: &Diagnostic) {
        let known = self.rules.iter().position(|rule| *rule == found.code);
        let rule = known.unwrap_or_else(|| {
            self.rules.push(found.code);
            self.rules.len() - 1
        });
        let uri = path.map_or_else(|| "stdin".to_owned(), uri);
        let place =
            |span: Span| json!({"artifactLocation": {"uri": uri}, "region": region(source, span)});
        let mut result = Map::new();
        result.insert("ruleId".into(), json!(found.code.as_str()));
        result.insert("ruleIndex".into(), json!(rule));
        result.insert("level".into(), json!(level(found.severity)));
        result.insert("message".into(), json!({"text": plain_text(found)}));
        let primary = json!([{"physicalLocation": place(found.primary)}]);
        result.insert("locations".into(), primary);
        let related = found.labels.iter().enumerate().map(|(number, label)| {
            json!({
                "id": number + 1,
                "message": {"text": label.text},
                "physicalLocation": place(label.span),
            })
        });
        if !found.labels.is_empty() {
            result.insert("relatedLocations".into(), related.collect());
        }
        self.results.push(Value::Object(result));
    }

    /// Returns the log. `complete` is `true` if every file could be read.
    pub(crate) fn log(self, complete: bool) -> Value {
        let rules = self.rules.into_iter().map(|code| {
            json!({
                "id": code.as_str(),
                "shortDescription": {"text": code.summary()},
                "helpUri": format!("docs/errors/{code}.md"),
            })
        });
        json!({
            "$schema": SCHEMA,
            "version": "2.1.0",
            "runs": [{
                "tool": {"driver": {
                    "name": "logue",
                    "version": env!("CARGO_PKG_VERSION"),
                    "rules": rules.collect::<Value>(),
                }},
                "invocations": [{"executionSuccessful": complete}],
                "columnKind": "unicodeCodePoints",
                "results": self.results,
            }],
        })
    }
}

const fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

/// Returns a span as lines and columns from 1, with an exclusive end.
fn region(source: &Source<'_>, span: Span) -> Value {
    let start = source.line_column(span.start);
    let end = source.line_column(span.end);
    json!({
        "startLine": start.line,
        "startColumn": start.column,
        "endLine": end.line,
        "endColumn": end.column,
    })
}

/// Returns a path as a URI reference.
///
/// Relative paths stay relative to the working directory of the program.
fn uri(path: &Path) -> String {
    let mut text = String::from(if path.is_absolute() { "file://" } else { "" });
    let path = path.strip_prefix(".").unwrap_or(path);
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => text.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => text.push(char::from(*byte)),
            byte => {
                // Writing to a string cannot fail.
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}
