//! The history of a session by turns.

use logue_message::{ChatMessage, Role, ToolCall};
use serde_json::Value;

use crate::clock::Timestamp;
use crate::store::{
    EntryPayload, EntryState, OutcomeKind, Store, StoreError, StoredOutcome, SuspensionStatus,
};

use super::recovery::Journalled;

/// The number of records that are read at once.
const PAGE: usize = 1_000;

/// The part of the history that one entry of the inbox added.
#[derive(Clone, Debug)]
pub(super) struct TurnRows {
    /// The position of its first message.
    pub(super) from: u64,
    /// The position after its last message.
    pub(super) to: u64,
    pub(super) outcome: StoredOutcome,
    pub(super) key: Option<String>,
    pub(super) accepted_at: Timestamp,
    /// Whether the record of its messages was damaged. It is then at the end of the turn before it.
    pub(super) is_lost: bool,
}

/// The running turn, which is not history yet.
#[derive(Debug)]
pub(super) struct RunningTurn {
    pub(super) entry: u64,
    pub(super) invocation_id: String,
    pub(super) key: Option<String>,
    pub(super) accepted_at: Timestamp,
    pub(super) message: Option<ChatMessage>,
    pub(super) journalled: Journalled,
}

/// Everything that is known of the turns of a session.
#[derive(Debug)]
pub(super) struct Timeline {
    /// The messages; nothing for one that cannot be read.
    pub(super) messages: Vec<Option<ChatMessage>>,
    pub(super) turns: Vec<TurnRows>,
    pub(super) running: Option<RunningTurn>,
}

impl Timeline {
    pub(super) async fn read(store: &dyn Store, session: &str) -> Result<Self, StoreError> {
        let info = store.session(session).await?;
        let info = info.ok_or_else(|| StoreError::NotFound {
            what: format!("session `{session}`"),
        })?;
        let mut messages = Vec::new();
        while (messages.len() as u64) < info.seq {
            let page = store.history(session, messages.len() as u64, PAGE).await?;
            if page.is_empty() {
                break;
            }
            messages.extend(
                page.iter()
                    .map(|message| ChatMessage::from_json(message).ok()),
            );
        }
        // A turn may have ended since.
        messages.truncate(usize::try_from(info.seq).unwrap_or(usize::MAX));
        let mut turns: Vec<TurnRows> = Vec::new();
        let mut cursor = 0;
        while cursor < info.cursor {
            let page = store.outcomes_since(session, cursor, PAGE).await?;
            let Some(last) = page.last() else { break };
            cursor = last.cursor;
            for outcome in page.into_iter().filter(|one| one.cursor <= info.cursor) {
                let entry = store.entry(session, outcome.entry).await?;
                // A message that became history is not kept as work.
                let has_message = entry.as_ref().is_none_or(|entry| entry.work.is_none());
                let own = u64::from(has_message && !outcome.resumed);
                let end = turns.last().map_or(0, |turn| turn.to);
                let is_lost = is_lost(&outcome);
                let (from, to) = if is_lost {
                    (end, end)
                } else {
                    let from = outcome.replies_from.saturating_sub(own);
                    (from.max(end), outcome.replies_to.max(end))
                };
                turns.push(TurnRows {
                    from,
                    to,
                    is_lost,
                    key: entry.as_ref().and_then(|entry| entry.key.clone()),
                    accepted_at: entry.map_or(outcome.at, |entry| entry.accepted_at),
                    outcome,
                });
            }
        }
        let running = running(store, session).await?;
        Ok(Self {
            messages,
            turns,
            running,
        })
    }

    /// The message at a position.
    pub(super) fn message(&self, position: u64) -> Option<&ChatMessage> {
        let position = usize::try_from(position).ok()?;
        self.messages.get(position)?.as_ref()
    }

