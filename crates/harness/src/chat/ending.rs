//! The end of a turn: what becomes history, and its outcome.

use std::sync::Arc;

use logue_graph::{Completed, RunOutcome, State, Suspended, Update};
use logue_message::ChatMessage;
use serde_json::{Map, Value, json};

use crate::store::{
    CancelMode, ClaimedEntry, Disposition, EntryPayload, NewOutcome, NewSuspension, OutcomeKind,
};

use super::basis::TurnBasis;
use super::continuation::calls_to_json;
use super::drive::record_of;
use super::failure::{Failure, TURN_CANCELLED};
use super::open::Opened;
use super::outcome::{
    ChatTurnOutcome, CompletedTurn, RESUMABLE, SAYS_AGAIN, SuspendedTurn, descriptor_to_json,
    mark_transient,
};
use super::recovery::{Journalled, Remains};
use super::turn::RunResult;
use super::{Inner, MESSAGES};

/// The remedy for a cancelled turn, which nothing continues.
const SAY_AGAIN: &str =
    "nothing continues it; the same message, under another key if it has one, begins a new turn";

/// The commit and outcome that end a turn.
pub(super) struct TurnCommit {
    /// The messages that become history, the entry's own first.
    pub(super) messages: Vec<Value>,
    pub(super) fields: Map<String, Value>,
    pub(super) settle: Disposition,
    pub(super) outcome: ChatTurnOutcome,
    /// The state that stands for the history then, if it is known.
    pub(super) state: Option<State>,
    /// Whether all fields of the state are in the version of the graph's schema then.
    pub(super) is_migrated: bool,
    /// The category if it cannot be committed.
    pub(super) commit_failure_category: &'static str,
}

/// A failure, and the part of its turn that becomes history.
pub(super) struct Failed {
    failure: Failure,
    keeps: Keeps,
    /// Whether it can never succeed, so that a signal is consumed.
    is_permanent: bool,
}

/// The part of a failed turn that becomes history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeps {
    /// That from which it can continue, if a call or an answer had begun.
    Resumable,
    /// The started calls and their results.
    Effects,
    /// Everything in its journal, and the message that began it.
    Noted,
    /// Everything, and the message that began it.
    All,
}

impl Failed {
    /// A failure of the graph or of the store.
    pub(super) fn new(failure: Failure) -> Self {
        Self {
            failure,
            keeps: Keeps::Resumable,
            is_permanent: false,
        }
    }

    fn cancelled(diagnostic: &str, keeps: Keeps) -> Self {
        Self {
            failure: Failure {
                help: Some(SAY_AGAIN.to_owned()),
                ..Failure::new(TURN_CANCELLED, diagnostic)
            },
            keeps,
            is_permanent: true,
        }
    }

    /// Returns whether the turn becomes history, with its message and its outcome.
    fn is_kept(&self, journalled: &Journalled, basis: &TurnBasis) -> bool {
        match self.keeps {
            Keeps::All => true,
            // The owners died perhaps before one of them noted anything.
            Keeps::Noted => basis.first.is_some() || !journalled.is_empty(),
            Keeps::Resumable => journalled.has_effects(basis.resumed) || journalled.has_part(),
            Keeps::Effects => journalled.has_effects(basis.resumed),
        }
    }
}

