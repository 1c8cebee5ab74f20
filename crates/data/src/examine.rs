//! The examination of rows: findings, and the measures of a data set.
//!
//! | part | findings |
//! |---|---|
//! | form | invalid JSON, unknown shapes, messages that cannot be read |
//! | calls | undeclared tools, arguments against their schema, results without a call |
//! | text | control tokens of every model family, which a template would pass on |
//! | training | rows in which no assistant text can be trained, rows that end without an answer |

mod histogram;
mod measures;

use logue_source::{Diagnostic, DiagnosticCode, Span};
use openchatml::convert::ConvertOptions;
use openchatml::project::{self, JsonFormat, Projected};
use openchatml::scan::{ScanFormat, TokenFamily, TokenHit, TokenScanner};
use openchatml::{FrameBuf, FrameRole, LossSeverity};

use crate::hash;
use crate::row_turns::turns;
use crate::tokenizer::Tokenizer;
use crate::words::fold;

pub use histogram::{Bar, Histogram};
pub use measures::{Measures, RowMeasures};

/// The most findings of a row; the others are counted in the last one.
const MAX_FINDINGS: usize = 100;

/// The result for a row.
#[derive(Clone, Debug, Default)]
pub struct Examined {
    /// The findings; their spans refer to the bytes of the row.
    pub findings: Vec<Diagnostic>,
    /// The measures; `None` if the row could not be read.
    pub measures: Option<RowMeasures>,
    /// The hash of the text with folded white space, which exact duplicates share.
    pub text: Option<u64>,
}

/// Examines a row. Linear in its length, except for the tokens.
///
/// `form` applies to every row; without one, the row is recognized.
pub fn examine(row: &[u8], form: Option<JsonFormat>, tokenizer: &mut dyn Tokenizer) -> Examined {
    let options = ConvertOptions::default().with_thinking(true);
    let whole = Span::new(0, row.len());
    let (form, read) = match form {
        Some(form) => (form, project::read_all(row, whole, form, &options)),
        None => match project::read_recognized(row, &options) {
            Some(read) => read,
            None => return unreadable(row),
        },
    };
    let mut findings = Vec::new();
    let mut measures = RowMeasures {
        form: form.as_str(),
        bytes: row.len() as u64,
        ..RowMeasures::default()
    };
    let is_broken = read.iter().any(Projected::has_errors);
    for conversation in &read {
        findings.extend(conversation.diagnostics.iter().cloned());
        findings.extend(project::check(row, &conversation.transcript));
        measures.add(&conversation.transcript, tokenizer);
        for loss in &conversation.losses {
            let severity = loss.severity().map_or("note", LossSeverity::as_str);
            let name = format!("{severity}: {}", loss.kind);
            *measures.losses.entry(name).or_default() += 1;
        }
        if !is_broken {
            findings.extend(untrainable(&conversation.transcript.frames, whole));
        }
    }
    findings.extend(control_tokens(row));
    // Both conversations of a pair report what they share.
    let mut seen: Vec<Diagnostic> = Vec::new();
    findings.retain(|found| {
        let is_new = !seen.contains(found);
        if is_new && seen.len() < MAX_FINDINGS {
            seen.push(found.clone());
        }
        is_new
    });
    if findings.len() > MAX_FINDINGS {
        let more = findings.len() - MAX_FINDINGS;
        findings.truncate(MAX_FINDINGS);
        if let Some(last) = findings.last_mut() {
            last.help
                .push(format!("{more} more findings of the row are not shown"));
        }
    }
    Examined {
        findings,
        measures: (!is_broken).then_some(measures),
        text: if is_broken { None } else { text_of(row) },
    }
}

/// Returns the hash of the text of a row.
fn text_of(row: &[u8]) -> Option<u64> {
    let turns = turns(row, &[]).ok()?;
    let mut folded = Vec::with_capacity(row.len());
    fold(&turns, &mut folded);
    Some(hash::of_bytes(&folded))
}

