//! `logue sessions show`: prints a session.

use logue_harness::store::{
    EntryPayload, EntryState, InboxEntry, SessionInfo, SharedStore, StoreError, StoredOutcome,
    Suspension, SuspensionFilter, SuspensionStatus, current_history,
};
use logue_message::{ChatMessage, Role};
use logue_source::{ColorMode, escape_json, escape_line, escape_untrusted, quote_word};
use serde_json::{Value, json};

use crate::age::ago;
use crate::arguments::{ShowArgs, StoreArgs};
use crate::commands::sessions::known;
use crate::exit::{CliError, Exit};
use crate::setup::preview::previews;
use crate::setup::session_agent::VARIABLES;
use crate::setup::session_location::{elsewhere, put_location};
use crate::setup::session_turn::store_flag;
use crate::setup::store::store_failure;
use crate::setup::suspended::{file_of, obstacle};
use crate::terminal::{ignore_broken_pipe, output_style, print, print_error, print_styled};

/// Messages or outcomes per page.
const PAGE: usize = 1_000;
/// Maximum number of characters shown of a tool call or result.
const MAX_SHOWN_CHARS: usize = 400;

pub(super) async fn show(store: SharedStore, arguments: &ShowArgs) -> Result<Exit, CliError> {
    let session = arguments.session.as_str();
    let info = known(&store, session).await?;
    let (messages, is_damaged) = readable(&store, session, info.seq).await?;
    let exit = |printed| {
        ignore_broken_pipe(printed).map(|exit| if is_damaged { Exit::Findings } else { exit })
    };
    let inbox = store.inbox(session).await;
    let inbox = inbox.map_err(|error| store_failure(&error))?;
    let filter = SuspensionFilter {
        session: Some(session.to_owned()),
        status: Some(SuspensionStatus::Suspended),
        is_usable: true,
        ..SuspensionFilter::default()
    };
    let suspended = store.suspensions(filter).await;
    let mut suspended = suspended.map_err(|error| store_failure(&error))?;
    suspended.retain(|one| obstacle(one).is_none());
    let failed = failures(&store, &info, &messages).await?;
    let help = |turn: &FailedTurn| turn.help(session, &arguments.store);
    if arguments.json {
        let mut object = json!({
            "session_id": session,
            "messages": messages,
            "inbox": inbox.iter().map(entry_json).collect::<Vec<_>>(),
            "suspended": suspended.iter().map(suspension_json).collect::<Vec<_>>(),
            "failed": failed.iter().map(|turn| turn.to_json(help(turn))).collect::<Vec<_>>(),
            "labels": info.labels,
            "fields": info.fields,
            "cursor": info.cursor,
            "created_at": info.created_at.0,
            "updated_at": info.updated_at.0,
        });
        put_location(&mut object, info.elsewhere.as_ref());
        return exit(print(&format!("{object}\n")));
    }
    let style = output_style();
    let mut text = String::new();
    if let Some(elsewhere) = info.elsewhere.as_ref().and_then(elsewhere) {
        heading(&mut text, &elsewhere, style);
    }
    if let Some(values) = info.labels.get(VARIABLES).and_then(Value::as_object) {
        heading(&mut text, "variables", style);
        let lines = values.iter().map(|(name, value)| match value.as_str() {
            Some(value) => format!("{name}={}", escape_line(value)),
            None => format!("{name}: redacted, so later messages need it again"),
        });
        body(&mut text, &lines.collect::<Vec<_>>().join("\n"));
    }
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
    let unfinished = failed.iter().filter(|turn| !turn.is_continued);
    for turn in unfinished {
        let (entry, code) = (turn.outcome.entry, turn.text("category"));
        heading(&mut text, &format!("turn {entry} failed: {code}"), style);
        let mut words = turn.text("diagnostic").to_owned();
        if let Some(help) = help(turn) {
            words.push_str(&format!("\nhelp: {help}"));
        }
        body(&mut text, words.trim_start());
    }
    exit(print_styled(&text, style))
}

/// Returns a page of messages, each or the reason that it cannot be read.
///
/// `null` takes the place of a message that a later one supersedes.
pub(super) async fn page(
    store: &SharedStore,
    session: &str,
    from: u64,
    most: u64,
) -> Result<Vec<Result<Value, String>>, CliError> {
    let limit = usize::try_from(most).unwrap_or(PAGE);
    match current_history(&**store, session, from, limit).await {
        Ok(page) => Ok(page.into_iter().map(Ok).collect()),
        Err(StoreError::Damaged(_)) => {
            let mut page = Vec::new();
            for seq in from..from.saturating_add(most) {
                match current_history(&**store, session, seq, 1).await {
                    Ok(alone) => page.extend(alone.into_iter().map(Ok)),
                    Err(StoreError::Damaged(cause)) => page.push(Err(cause)),
                    Err(error) => return Err(store_failure(&error)),
                }
            }
            Ok(page)
        }
        Err(error) => Err(store_failure(&error)),
    }
}