    /// Returns whether the message at a position is superseded by the next one.
    pub(super) fn is_superseded(&self, position: u64) -> bool {
        let next = self.message(position + 1);
        let own = self.message(position);
        own.zip(next)
            .is_some_and(|(own, next)| own.is_superseded_by(next))
    }

    /// The entry that added a message.
    pub(super) fn turn_at(&self, position: u64) -> Option<&TurnRows> {
        let mut turns = self.turns.iter();
        turns.find(|turn| (turn.from..turn.to).contains(&position))
    }

    /// Returns whether a damaged turn may have added a message of no known turn.
    pub(super) fn may_be_lost(&self, position: u64) -> bool {
        let before = self.turns.iter().filter(|turn| turn.to <= position);
        let end = before.clone().map(|turn| turn.to).max();
        before
            .filter(|turn| Some(turn.to) == end)
            .any(|turn| turn.is_lost)
    }

    /// The invocation that added a message; none for a copied or imported one.
    pub(super) fn invocation_at(&self, position: u64) -> Option<&str> {
        let turn = self.turn_at(position)?;
        Some(&turn.outcome.invocation_id)
    }

    /// The length of the history at the latest suspension of an invocation.
    pub(super) fn suspended_at(&self, invocation_id: &str) -> Option<u64> {
        let mut latest_first = self.turns.iter().rev();
        let turn = latest_first.find(|turn| {
            turn.outcome.kind == OutcomeKind::Suspended
                && turn.outcome.invocation_id == invocation_id
        });
        turn.map(|turn| turn.to)
    }

    pub(super) fn len(&self) -> u64 {
        self.messages.len() as u64
    }
}

/// Returns whether a repair has replaced the outcome, whose position is that of the repair.
fn is_lost(outcome: &StoredOutcome) -> bool {
    let category = outcome.body.get("category").and_then(Value::as_str);
    outcome.kind == OutcomeKind::Errored
        && outcome.replies_from == outcome.replies_to
        && category == Some("session_load_failed")
}

/// Returns the calls without a result among the first messages, with their positions.
///
/// A result belongs to the nearest earlier call with its id.
pub(super) fn open_calls<'a>(
    messages: impl Iterator<Item = (u64, &'a ChatMessage)>,
) -> Vec<(u64, ToolCall)> {
    let mut open: Vec<(u64, ToolCall)> = Vec::new();
    for (position, message) in messages {
        if message.role == Role::Tool {
            let id = message.tool_call_id.as_deref();
            if let Some(at) = open
                .iter()
                .rposition(|(_, call)| Some(call.id.as_str()) == id)
            {
                drop(open.remove(at));
            }
        }
        let calls = message.tool_calls.iter().cloned();
        open.extend(calls.map(|call| (position, call)));
    }
    open
}

async fn running(store: &dyn Store, session: &str) -> Result<Option<RunningTurn>, StoreError> {
    let inbox = store.inbox(session).await?;
    let running = inbox
        .into_iter()
        .find(|entry| entry.state == EntryState::Running);
    let Some(entry) = running else {
        return Ok(None);
    };
    let Some(invocation_id) = entry.invocation_id else {
        return Ok(None);
    };
    let notes = store.notes(session, &invocation_id).await?;
    let notes: Vec<Value> = notes.into_iter().map(|note| note.note).collect();
    let journalled = Journalled::from_notes(&notes)
        .map_err(|failure| StoreError::Damaged(failure.diagnostic))?;
    let message = match &entry.work {
        Some(EntryPayload::Message { message }) => ChatMessage::from_json(message).ok(),
        _ => None,
    };
    Ok(Some(RunningTurn {
        entry: entry.entry,
        invocation_id,
        key: entry.key,
        accepted_at: entry.accepted_at,
        message,
        journalled,
    }))
}

/// Returns whether a suspension holds a turn that can still resume.
pub(super) const fn is_open(status: SuspensionStatus) -> bool {
    matches!(
        status,
        SuspensionStatus::Suspended | SuspensionStatus::Signalled
    )
}