impl<E: Send + 'static> Inner<E> {
    /// The commit that ends a run.
    ///
    /// An error means that the turn stays with its journal for the next owner.
    pub(super) async fn ending(
        &self,
        ran: RunResult,
        claimed: &ClaimedEntry,
        basis: &TurnBasis,
        opened: &Opened,
        session: &str,
    ) -> Result<TurnCommit, Failure> {
        let failed = match ran {
            RunResult::Ended(RunOutcome::Completed(completed)) => {
                return Ok(completed_turn(completed, opened, basis.first.is_some()));
            }
            RunResult::Ended(RunOutcome::Suspended(suspended)) => {
                return Ok(suspended_turn(*suspended, opened, basis.first.is_some()));
            }
            RunResult::Fenced => {
                return Err(Failure::new(
                    "session_write_conflict",
                    "another process took the session over",
                ));
            }
            RunResult::Ended(RunOutcome::Errored(errored)) => {
                Failed::new(Failure::engine(&errored.error))
            }
            RunResult::Refused(failure) => Failed {
                is_permanent: true,
                ..Failed::new(failure)
            },
            RunResult::Interrupted => Failed {
                keeps: Keeps::Noted,
                ..Failed::new(Failure::new(
                    "turn_interrupted",
                    "the program ended during the turn; what it had done is in the history",
                ))
            },
            RunResult::Cancelled(CancelMode::Rollback) => {
                let diagnostic = "the turn was cancelled and undone, except for started calls";
                Failed::cancelled(diagnostic, Keeps::Effects)
            }
            RunResult::Cancelled(CancelMode::Interrupt) => {
                let diagnostic = "the turn was cancelled; what it had done is in the history";
                Failed::cancelled(diagnostic, Keeps::All)
            }
        };
        if should_requeue(claimed, &failed.failure) {
            return Err(failed.failure);
        }
        let invocation_id = claimed.entry.invocation_id.as_deref().unwrap_or_default();
        let journalled = self.journalled(session, invocation_id).await?;
        if failed.is_kept(&journalled, basis) {
            Ok(self.retained(failed, &journalled, invocation_id, basis, opened))
        } else {
            Ok(self.failed(failed, claimed, basis, opened))
        }
    }

    /// The journal of a turn.
    pub(super) async fn journalled(
        &self,
        session: &str,
        invocation_id: &str,
    ) -> Result<Journalled, Failure> {
        let notes = self.store.notes(session, invocation_id).await;
        let notes = notes.map_err(|error| Failure::save(&error, "session_save_failed"))?;
        let notes: Vec<Value> = notes.into_iter().map(|note| note.note).collect();
        Journalled::from_notes(&notes)
    }

    /// A failed turn of which nothing becomes history.
    fn failed(
        &self,
        failed: Failed,
        claimed: &ClaimedEntry,
        basis: &TurnBasis,
        opened: &Opened,
    ) -> TurnCommit {
        let invocation_id = claimed.entry.invocation_id.clone();
        let is_resumable = basis.continued && failed.keeps != Keeps::Effects;
        let is_permanent = failed.is_permanent || self.is_terminating(&failed.failure);
        let (is_transient, is_damaged) = (failed.failure.transient, failed.failure.damaged);
        let outcome = self.errored(failed.failure, invocation_id);
        let mut stored = outcome.to_stored(opened.seq);
        if is_transient {
            mark_transient(&mut stored, is_damaged);
        }
        if is_resumable {
            mark_resumable(&mut stored, basis.said, &basis.guarded);
        }
        // The message that it said again is not history.
        if is_resumable && basis.first.is_some() {
            mark_says_again(&mut stored);
        }
        TurnCommit {
            messages: Vec::new(),
            fields: Map::new(),
            settle: Disposition::Done {
                outcome: stored,
                // A turn that continues under its id begins with an empty journal.
                keep_journal: !basis.resumed && !basis.continued,
                // A decision cannot be given again: it stays if its turn may succeed later.
                keep_suspension: basis.resumed && !is_permanent,
            },
            outcome: outcome.with_resumable(is_resumable),
            state: (!opened.migrated).then(|| opened.state.clone()),
            is_migrated: !opened.migrated,
            commit_failure_category: "session_save_failed",
        }
    }

    /// A turn that failed, of which what had happened becomes history.
    pub(super) fn retained(
        &self,
        failed: Failed,
        journalled: &Journalled,
        invocation_id: &str,
        basis: &TurnBasis,
        opened: &Opened,
    ) -> TurnCommit {
        let added = journalled.completed_messages(match failed.keeps {
            Keeps::Resumable => Remains::Resumable,
            Keeps::Effects => Remains::Effects,
            Keeps::Noted | Keeps::All => Remains::All,
        });
        let goes_on = added.last().is_none_or(|last| {
            last.role == logue_message::Role::Tool
                || last.interrupted
                || !last.tool_calls.is_empty()
        });
        // Another message has ended a cancelled turn and comes after it.
        let is_resumable = matches!(failed.keeps, Keeps::Resumable | Keeps::Noted) && goes_on;
        let kind = match failed.keeps {
            Keeps::Resumable => OutcomeKind::Errored,
            _ => OutcomeKind::Cancelled,
        };
        let (is_transient, is_damaged) = (failed.failure.transient, failed.failure.damaged);
        let outcome = self.errored(failed.failure, Some(invocation_id.to_owned()));
        let mut stored = NewOutcome {
            kind,
            ..outcome.to_stored(opened.seq + u64::from(basis.first.is_some()))
        };
        if is_transient {
            mark_transient(&mut stored, is_damaged);
        }
        if is_resumable {
            let mut guarded = basis.guarded.clone();
            guarded.extend(journalled.guarded());
            mark_resumable(&mut stored, basis.said, &guarded);
        }
        // After its own answer, it would begin anew and repeat its calls.
        if !goes_on {
            mark_says_again(&mut stored);
        }
        let mut fields = journalled.fields.clone();
        fields.retain(|name, _| name != MESSAGES && self.graph.schema().field(name).is_some());
        let state = (!opened.migrated)
            .then(|| state_after(opened, basis, &added, &fields))
            .flatten();
        let first = basis.first.iter().cloned();
        TurnCommit {
            messages: first
                .chain(added.iter().map(ChatMessage::to_json))
                .collect(),
            fields,
            settle: Disposition::Done {
                outcome: stored,
                keep_journal: false,
                keep_suspension: false,
            },
            outcome: outcome.with_resumable(is_resumable),
            state,
            is_migrated: !opened.migrated,
            commit_failure_category: "session_save_failed",
        }
    }
}