/// Prints that a message cannot be read.
pub(super) fn report_unreadable(seq: u64, cause: &str) {
    let cause = escape_line(cause);
    print_error(&format!("message {seq}: error[store_corrupt]: {cause}\n"));
}

/// Returns the messages of a session, and whether one of them cannot be read.
///
/// Such a message is an object with the reason.
async fn readable(
    store: &SharedStore,
    session: &str,
    to: u64,
) -> Result<(Vec<Value>, bool), CliError> {
    let (mut messages, mut is_damaged, mut at) = (Vec::new(), false, 0);
    while at < to {
        let found = page(store, session, at, (to - at).min(PAGE as u64)).await?;
        if found.is_empty() {
            break;
        }
        for message in found {
            let message = message.unwrap_or_else(|cause| {
                is_damaged = true;
                report_unreadable(at, &cause);
                json!({ "unreadable": cause })
            });
            messages.extend(Some(message).filter(|message| !message.is_null()));
            at += 1;
        }
    }
    Ok((messages, is_damaged))
}

/// A turn that failed or was cancelled.
struct FailedTurn {
    outcome: StoredOutcome,
    /// The message of a turn of which nothing became history.
    message: Option<Value>,
    /// Whether a later entry has continued it, or answered its message.
    is_continued: bool,
    /// Whether nothing came after it, so that it can be tried again.
    is_latest: bool,
}

impl FailedTurn {
    fn text(&self, key: &str) -> &str {
        let text = self.outcome.body.get(key).and_then(Value::as_str);
        text.unwrap_or_default()
    }

    /// Returns the remedy: the command that tries it again, or the stored one.
    fn help(&self, session: &str, store: &StoreArgs) -> Option<String> {
        let is_cancelled = self.text("category") == "turn_cancelled";
        if self.is_latest && !is_cancelled && file_of(session).is_none() {
            let (session, store) = (quote_word(session), store_flag(store));
            return Some(format!("logue sessions retry {session}{store}"));
        }
        let stored = Some(self.text("help")).filter(|help| !help.is_empty());
        stored.filter(|_| !self.is_continued).map(str::to_owned)
    }

    fn to_json(&self, help: Option<String>) -> Value {
        let mut object = outcome_json(&self.outcome);
        object["code"] = json!(self.text("category"));
        object["message"] = json!(self.text("diagnostic"));
        object["continued"] = json!(self.is_continued);
        if let Some(help) = help {
            object["help"] = json!(help);
        }
        object
    }
}

/// Returns the turns that failed or were cancelled.
async fn failures(
    store: &SharedStore,
    info: &SessionInfo,
    messages: &[Value],
) -> Result<Vec<FailedTurn>, CliError> {
    use logue_harness::store::OutcomeKind::{Cancelled, Errored};
    let (mut failed, mut cursor): (Vec<FailedTurn>, _) = (Vec::new(), 0);
    loop {
        let page = store.outcomes_since(&info.session, cursor, PAGE).await;
        let page = page.map_err(|error| store_failure(&error))?;
        let Some(last) = page.last() else {
            return Ok(failed);
        };
        cursor = last.cursor;
        for outcome in page {
            let is_failure = matches!(outcome.kind, Errored | Cancelled);
            let message = if is_failure && outcome.replies_from == outcome.replies_to {
                unanswered(store, &info.session, &outcome).await?
            } else {
                let at = outcome.replies_from.checked_sub(1);
                let at = at.and_then(|at| usize::try_from(at).ok());
                at.and_then(|at| messages.get(at)).cloned()
            };
            for turn in &mut failed {
                // A turn that continues keeps its invocation; another one begins with its message.
                turn.is_continued |= turn.outcome.invocation_id == outcome.invocation_id
                    || turn.message.is_some() && turn.message == message;
            }
            if is_failure {
                failed.push(FailedTurn {
                    message,
                    is_continued: false,
                    is_latest: outcome.cursor == info.cursor && info.pending == 0,
                    outcome,
                });
            }
        }
    }
}

/// Returns the message of a failed entry that is not history.
async fn unanswered(
    store: &SharedStore,
    session: &str,
    outcome: &StoredOutcome,
) -> Result<Option<Value>, CliError> {
    let entry = store.entry(session, outcome.entry).await;
    let entry = entry.map_err(|error| store_failure(&error))?;
    Ok(entry.and_then(|entry| match entry.work {
        Some(EntryPayload::Message { message }) => Some(message),
        _ => None,
    }))
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
        let mark = if message.interrupted {
            " · incomplete"
        } else {
            ""
        };
        heading(text, &format!("{}{mark}", message.role.as_str()), style);
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
