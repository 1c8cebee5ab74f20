//! `logue sessions show --audit`: the decisions about tool calls, with their sources.

use std::path::{Path, PathBuf};

use logue_agent::{AuditFile, AuditRecord, DecisionSource};
use logue_harness::Timestamp;
use logue_harness::store::SharedStore;
use logue_source::ColorMode;
use logue_tools::PrivateFileError;
use serde_json::{Value, json};

use crate::age::ago;
use crate::arguments::ShowArgs;
use crate::commands::sessions::known;
use crate::commands::sessions::show::{body, heading};
use crate::exit::{CliError, Exit};
use crate::setup::environment::file_owners;
use crate::setup::permissions::audit_folder;
use crate::setup::store::store_failure;
use crate::setup::suspended;
use crate::terminal::{ignore_broken_pipe, output_style, print, print_error, print_styled};

/// Records per page.
const PAGE: usize = 1_000;

/// Returns the transcript file that `session` names, directly or as a session of a file.
pub(super) fn file_of(session: &str) -> Option<PathBuf> {
    let path = Path::new(session);
    suspended::file_of(session).or_else(|| path.is_file().then(|| path.to_owned()))
}

/// Prints the audit of a conversation in a file.
pub(super) fn print_file(file: &Path, arguments: &ShowArgs) -> Result<Exit, CliError> {
    let records = match audit_folder() {
        None => Vec::new(),
        Some(folder) => AuditFile::read(&folder, file, file_owners()).map_err(|error| {
            let message = format!("cannot read the audit of `{}`: {error}", file.display());
            let help = PrivateFileError::in_error(&error).map(PrivateFileError::help);
            let error = CliError::user("E-SOURCE-READ", message);
            help.into_iter().fold(error, CliError::with_help)
        })?,
    };
    print_records(
        &json!({"file": file.display().to_string()}),
        records,
        arguments,
    )
}

/// Prints the audit of a session.
pub(super) async fn print_session(
    store: SharedStore,
    arguments: &ShowArgs,
) -> Result<Exit, CliError> {
    let session = arguments.session.as_str();
    known(&store, session).await?;
    let (mut records, mut from) = (Vec::new(), 0);
    loop {
        let page = store.audited(session, from, PAGE).await;
        let page = page.map_err(|error| store_failure(&error))?;
        let Some(last) = page.last() else { break };
        from = last.seq + 1;
        records.extend(page.into_iter().map(|entry| {
            let mut record = entry.record;
            record["at"] = json!(entry.at.0);
            record
        }));
    }
    print_records(&json!({ "session_id": session }), records, arguments)
}

fn print_records(of: &Value, records: Vec<Value>, arguments: &ShowArgs) -> Result<Exit, CliError> {
    if arguments.json {
        let mut object = of.clone();
        object["audit"] = Value::Array(records);
        return ignore_broken_pipe(print(&format!("{object}\n")));
    }
    if records.is_empty() {
        print_error("no decisions about tool calls are recorded\n");
    }
    let style = output_style();
    let mut text = String::new();
    for record in &records {
        line(&mut text, record, style);
    }
    ignore_broken_pipe(print_styled(&text, style))
}

/// Appends a record as text.
fn line(text: &mut String, value: &Value, style: ColorMode) {
    let at = value.get("at").and_then(Value::as_u64).unwrap_or_default();
    // A record of a later version may contain unknown fields.
    let Ok(record) = AuditRecord::deserialized(value) else {
        heading(
            text,
            &format!("{}: a record of another version", ago(Timestamp(at))),
            style,
        );
        return body(text, &value.to_string());
    };
    let by = source_text(&record.by);
    let of_agent = record.agent.as_ref();
    let of_agent = of_agent.map_or(String::new(), |agent| format!(" of the agent {agent}"));
    let what = format!(
        "{}: {} {}{of_agent}, by {by}",
        ago(Timestamp(at)),
        record.decision,
        record.tool,
    );
    heading(text, &what, style);
    let mut shown = record.shown;
    if let Some(edited) = &record.edited {
        shown.push_str(&format!("\nedited, so this ran instead:\n{}", edited.shown));
    }
    if !record.note.is_empty() {
        shown.push_str(&format!("\nnote: {}", record.note));
    }
    body(text, &shown);
}

fn source_text(by: &DecisionSource) -> String {
    match by {
        DecisionSource::Flag { rule } => format!("--permission {rule}"),
        DecisionSource::Config { path, rule } => format!("{}: {rule}", path.display()),
        DecisionSource::Trust { .. } => "trust in the prompt".to_owned(),
        DecisionSource::NotTrusted { .. } => "no trust in the prompt".to_owned(),
        DecisionSource::Harmless => "default: it only reads".to_owned(),
        DecisionSource::Declared => "default: it is declared".to_owned(),
        DecisionSource::Terminal { asked: true } => "a person at the terminal".to_owned(),
        DecisionSource::Terminal { asked: false } => {
            "a person at the terminal, for all calls of the run".to_owned()
        }
        DecisionSource::Signal {
            signal_id,
            decided_by,
        } => match decided_by {
            Some(person) => format!("{person}, by the signal {signal_id}"),
            None => format!("the signal {signal_id}"),
        },
        DecisionSource::Expired { signal_id, seconds } => {
            format!("time: no signal {signal_id} within {seconds} s")
        }
        DecisionSource::Unattended { why } => {
            format!("{}; no approver was available", source_text(why))
        }
        _ => "something else".to_owned(),
    }
}