/// Adds to a stored outcome what its turn needs to continue.
fn mark_resumable(stored: &mut NewOutcome, said: Option<u64>, guarded: &[logue_message::ToolCall]) {
    if let Value::Object(body) = &mut stored.body {
        let how = json!({"said": said, "guarded": calls_to_json(guarded)});
        body.insert(RESUMABLE.to_owned(), how);
    }
}

/// Marks a failure whose turn continues by saying its message again.
fn mark_says_again(stored: &mut NewOutcome) {
    if let Value::Object(body) = &mut stored.body {
        body.insert(SAYS_AGAIN.to_owned(), Value::Bool(true));
    }
}

/// The state of the session after a failed turn, for the next one.
fn state_after(
    opened: &Opened,
    basis: &TurnBasis,
    added: &[ChatMessage],
    fields: &Map<String, Value>,
) -> Option<State> {
    let mut state = opened.state.clone();
    let mut messages: Vec<_> = basis.first_message().ok()?.into_iter().collect();
    messages.extend(added.iter().cloned());
    state.apply(Update::new().with(MESSAGES, messages)).ok()?;
    state.replace(Update::from(fields.clone())).ok()?;
    Some(state)
}

/// Returns whether an entry stays unsettled after a failure, for its next owner.
///
/// Messages and signals were accepted for good, so an outage of the store must not be the end of
/// their turns: a turn is run again if nothing has happened in it, and else continues from its
/// journal. A damaged record stays so until a person repairs it, which the sender of a message learns.
pub(super) fn should_requeue(claimed: &ClaimedEntry, failure: &Failure) -> bool {
    let is_message = matches!(claimed.entry.work, Some(EntryPayload::Message { .. }));
    failure.transient && !(is_message && failure.damaged)
}

/// The messages of a state from a position on. Costs those messages only.
fn messages_from(state: &State, from: u64) -> Vec<Arc<ChatMessage>> {
    let from = usize::try_from(from).unwrap_or(usize::MAX);
    let list = state.list_of::<ChatMessage>(MESSAGES);
    list.map_or_else(Vec::new, |list| list.shared_from(from).collect())
}

/// Messages as a store keeps them.
fn stored(messages: &[Arc<ChatMessage>]) -> Vec<Value> {
    messages.iter().map(|message| message.to_json()).collect()
}

/// The messages after the first `own` ones.
fn replies(messages: &[Arc<ChatMessage>], own: usize) -> Vec<ChatMessage> {
    let replies = messages.iter().skip(own);
    replies.map(|message| ChatMessage::clone(message)).collect()
}

/// The fields besides the conversation that are not as they are stored: all of them, if what is
/// stored is in another version.
fn changed_fields(opened: &Opened, after: &State) -> Map<String, Value> {
    let changed = |name: &str, value| opened.migrated || opened.state.get(name) != Some(value);
    after
        .iter()
        .filter(|(name, value)| *name != MESSAGES && changed(name, *value))
        .map(|(name, value)| (name.to_owned(), value.to_json()))
        .collect()
}

fn completed_turn(completed: Completed, opened: &Opened, has_message: bool) -> TurnCommit {
    let messages = messages_from(&completed.state, opened.seq);
    let own = usize::from(has_message).min(messages.len());
    let outcome = ChatTurnOutcome::Completed(CompletedTurn {
        replies: replies(&messages, own),
        final_state: Some(completed.state.clone()),
        invocation_id: completed.invocation_id,
        path: None,
    });
    TurnCommit {
        fields: changed_fields(opened, &completed.state),
        settle: Disposition::Done {
            outcome: outcome.to_stored(opened.seq + own as u64),
            keep_journal: false,
            keep_suspension: false,
        },
        messages: stored(&messages),
        outcome,
        state: Some(completed.state),
        is_migrated: true,
        commit_failure_category: "session_save_failed",
    }
}

fn suspended_turn(suspended: Suspended, opened: &Opened, has_message: bool) -> TurnCommit {
    let messages = messages_from(&suspended.state, opened.seq);
    let own = usize::from(has_message).min(messages.len());
    let pending_messages = replies(&messages, own);
    let descriptor = suspended.descriptor.clone();
    let state = suspended.state.clone();
    let record = record_of(&suspended);
    let outcome = ChatTurnOutcome::Suspended(SuspendedTurn {
        signal_descriptor: descriptor.clone(),
        pending_messages,
        invocation_id: suspended.invocation_id,
        path: None,
    });
    TurnCommit {
        fields: changed_fields(opened, &state),
        settle: Disposition::Suspended {
            suspension: NewSuspension {
                signal_id: descriptor.signal_id.clone(),
                metadata: descriptor.metadata.clone(),
                record,
            },
            outcome: NewOutcome {
                kind: OutcomeKind::Suspended,
                replies_from: opened.seq + own as u64,
                body: descriptor_to_json(&descriptor),
            },
        },
        messages: stored(&messages),
        outcome,
        state: Some(state),
        is_migrated: true,
        commit_failure_category: "suspension_persistence_failed",
    }
}
