//! Outcomes of the store that are not yet in the log of events.

use logue_agent::public_detail;
use logue_harness::chat::ChatTurnOutcome;
use logue_harness::events::{EventBatch, LogPosition};
use logue_harness::store::{OutcomeKind, Store, StoreError, StoredOutcome};
use logue_harness::{Clock, ErrorBucket};
use logue_message::{ChatMessage, Role};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::hub::SessionHub;
use super::limits::HeldPermits;
use super::turn_events::event_text;
use super::visible::{visible_json, visible_waiting};

/// The number of outcomes that are read at once.
const PAGE: usize = 16;
/// The time in which the process that ran a turn appends its outcome.
///
/// Nothing can be appended to a turn whose outcome is logged. Others log it later, if that process
/// has ended or has no log.
pub(crate) const OWNER_FIRST: Duration = Duration::from_millis(1_500);

/// The outcomes that were missing in logs, by session: the last one, and the time when it was seen.
#[derive(Default)]
pub(crate) struct MissingOutcomes(Mutex<HashMap<String, (u64, Instant)>>);

impl MissingOutcomes {
    /// Returns the last missing outcome that its own process has had the time to log.
    ///
    /// `last` is the last one that is missing now.
    fn due(&self, session: &str, last: u64) -> u64 {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = seen.get(session).copied();
        match known {
            Some((cursor, since)) if since.elapsed() >= OWNER_FIRST => {
                seen.remove(session);
                cursor
            }
            Some(_) => 0,
            None => {
                seen.insert(session.to_owned(), (last, Instant::now()));
                0
            }
        }
    }

    /// Returns the sessions that lack outcomes.
    pub(crate) fn sessions(&self) -> Vec<String> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.keys().cloned().collect()
    }

    fn remove(&self, session: &str) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.remove(session);
    }
}

/// Appends the outcomes of a session that its log does not contain, of any process.
///
/// Each is appended once. The log of a session that had none begins after its last outcome. The
/// outcome of the entry `own`, whose events this process has appended, is logged at once. Others are
/// left to their processes for [`OWNER_FIRST`]; returns `false` if some are.
///
/// # Errors
/// Returns an error if the store or the log fails; a later call continues.
pub(crate) async fn log_outcomes(
    (hub, permits, missing): (&SessionHub, &HeldPermits, &MissingOutcomes),
    store: &dyn Store,
    clock: &dyn Clock,
    (session, own): (&str, Option<u64>),
) -> Result<bool, StoreError> {
    loop {
        let position = adopt(hub, store, clock, session).await?;
        if !position.has_begun() {
            // The session may have been removed.
            missing.remove(session);
            return Ok(true);
        }
        let page = match store.outcomes_since(session, position.cursor, PAGE).await {
            Err(StoreError::Damaged(_)) => store.outcomes_since(session, position.cursor, 1).await,
            page => page,
        };
        let (events, next) = match page {
            // The position that is known here may be that of a log that was lost meanwhile.
            Ok(page) if page.is_empty() => match hub.position_in_log(session).await? {
                now if now == position => {
                    missing.remove(session);
                    return Ok(true);
                }
                _ => continue,
            },
            Ok(mut page) => {
                let last = page.last().map_or(0, |outcome| outcome.cursor);
                if page.first().is_some_and(|first| Some(first.entry) == own) {
                    page.truncate(1);
                } else {
                    let due = missing.due(session, last);
                    page.retain(|outcome| outcome.cursor <= due);
                }
                if page.is_empty() {
                    return Ok(false);
                }
                events_of(store, session, position, &page).await?
            }
            Err(StoreError::Damaged(_)) => match lost(store, session, position).await? {
                Some(batch) => batch,
                None => return Ok(true),
            },
            Err(error) => return Err(error),
        };
        for (entry, _) in &events {
            permits.release(session, *entry);
        }
        let batch = EventBatch {
            progress: Some((position, next)),
            lease: None,
            events,
            now: clock.now(),
        };
        // What follows is read again, and a log that another task has written as well.
        hub.append(session, batch).await?;
    }
}

/// Begins the log of a session, after the last outcome that other programs have stored.
///
/// The log of a session that is not in the store does not begin.
///
/// # Errors
/// Returns an error if the store or the log fails.
pub(crate) async fn adopt(
    hub: &SessionHub,
    store: &dyn Store,
    clock: &dyn Clock,
    session: &str,
) -> Result<LogPosition, StoreError> {
    let position = hub.position(session).await?;
    if position.has_begun() {
        return Ok(position);
    }
    let Some(info) = store.session(session).await? else {
        return Ok(position);
    };
    let mut entry = 0;
    if let Some(before) = info.cursor.checked_sub(1) {
        let last = store.outcomes_since(session, before, 1).await;
        let last = last.ok();
        entry = last.and_then(|last| Some(last.first()?.entry)).unwrap_or(0);
    }
    let next = position
        .with_accepted(entry)
        .with_outcome(info.cursor, entry);
    let batch = EventBatch {
        progress: Some((position, next)),
        lease: None,
        events: Vec::new(),
        now: clock.now(),
    };
    let appended = hub.append(session, batch).await?;
    match appended {
        Some(position) => Ok(position),
        None => hub.position(session).await,
    }
}

