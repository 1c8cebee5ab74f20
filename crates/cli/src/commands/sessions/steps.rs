//! `logue sessions show --steps`: prints the numbered steps of a session.

use std::time::{Duration, SystemTime};

use logue_harness::Timestamp;
use logue_harness::chat::{SessionStep, session_steps};
use logue_harness::store::SharedStore;
use logue_source::escape_line;
use serde_json::{Value, json};

use crate::arguments::ShowArgs;
use crate::exit::{CliError, Exit};
use crate::setup::store::store_failure;
use crate::terminal::{ignore_broken_pipe, print};

/// Maximum number of characters shown of a step.
const MAX_SHOWN_CHARS: usize = 60;

pub(super) async fn show(store: SharedStore, arguments: &ShowArgs) -> Result<Exit, CliError> {
    let session = arguments.session.as_str();
    let steps = session_steps(&*store, session).await;
    let steps = steps.map_err(|error| store_failure(&error))?;
    if arguments.json {
        let steps: Vec<Value> = steps.iter().map(to_json).collect();
        let object = json!({ "session_id": session, "steps": steps });
        return ignore_broken_pipe(print(&format!("{object}\n")));
    }
    let mut text = String::new();
    let mut latest = None;
    for step in &steps {
        let entry = step.turn.as_ref().map(|turn| turn.entry);
        let origin = Some((entry, step.is_turn_lost));
        if origin != latest {
            text.push_str(&heading(step));
            latest = origin;
        }
        text.push_str(&line(step));
    }
    ignore_broken_pipe(print(&text))
}

fn to_json(step: &SessionStep) -> Value {
    let turn = step.turn.as_ref().map(|turn| {
        json!({
            "entry": turn.entry,
            "invocation_id": turn.invocation_id,
            "key": turn.key,
            "outcome": turn.outcome,
        })
    });
    json!({
        "step": step.number,
        "kind": step.kind.as_str(),
        "state": step.state.as_str(),
        "message": step.position,
        "call_id": step.call_id,
        "name": step.name,
        "text": step.text,
        "turn": turn,
        "turn_lost": step.is_turn_lost,
        "at": step.turn.as_ref().map(|turn| turn.at.0),
    })
}

/// Returns the line above the steps of an entry.
fn heading(step: &SessionStep) -> String {
    let Some(turn) = &step.turn else {
        let origin = if step.is_turn_lost {
            "turn unknown: a record was damaged"
        } else {
            "copied or imported"
        };
        return format!("── {origin}\n");
    };
    let outcome = json!(turn.outcome);
    let outcome = outcome.as_str().unwrap_or("running");
    let key = turn.key.as_ref();
    let key = key.map_or(String::new(), |key| format!(", key {}", escape_line(key)));
    let (entry, at) = (turn.entry, date(turn.at));
    format!("── turn {entry}: {outcome}, {at}{key}\n")
}

fn line(step: &SessionStep) -> String {
    let (number, kind) = (step.number, step.kind.as_str());
    let name = step.name.as_deref().unwrap_or_default();
    let state = match step.state.as_str() {
        "done" => String::new(),
        other => format!(" ({other})"),
    };
    let shown = [name, &shortened(&step.text)].join(" ");
    let shown = escape_line(shown.trim());
    format!("{number:>4} {kind:<10} {shown}{state}\n")
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Formats a time as a date of HTTP, which has a year of four digits.
fn date(at: Timestamp) -> String {
    let millis = at.0.min(253_402_300_799_000);
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_millis(millis))
}
