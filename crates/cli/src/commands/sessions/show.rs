//! `logue sessions show`: prints a session.

use logue_harness::store::{
    EntryPayload, EntryState, InboxEntry, SharedStore, StoredOutcome, Suspension, SuspensionFilter,
    SuspensionStatus,
};
use logue_message::{ChatMessage, Role};
use logue_source::{ColorMode, escape_json, escape_line, escape_untrusted};
use serde_json::{Value, json};

use crate::arguments::ShowArgs;
use crate::commands::sessions::{ago, known};
use crate::counted::counted;
use crate::exit::{CliError, Exit};
use crate::setup::preview::previews;
use crate::setup::store::store_failure;
use crate::setup::suspended::obstacle;
use crate::terminal::{ignore_broken_pipe, output_style, print, print_styled};

/// Messages or outcomes per page.
const PAGE: usize = 1_000;
/// Maximum number of characters shown of a tool call or result.
const MAX_SHOWN_CHARS: usize = 400;

pub(super) async fn show(store: SharedStore, arguments: &ShowArgs) -> Result<Exit, CliError> {
    let session = arguments.session.as_str();
    let info = known(&store, session).await?;
    let messages = messages(&store, session, 0, info.seq).await?;
    let inbox = store.inbox(session).await;
    let inbox = inbox.map_err(|error| store_failure(&error))?;
    let filter = SuspensionFilter {
        session: Some(session.to_owned()),
        signal_id: None,
        status: Some(SuspensionStatus::Suspended),
    };
    let suspended = store.suspensions(filter).await;
    let mut suspended = suspended.map_err(|error| store_failure(&error))?;
    suspended.retain(|one| obstacle(one).is_none());
    let failed = failures(&store, session).await?;
    if arguments.json {
        let object = json!({
            "session_id": session,
            "messages": messages,
            "inbox": inbox.iter().map(entry_json).collect::<Vec<_>>(),
            "suspended": suspended.iter().map(suspension_json).collect::<Vec<_>>(),
            "failed": failed.iter().map(outcome_json).collect::<Vec<_>>(),
            "labels": info.labels,
            "fields": info.fields,
            "cursor": info.cursor,
            "created_at": info.created_at.0,
            "updated_at": info.updated_at.0,
        });
        return ignore_broken_pipe(print(&format!("{object}\n")));
    }
    let style = output_style();
    let mut text = String::new();
    for message in &messages {
        format_message(&mut text, message, style);
    }
    for entry in &inbox {
        let state = match entry.state {
            EntryState::Running => "runs, or was interrupted",
            _ => "waits for its turn",
        };
        let what = match &entry.work {
            Some(EntryPayload::Message { message }) => ChatMessage::from_json(message).map_or_else(
                |error| format!("unreadable message: {error}"),
                |message| message.text(),
            ),
            Some(EntryPayload::Resume { .. }) => "a signal".to_owned(),
            _ => String::new(),
        };
        heading(&mut text, &format!("inbox {}: {state}", entry.entry), style);
        body(&mut text, &what);
    }
    for one in &suspended {
        let since = ago(one.since);
        let title = format!("waits for {} since {since}", one.signal_id);
        heading(&mut text, &title, style);
        let reason = one.metadata.as_ref().and_then(|data| data.get("reason"));
        body(
            &mut text,
            reason.and_then(Value::as_str).unwrap_or_default(),
        );
        body(&mut text, &previews(one.metadata.as_ref()));
    }
    if !failed.is_empty() {
        let count = counted(failed.len(), "turn");
        heading(
            &mut text,
            &format!("{count} failed; use --json for details"),
            style,
        );
    }
    ignore_broken_pipe(print_styled(&text, style))
}

/// Returns the messages `from..to` of a session's history.
pub(super) async fn messages(
    store: &SharedStore,
    session: &str,
    from: u64,
    to: u64,
) -> Result<Vec<Value>, CliError> {
    let mut messages = Vec::new();
    let mut at = from;
    while at < to {
        let wanted = usize::try_from(to - at).unwrap_or(PAGE).min(PAGE);
        let page = store.history(session, at, wanted).await;
        let page = page.map_err(|error| store_failure(&error))?;
        if page.is_empty() {
            break;
        }
        at += page.len() as u64;
        messages.extend(page);
    }
    Ok(messages)
}

/// Returns the outcomes of failed and cancelled turns.
async fn failures(store: &SharedStore, session: &str) -> Result<Vec<StoredOutcome>, CliError> {
    use logue_harness::store::OutcomeKind::{Cancelled, Errored};
    let (mut failed, mut cursor) = (Vec::new(), 0);
    loop {
        let page = store.outcomes_since(session, cursor, PAGE).await;
        let page = page.map_err(|error| store_failure(&error))?;
        let Some(last) = page.last() else {
            return Ok(failed);
        };
        cursor = last.cursor;
        failed.extend(
            page.into_iter()
                .filter(|outcome| matches!(outcome.kind, Errored | Cancelled)),
        );
    }
}

/// Returns an outcome as JSON.
pub(super) fn outcome_json(outcome: &StoredOutcome) -> Value {
    json!({
        "cursor": outcome.cursor,
        "entry": outcome.entry,
        "invocation_id": outcome.invocation_id,
        "resumed": outcome.resumed,
        "outcome": outcome.kind,
        "body": outcome.body,
        "at": outcome.at.0,
    })
}

fn entry_json(entry: &InboxEntry) -> Value {
    json!({
        "entry": entry.entry,
        "state": entry.state,
        "work": entry.work,
        "key": entry.key,
        "invocation_id": entry.invocation_id,
        "accepted_at": entry.accepted_at.0,
    })
}

fn suspension_json(one: &Suspension) -> Value {
    json!({
        "signal_id": one.signal_id,
        "invocation_id": one.invocation_id,
        "metadata": one.metadata,
        "since": one.since.0,
    })
}

/// Appends a message as text; tool calls and results are shortened.
pub(super) fn format_message(text: &mut String, message: &Value, style: ColorMode) {
    let message = match ChatMessage::from_json(message) {
        Ok(message) => message,
        Err(error) => {
            heading(text, "unreadable message", style);
            return body(text, &error.to_string());
        }
    };
    let words = message.text();
    if message.role == Role::Tool {
        let name = message.name.as_deref().unwrap_or("tool");
        heading(text, &format!("result of {name}"), style);
        return body(text, &shortened(&words));
    }
    if !words.is_empty() {
        heading(text, message.role.as_str(), style);
        body(text, &words);
    }
    for call in &message.tool_calls {
        heading(text, &format!("call of {}", call.name), style);
        body(text, &shortened(&escape_json(call.arguments.as_str())));
    }
}

pub(super) fn heading(text: &mut String, what: &str, style: ColorMode) {
    let what = escape_line(what);
    text.push_str(&match style {
        ColorMode::Ansi => format!("\u{1b}[1m── {what}\u{1b}[0m\n"),
        ColorMode::Plain => format!("── {what}\n"),
    });
}

pub(super) fn body(text: &mut String, what: &str) {
    if !what.is_empty() {
        text.push_str(&escape_untrusted(what));
        text.push_str(if what.ends_with('\n') { "\n" } else { "\n\n" });
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}
