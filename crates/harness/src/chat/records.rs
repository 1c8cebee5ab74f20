//! Checks of stored records by the meaning that a chat gives to them.

use logue_graph::PausedRun;
use serde_json::Value;

use super::open::message_from_json;
use super::recovery::{TurnNote, is_quarantined};
use crate::ErrorBucket;
use crate::store::{
    EntryPayload, IntegrityFault, OutcomeKind, SessionFilter, Store, StoreError, SuspensionFilter,
    SuspensionStatus,
};

/// The number of records that are read at once.
const CHUNK: usize = 256;

/// Checks the records of one session, or of all, against what a chat stores.
///
/// [`Store::verify`] finds damage to rows of any content. This finds content that no chat stores: a
/// message with an unknown role, an outcome without a category, a suspended turn that cannot be
/// read. A record that the store cannot read is left out, because `verify` reports it.
///
/// # Errors
/// Returns the error of the store if it cannot list what it has.
pub async fn check_records(
    store: &dyn Store,
    session: Option<&str>,
) -> Result<Vec<IntegrityFault>, StoreError> {
    let sessions = if let Some(session) = session {
        vec![session.to_owned()]
    } else {
        let listed = store.list(SessionFilter::default()).await?;
        listed.into_iter().map(|info| info.session).collect()
    };
    let mut faults = Vec::new();
    for session in sessions {
        let mut found = history(store, &session).await;
        found.extend(outcomes(store, &session).await);
        found.extend(inbox(store, &session).await);
        found.extend(suspensions(store, &session).await);
        faults.extend(found.into_iter().map(|fault| fault.in_session(&session)));
    }
    Ok(faults)
}

async fn history(store: &dyn Store, session: &str) -> Vec<IntegrityFault> {
    let mut faults = Vec::new();
    let mut seq = 0;
    let mut limit = CHUNK;
    loop {
        match store.history(session, seq, limit).await {
            Ok(messages) if messages.is_empty() => return faults,
            Ok(messages) => {
                for message in messages {
                    if let Err(problem) = message_from_json(&message) {
                        let fault =
                            IntegrityFault::new("message", format!("is invalid: {problem}"));
                        faults.push(fault.at(seq));
                    }
                    seq += 1;
                }
                limit = CHUNK;
            }
            // The unreadable message alone is left out.
            Err(_) if limit > 1 => limit = 1,
            Err(_) => {
                let length = store.session(session).await;
                seq += 1;
                if !matches!(length, Ok(Some(info)) if seq < info.seq) {
                    return faults;
                }
            }
        }
    }
}

async fn outcomes(store: &dyn Store, session: &str) -> Vec<IntegrityFault> {
    let mut faults = Vec::new();
    let mut cursor = 0;
    while let Ok(outcomes) = store.outcomes_since(session, cursor, CHUNK).await {
        let Some(last) = outcomes.last() else {
            break;
        };
        cursor = last.cursor;
        for outcome in &outcomes {
            let text = |key: &str| outcome.body.get(key).and_then(Value::as_str);
            let problem = match outcome.kind {
                OutcomeKind::Completed => None,
                OutcomeKind::Suspended if text("signal_id").is_some() => None,
                OutcomeKind::Suspended => Some("a suspended turn without a signal"),
                _ if text("category").is_none() => Some("a failure without a category"),
                _ if text("bucket").and_then(ErrorBucket::parse).is_none() => {
                    Some("a failure of an unknown kind")
                }
                _ => None,
            };
            let problem = match problem {
                None if outcome.replies_from > outcome.replies_to => {
                    Some("replies that end before they begin")
                }
                problem => problem,
            };
            if let Some(problem) = problem {
                faults.push(IntegrityFault::new("outcome", problem).at(outcome.entry));
            }
        }
    }
    faults
}

async fn inbox(store: &dyn Store, session: &str) -> Vec<IntegrityFault> {
    let mut faults = Vec::new();
    let Ok(entries) = store.inbox(session).await else {
        return faults;
    };
    for entry in entries {
        // A turn of a file has its message in the file.
        if let Some(EntryPayload::Message { message }) = &entry.work
            && !message.is_null()
            && let Err(problem) = message_from_json(message)
        {
            let problem = format!("its message is invalid: {problem}");
            faults.push(IntegrityFault::new("entry", problem).at(entry.entry));
        }
        let Some(invocation) = &entry.invocation_id else {
            continue;
        };
        for note in store.notes(session, invocation).await.unwrap_or_default() {
            if is_quarantined(&note.note) {
                continue;
            }
            if let Err(problem) = TurnNote::from_json(&note.note) {
                let problem = format!("of `{invocation}` is invalid: {problem}");
                let fault = IntegrityFault::new("note", problem).at(note.seq);
                faults.push(fault.named(invocation));
            }
        }
    }
    faults
}

async fn suspensions(store: &dyn Store, session: &str) -> Vec<IntegrityFault> {
    let mut faults = Vec::new();
    let filter = SuspensionFilter {
        session: Some(session.to_owned()),
        status: Some(SuspensionStatus::Suspended),
        ..SuspensionFilter::default()
    };
    for waiting in store.suspensions(filter).await.unwrap_or_default() {
        let id = &waiting.invocation_id;
        let Ok(Some(whole)) = store.suspension(id).await else {
            continue;
        };
        // A turn of a file is suspended without a state.
        if whole.record.is_null() {
            continue;
        }
        if let Err(problem) = PausedRun::from_json(&whole.record) {
            let problem = format!("the state of `{id}` is invalid: {problem}");
            faults.push(IntegrityFault::new("suspension", problem).named(id));
        }
    }
    faults
}