/// Returns the reason why a row is not a conversation.
fn unreadable(row: &[u8]) -> Examined {
    let whole = Span::new(0, row.len());
    let read = project::read_all(row, whole, JsonFormat::OpenAi, &ConvertOptions::default());
    let syntax = read
        .into_iter()
        .flat_map(|read| read.diagnostics)
        .find(|found| {
            let codes = [DiagnosticCode::JsonSyntax, DiagnosticCode::SourceNotUtf8];
            codes.contains(&found.code)
        });
    let finding = syntax.unwrap_or_else(|| {
        let shape = project::recognize(row).err();
        let message = shape.map_or_else(
            || "the row is not a conversation".to_owned(),
            |shape| shape.to_string(),
        );
        Diagnostic::error(DiagnosticCode::JsonShape, message, whole)
            .with_expected("a conversation")
            .with_help("rename the keys to those of a known shape, or name the form with --from")
    });
    Examined {
        findings: vec![finding],
        measures: None,
        text: None,
    }
}

/// Reports a row in which a trainer would find nothing to train, or no end.
fn untrainable(frames: &[FrameBuf], whole: Span) -> Option<Diagnostic> {
    let is_assistant = |frame: &&FrameBuf| frame.role == FrameRole::Assistant;
    let trained = frames.iter().filter(is_assistant);
    if trained
        .clone()
        .all(|frame| frame.body.trim().is_empty() && !frame.is_call())
    {
        let message = "the row has no text of the assistant, so that its mask would be empty";
        return Some(
            Diagnostic::error(DiagnosticCode::DataMaskEmpty, message, whole)
                .with_help("remove the row, or add the answer"),
        );
    }
    let last = frames.last()?;
    if last.role == FrameRole::Assistant {
        return None;
    }
    let message = "the row ends without an answer of the assistant";
    Some(
        Diagnostic::warning(DiagnosticCode::DataNoAnswer, message, whole)
            .with_help("remove the last messages, or add the answer"),
    )
}

/// Reports control tokens in the text of a row, also where JSON escapes spell them.
fn control_tokens(row: &[u8]) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    // Every control token begins with `<` or `[`, or with their escapes.
    if memchr::memchr3(b'<', b'[', b'\\', row).is_none() {
        return found;
    }
    let mut scan = TokenScanner::new(ScanFormat::Json);
    let mut add = |hit: TokenHit| {
        let families: Vec<&str> = hit.families.iter().map(TokenFamily::name).collect();
        let message = format!(
            "a message contains the control token `{}` ({})",
            hit.token,
            families.join(", ")
        );
        found.push(
            Diagnostic::warning(DiagnosticCode::HiddenControlToken, message, hit.span)
                .with_help("remove it, or train with a writer that escapes it"),
        );
    };
    scan.push(row, &mut add);
    scan.finish(&mut add);
    found
}

#[cfg(test)]
mod tests {
    use super::examine;
    use crate::O200k;

    #[test]
    fn a_row_that_is_not_utf_8_has_the_code_of_its_encoding() {
        let examined = examine(b"\xFF\xFE", None, &mut O200k::new());
        let codes: Vec<_> = examined
            .findings
            .iter()
            .map(|found| found.code.as_str())
            .collect();
        assert_eq!(codes, ["E-SOURCE-NOT-UTF8"]);
    }

    fn codes(row: &str) -> Vec<&'static str> {
        let examined = examine(row.as_bytes(), None, &mut O200k::new());
        examined
            .findings
            .iter()
            .map(|found| found.code.as_str())
            .collect()
    }

    #[test]
    fn each_defect_has_its_code() {
        for (row, expected) in [
            (
                r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}"#,
                &[][..],
            ),
            (
                r#"{"messages":[{"role":"user","content":"a"}"#,
                &["E-JSON-SYNTAX"],
            ),
            (r#"{"x":1}"#, &["E-JSON-SHAPE"]),
            (
                r#"{"messages":[{"role":"user","content":"a"}]}"#,
                &["E-DATA-MASK-EMPTY"],
            ),
            (
                r#"{"messages":[{"role":"assistant","content":"b"},{"role":"user","content":"a"}]}"#,
                &["data-no-answer"],
            ),
            (
                r#"{"messages":[{"role":"user","content":"\u003c|im_start|>"},{"role":"assistant","content":"b"}]}"#,
                &["hidden-control-token"],
            ),
            (
                r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"g","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"x"},{"role":"assistant","content":"b"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]}"#,
                &["E-CALL-SCHEMA"],
            ),
        ] {
            assert_eq!(codes(row), expected, "{row}");
        }
    }
}