type LoggedOutcomes = (Vec<(u64, Arc<str>)>, LogPosition);

async fn events_of(
    store: &dyn Store,
    session: &str,
    mut position: LogPosition,
    page: &[StoredOutcome],
) -> Result<LoggedOutcomes, StoreError> {
    let mut events = Vec::with_capacity(page.len());
    for outcome in page {
        let is_accepted = outcome.entry <= position.accepted;
        let text = outcome_event(store, session, outcome, is_accepted).await?;
        events.push((outcome.entry, text));
        position = position
            .with_accepted(position.accepted.max(outcome.entry))
            .with_outcome(outcome.cursor, outcome.entry);
    }
    Ok((events, position))
}

/// Returns the event of the outcome of an entry, if the entry is settled.
///
/// It is that of a turn whose events the log does not contain any more.
pub(crate) async fn stored_event(
    store: &dyn Store,
    session: &str,
    entry: u64,
) -> Result<Option<Arc<str>>, StoreError> {
    let Some(outcome) = store.outcome_of(session, entry).await? else {
        return Ok(None);
    };
    let text = outcome_event(store, session, &outcome, true).await?;
    Ok(Some(text))
}

/// Returns the event of an outcome with its messages.
///
/// The message that began the turn is included if its acceptance was not logged.
async fn outcome_event(
    store: &dyn Store,
    session: &str,
    outcome: &StoredOutcome,
    is_accepted: bool,
) -> Result<Arc<str>, StoreError> {
    let mut from = outcome.replies_from;
    if !is_accepted && !outcome.resumed {
        from = from.saturating_sub(1);
    }
    let count = usize::try_from(outcome.replies_to.saturating_sub(from)).unwrap_or(usize::MAX);
    let mut messages = store.history(session, from, count).await?;
    if from < outcome.replies_from && !messages.first().is_some_and(is_of_user) {
        from += 1;
        messages.drain(..1.min(messages.len()));
    }
    let data = json!({"from": from, "to": outcome.replies_to, "outcome": outcome.cursor,
        "messages": visible_json(&messages)});
    Ok(with_end(outcome, data))
}

fn is_of_user(message: &Value) -> bool {
    ChatMessage::from_json(message).is_ok_and(|message| message.role == Role::User)
}

fn with_end(outcome: &StoredOutcome, mut data: Value) -> Arc<str> {
    let body = &outcome.body;
    let kind = match outcome.kind {
        OutcomeKind::Completed => "turn.completed",
        OutcomeKind::Suspended => {
            let id = body.get("signal_id").and_then(Value::as_str);
            let (id, metadata) = (id.unwrap_or_default(), body.get("metadata"));
            data["signal"] = visible_waiting(id, metadata, outcome.at);
            "turn.suspended"
        }
        _ => {
            let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
            let (code, diagnostic) = (text("category"), text("diagnostic"));
            let bucket = ErrorBucket::parse(text("bucket"));
            let bucket = bucket.unwrap_or(ErrorBucket::RetryableTransient);
            data["error"] = json!({"bucket": bucket.as_str(), "code": code,
                "message": public_detail(bucket, code, diagnostic),
                "resumable": body.get("resumable").is_some(),
                "retry_after_seconds": body.get("retry_after_seconds")});
            "turn.failed"
        }
    };
    event_text(kind, outcome.entry, data)
}

/// Returns the event of an outcome that cannot be read, if there is one.
async fn lost(
    store: &dyn Store,
    session: &str,
    position: LogPosition,
) -> Result<Option<LoggedOutcomes>, StoreError> {
    let info = store.session(session).await?;
    if info.is_none_or(|info| info.cursor <= position.cursor) {
        return Ok(None);
    }
    let error = json!({"bucket": "session_terminating", "code": "session_load_failed"});
    let entry = position.settled + 1;
    let text = event_text("turn.failed", entry, json!({ "error": error }));
    let next = position
        .with_accepted(position.accepted.max(entry))
        .with_outcome(position.cursor + 1, entry);
    Ok(Some((vec![(entry, text)], next)))
}

/// Returns an outcome as clients receive it.
pub(crate) fn outcome_json(outcome: &ChatTurnOutcome) -> Value {
    let visible = |messages: &[ChatMessage]| -> Vec<Value> {
        let visible = messages.iter().filter_map(super::visible::visible_message);
        visible.map(|message| message.to_json()).collect()
    };
    match outcome {
        ChatTurnOutcome::Completed(turn) => json!({"outcome": "completed",
            "invocation_id": turn.invocation_id, "replies": visible(&turn.replies)}),
        ChatTurnOutcome::Suspended(turn) => json!({"outcome": "suspended",
            "invocation_id": turn.invocation_id,
            "signal": super::visible::visible_descriptor(&turn.signal_descriptor),
            "pending_messages": visible(&turn.pending_messages)}),
        ChatTurnOutcome::Errored(turn) => json!({"outcome": "errored",
            "invocation_id": turn.invocation_id, "error_bucket": turn.error_bucket.as_str(),
            "error_category": turn.error_category, "resumable": turn.resumable,
            "detail": public_detail(turn.error_bucket, &turn.error_category, &turn.diagnostic)}),
    }
}
