//! Failed turns whose calls ran, and the calls that a new turn may not repeat.
//!
//! A sender who sees a failure says the message again, perhaps under another key or after another
//! message. The model may then call again what has already run. So a new turn has the calls of the
//! failed turns before it guarded until a turn has answered. After that it has those of the failed turns
//! that began with the same message.

use logue_message::{ChatMessage, Role, ToolCall};
use serde_json::Value;

use crate::store::{Disposition, OutcomeKind, StoreError, StoredOutcome};

use super::Inner;
use super::continuation::calls_from_json;
use super::failure::TURN_CANCELLED;
use super::open::message_from_json;
use super::outcome::RESUMABLE;

/// The number of outcomes requested from the store at once.
const PAGE: usize = 1_000;

/// The turns of a session whose calls ran and that have no answer yet.
#[derive(Clone, Debug, Default)]
pub(super) struct FailedTurns {
    turns: Vec<FailedTurn>,
}

#[derive(Clone, Debug)]
struct FailedTurn {
    invocation_id: String,
    /// The message that began it, if known.
    message: Option<ChatMessage>,
    calls: Vec<ToolCall>,
    /// Whether it has failed. Otherwise it waits for a signal.
    has_failed: bool,
    /// Whether another turn has answered since it failed.
    is_passed: bool,
}

/// The end of an entry.
#[derive(Debug)]
struct TurnEnd<'a> {
    invocation_id: &'a str,
    kind: OutcomeKind,
    body: &'a Value,
    /// The message that it answered, if the entry began with one.
    message: Option<&'a ChatMessage>,
    /// The messages that it added after that.
    added: &'a [ChatMessage],
}

impl TurnEnd<'_> {
    /// The calls that may have run.
    fn calls(&self) -> Vec<ToolCall> {
        let calls = self.added.iter().flat_map(|message| &message.tool_calls);
        let resumable = self.body.get(RESUMABLE);
        let guarded = resumable.and_then(|resumable| resumable.get("guarded")?.as_array());
        let guarded = guarded.map(|guarded| calls_from_json(guarded));
        calls
            .cloned()
            .chain(guarded.into_iter().flatten())
            .collect()
    }
}

impl FailedTurns {
    /// The calls that a turn may not repeat without a person.
    ///
    /// Those of the turn's own invocation are left out: it continues with their results.
    pub(super) fn guarded(
        &self,
        message: Option<&ChatMessage>,
        own: Option<&str>,
    ) -> Vec<ToolCall> {
        let mut guarded: Vec<ToolCall> = Vec::new();
        let turns = self.turns.iter().filter(|turn| {
            let is_same = turn.message.is_some() && turn.message.as_ref() == message;
            turn.has_failed
                && (is_same || !turn.is_passed)
                && own != Some(turn.invocation_id.as_str())
        });
        for call in turns.flat_map(|turn| &turn.calls) {
            let is_known = guarded
                .iter()
                .any(|one| one.name == call.name && one.arguments == call.arguments);
            if !is_known {
                guarded.push(call.clone());
            }
        }
        guarded
    }

    /// Notes the end of an entry that is being committed.
    ///
    /// `length` is the number of messages of the history before the commit.
    pub(super) fn committed(
        &mut self,
        invocation_id: &str,
        settle: &Disposition,
        messages: &[Value],
        length: u64,
    ) {
        let (Disposition::Done { outcome, .. } | Disposition::Suspended { outcome, .. }) = settle
        else {
            return;
        };
        if outcome.kind == OutcomeKind::Completed && self.turns.is_empty() {
            return;
        }
        let messages = messages.iter().map(|one| message_from_json(one).ok());
        let messages: Option<Vec<ChatMessage>> = messages.collect();
        let messages = messages.unwrap_or_default();
        let own = usize::try_from(outcome.replies_from.saturating_sub(length));
        let own = own.unwrap_or_default().min(messages.len());
        let (own, added) = messages.split_at(own);
        self.ended(&TurnEnd {
            invocation_id,
            kind: outcome.kind,
            body: &outcome.body,
            message: own.first(),
            added,
        });
    }

    /// Notes the end of an entry whose messages are history.
    fn stored(&mut self, outcome: &StoredOutcome, history: &[ChatMessage]) {
        let place = |position: u64| usize::try_from(position).unwrap_or(usize::MAX);
        let range = place(outcome.replies_from)..place(outcome.replies_to);
        let said = outcome.replies_from.checked_sub(1);
        let said = said.and_then(|said| history.get(place(said)));
        self.ended(&TurnEnd {
            invocation_id: &outcome.invocation_id,
            kind: outcome.kind,
            body: &outcome.body,
            message: said.filter(|said| !matches!(said.role, Role::Assistant | Role::Tool)),
            added: history.get(range).unwrap_or_default(),
        });
    }

    fn ended(&mut self, end: &TurnEnd<'_>) {
        let is_own = |turn: &FailedTurn| turn.invocation_id == end.invocation_id;
        if end.kind == OutcomeKind::Completed {
            self.turns.retain(|turn| {
                let is_answered = turn.message.is_some() && turn.message.as_ref() == end.message;
                !is_own(turn) && !is_answered
            });
            for turn in self.turns.iter_mut().filter(|turn| turn.has_failed) {
                turn.is_passed = true;
            }
            return;
        }
        let category = end.body.get("category").and_then(Value::as_str);
        // A turn that was asked to end did not fail.
        if category == Some(TURN_CANCELLED) {
            return;
        }
        let has_failed = end.kind != OutcomeKind::Suspended;
        let calls = end.calls();
        if let Some(known) = self.turns.iter_mut().find(|turn| is_own(turn)) {
            known.calls.extend(calls);
            known.has_failed = has_failed;
            known.is_passed = false;
        } else if !calls.is_empty() {
            self.turns.push(FailedTurn {
                invocation_id: end.invocation_id.to_owned(),
                message: end.message.cloned(),
                calls,
                has_failed,
                is_passed: false,
            });
        }
    }
}

impl<E: Send + 'static> Inner<E> {
    /// Reads the failed turns of a session from its outcomes and its history.
    pub(super) async fn failed_turns(
        &self,
        session: &str,
        cursor: u64,
        history: &[ChatMessage],
    ) -> Result<FailedTurns, StoreError> {
        let mut failed = FailedTurns::default();
        let mut at = 0;
        while at < cursor {
            let page = self.store.outcomes_since(session, at, PAGE).await?;
            let Some(last) = page.last() else {
                break;
            };
            at = last.cursor;
            for outcome in page.iter().filter(|outcome| outcome.cursor <= cursor) {
                failed.stored(outcome, history);
            }
        }
        Ok(failed)
    }
}
