//! One turn: from an entry of the inbox to its commit.

use std::sync::Arc;

use logue_message::ChatMessage;
use serde_json::{Map, Value};
use tracing::{Instrument as _, Span};

use super::trace;
use crate::Timestamp;
use crate::store::{
    CancelMode, ClaimedEntry, Commit, Disposition, EntryPayload, EntryState, Lease, NewOutcome,
    NewSuspension, OutcomeKind, StoreError,
};
use logue_graph::{Completed, RunOutcome, State, Suspended};

use super::drive::record_of;
use super::failure::Failure;
use super::open::Opened;
use super::outcome::{ChatTurnOutcome, CompletedTurn, SuspendedTurn, descriptor_to_json};
use super::recovery::{completed_messages, is_untouched};
use super::stream::Sink;
use super::{Inner, MESSAGES};

/// The end of a run, as its turn sees it.
pub(super) enum RunResult {
    Ended(RunOutcome),
    /// It was asked to end.
    Cancelled(CancelMode),
    /// The owner that ran it died after something had happened.
    Interrupted,
    /// Another process has the session; nothing of the run counts.
    Fenced,
    /// The turn could not begin.
    Refused(Failure),
}

/// The commit and outcome that end a turn.
struct TurnCommit {
    /// The messages that become history, the entry's own first.
    messages: Vec<Value>,
    fields: Map<String, Value>,
    settle: Disposition,
    outcome: ChatTurnOutcome,
    /// The state that stands for the history then.
    state: Option<State>,
    /// The category if it cannot be committed.
    commit_failure_category: &'static str,
}

impl<E: Send + 'static> Inner<E> {
    /// Runs entries until `wanted` is settled.
    pub(super) async fn drain_until(
        &self,
        lease: &Lease,
        wanted: u64,
        sink: &Sink<E>,
    ) -> Result<ChatTurnOutcome, Failure> {
        let none = Sink::none();
        let mut renewed = self.clock.now();
        loop {
            let claimed = self.claim_next(lease, &mut renewed).await;
            let claimed = claimed.map_err(|error| Failure::save(&error, "session_save_failed"))?;
            let Some(claimed) = claimed else {
                // Another owner settled it between two looks.
                return Err(Failure::new(
                    "session_write_conflict",
                    "the entry was settled by another process",
                ));
            };
            let entry = claimed.entry.entry;
            let sink = if entry == wanted { sink } else { &none };
            let outcome = self.next_entry(lease, claimed, sink).await?;
            if entry == wanted {
                return Ok(outcome);
            }
        }
    }

    /// Runs entries until none waits.
    pub(super) async fn drain(&self, lease: &Lease) -> Result<u64, StoreError> {
        let mut settled = 0;
        let mut renewed = self.clock.now();
        while let Some(claimed) = self.claim_next(lease, &mut renewed).await? {
            let entry = claimed.entry.entry;
            // A failed entry has its outcome, and an entry taken over is settled by its new owner.
            if self
                .next_entry(lease, claimed, &Sink::none())
                .await
                .is_err()
            {
                return Ok(settled);
            }
            let now = self.store.entry(&lease.session, entry).await?;
            if now.is_some_and(|now| now.state != EntryState::Settled) {
                return Ok(settled);
            }
            settled += 1;
        }
        Ok(settled)
    }

    /// Claims the next entry, and keeps the lease over many short turns.
    ///
    /// [`watch`](Self::watch) renews the lease only in turns that outlast its first interval.
    async fn claim_next(
        &self,
        lease: &Lease,
        renewed: &mut Timestamp,
    ) -> Result<Option<ClaimedEntry>, StoreError> {
        let (now, ttl) = (self.clock.now(), self.settings.config.lease);
        if now >= renewed.after(ttl / 3) {
            self.store.renew(lease, now, ttl).await?;
            *renewed = now;
        }
        let id = self.ids.new_id();
        self.store.claim_next(lease, &id, self.clock.now()).await
    }

    async fn next_entry(
        &self,
        lease: &Lease,
        claimed: ClaimedEntry,
        sink: &Sink<E>,
    ) -> Result<ChatTurnOutcome, Failure> {
        let resumed = matches!(claimed.entry.work, Some(EntryPayload::Resume { .. }));
        let invocation_id = claimed.entry.invocation_id.as_deref().unwrap_or_default();
        let span = trace::turn(&lease.session, invocation_id);
        let ended = self.run_entry(lease, claimed, sink, &span);
        let ended = ended.instrument(span.clone()).await;
        match &ended {
            Ok(outcome) => trace::turn_ended(&span, outcome),
            Err(failure) => trace::turn_failed(&span, &failure.category),
        }
        let outcome = ended?;
        self.changed.notify_waiters();
        if resumed {
            // A listener that cannot be reached now catches up from its cursor the next time.
            drop(self.deliver(&lease.session).await);
        }
        Ok(outcome)
    }

    async fn run_entry(
        &self,
        lease: &Lease,
        claimed: ClaimedEntry,
        sink: &Sink<E>,
        span: &Span,
    ) -> Result<ChatTurnOutcome, Failure> {
        let session = &lease.session;
        let invocation_id = claimed.entry.invocation_id.clone().unwrap_or_default();
        let opened = match self.open(session).await {
            Ok(opened) => opened,
            Err(failure) if should_requeue(&claimed, &failure) => return Err(failure),
            Err(failure) => return self.give_up(lease, failure, &invocation_id).await,
        };
        let seq = opened.seq;
        let first = match &claimed.entry.work {
            Some(EntryPayload::Message { message }) => Some(message.clone()),
            _ => None,
        };
        let ran = if let Some(mode) = claimed.cancel {
            RunResult::Cancelled(mode)
        } else if claimed.recovered && !is_untouched(&claimed.notes) {
            RunResult::Interrupted
        } else {
            self.drive(lease, &claimed, &opened, sink, span).await
        };
        let ending = match ran {
            RunResult::Ended(RunOutcome::Completed(completed)) => {
                Ok(completed_turn(completed, &opened, first.is_some()))
            }
            RunResult::Ended(RunOutcome::Suspended(suspended)) => {
                Ok(suspended_turn(*suspended, &opened, first.is_some()))
            }
            RunResult::Ended(RunOutcome::Errored(errored)) => {
                let failure = Failure::engine(&errored.error);
                if should_requeue(&claimed, &failure) {
                    return Err(failure);
                }
                let notes = if self.retains_partial_work(&failure) {
                    self.notes_of(session, &invocation_id).await?
                } else {
                    Vec::new()
                };
                if is_untouched(&notes) {
                    Ok(self.failed(failure, &invocation_id, seq))
                } else {
                    self.retained_ending(&notes, first.as_ref(), &invocation_id, seq, failure)
                }
            }
            RunResult::Fenced => {
                return Err(Failure::new(
                    "session_write_conflict",
                    "another process took the session over",
                ));
            }
            RunResult::Refused(failure) if should_requeue(&claimed, &failure) => {
                return Err(failure);
            }
            RunResult::Refused(failure) => Ok(self.failed(failure, &invocation_id, seq)),
            RunResult::Interrupted => {
                let notes = &claimed.notes;
                self.broken(
                    notes,
                    first.as_ref(),
                    &invocation_id,
                    seq,
                    "turn_interrupted",
                )
            }
            RunResult::Cancelled(CancelMode::Rollback) => {
                let failure = Failure::new("turn_cancelled", "the turn was cancelled and undone");
                Ok(self.failed(failure, &invocation_id, seq))
            }
            RunResult::Cancelled(CancelMode::Interrupt) => {
                let notes = self.notes_of(session, &invocation_id).await?;
                self.broken(
                    &notes,
                    first.as_ref(),
                    &invocation_id,
                    seq,
                    "turn_cancelled",
                )
            }
        };
        match ending {
            Ok(ending) => self.commit(lease, &claimed, &opened, ending).await,
            Err(failure) => self.give_up(lease, failure, &invocation_id).await,
        }
    }

    /// Commits the end of a turn.
    ///
    /// If that fails, the turn has failed, unless it [stays queued](should_requeue).
    async fn commit(
        &self,
        lease: &Lease,
        claimed: &ClaimedEntry,
        opened: &Opened,
        ending: TurnCommit,
    ) -> Result<ChatTurnOutcome, Failure> {
        let invocation_id = claimed.entry.invocation_id.as_deref().unwrap_or_default();
        let added = ending.messages.len() as u64;
        // Fields of an earlier version that are not written anew stay in that version.
        let written = ending.state.is_some() || !opened.migrated;
        let version = self.graph.schema().version().filter(|_| written);
        let commit = Commit {
            invocation_id: invocation_id.to_owned(),
            expected_seq: opened.seq,
            messages: ending.messages,
            fields: ending.fields,
            schema_version: version.map(str::to_owned),
            settle: Some(ending.settle),
            now: self.clock.now(),
        };
        match self.store.commit(lease, commit).await {
            Ok(()) => {
                if let Some(state) = ending.state {
                    self.state_cache.put(
                        &lease.session,
                        state,
                        opened.seq + added,
                        opened.cursor + 1,
                    );
                }
                Ok(ending.outcome)
            }
            Err(error) => {
                let failure = Failure::save(&error, ending.commit_failure_category);
                if error.is_conflict() || should_requeue(claimed, &failure) {
                    return Err(failure);
                }
                self.give_up(lease, failure, invocation_id).await
            }
        }
    }

    /// Settles an entry as failed after the store refused something.
    ///
    /// If the store refuses that too, the entry stays with its journal and the next owner recovers
    /// it.
    async fn give_up(
        &self,
        lease: &Lease,
        failure: Failure,
        invocation_id: &str,
    ) -> Result<ChatTurnOutcome, Failure> {
        let Ok(info) = self.store.session(&lease.session).await else {
            return Err(failure);
        };
        let seq = info.map_or(0, |info| info.seq);
        let outcome = self.errored(failure.clone(), Some(invocation_id.to_owned()));
        let commit = Commit {
            invocation_id: invocation_id.to_owned(),
            expected_seq: seq,
            messages: Vec::new(),
            fields: Map::new(),
            schema_version: None,
            settle: Some(Disposition::Done {
                outcome: outcome.to_stored(seq),
                keep_journal: true,
            }),
            now: self.clock.now(),
        };
        match self.store.commit(lease, commit).await {
            Ok(()) => Ok(outcome),
            Err(_) => Err(failure),
        }
    }

    /// A turn of which nothing becomes history.
    fn failed(&self, failure: Failure, invocation_id: &str, seq: u64) -> TurnCommit {
        let outcome = self.errored(failure, Some(invocation_id.to_owned()));
        TurnCommit {
            messages: Vec::new(),
            fields: Map::new(),
            settle: Disposition::Done {
                outcome: outcome.to_stored(seq),
                keep_journal: true,
            },
            outcome,
            state: None,
            commit_failure_category: "session_save_failed",
        }
    }

    /// A turn that did not reach its end, of which what had happened becomes history.
    fn broken(
        &self,
        notes: &[Value],
        first: Option<&Value>,
        invocation_id: &str,
        seq: u64,
        category: &str,
    ) -> Result<TurnCommit, Failure> {
        let diagnostic = match category {
            "turn_cancelled" => "the turn was cancelled; what it had done is in the history",
            _ => "the program ended during the turn; what it had done is in the history",
        };
        let failure = Failure::new(category, diagnostic);
        self.retained_ending(notes, first, invocation_id, seq, failure)
    }

    /// Returns whether the effects of a failed turn become history.
    fn retains_partial_work(&self, failure: &Failure) -> bool {
        let is_kept = self.settings.kept_failures.as_ref();
        is_kept.is_some_and(|is_kept| is_kept(&failure.category))
    }

    /// The notes in the journal of a turn.
    async fn notes_of(&self, session: &str, invocation_id: &str) -> Result<Vec<Value>, Failure> {
        let notes = self.store.notes(session, invocation_id).await;
        let notes = notes.map_err(|error| Failure::save(&error, "session_save_failed"))?;
        Ok(notes.into_iter().map(|note| note.note).collect())
    }

    /// A turn that failed, of which what had happened becomes history.
    fn retained_ending(
        &self,
        notes: &[Value],
        first: Option<&Value>,
        invocation_id: &str,
        seq: u64,
        failure: Failure,
    ) -> Result<TurnCommit, Failure> {
        let outcome = self.errored(failure, Some(invocation_id.to_owned()));
        let messages = completed_messages(first, notes)?;
        let stored = NewOutcome {
            kind: OutcomeKind::Cancelled,
            ..outcome.to_stored(seq + u64::from(first.is_some()))
        };
        Ok(TurnCommit {
            messages,
            fields: Map::new(),
            settle: Disposition::Done {
                outcome: stored,
                keep_journal: false,
            },
            outcome,
            state: None,
            commit_failure_category: "session_save_failed",
        })
    }
}

/// Returns whether an entry stays unsettled after a failure, for its next owner.
///
/// The sender of a message learns that it failed and can send it again. A signal was accepted for
/// good and cannot be given again, so a brief outage of the store must not be the end of its turn:
/// it is run again if nothing has happened in it, and else ends as an interrupted one.
fn should_requeue(claimed: &ClaimedEntry, failure: &Failure) -> bool {
    failure.transient && matches!(claimed.entry.work, Some(EntryPayload::Resume { .. }))
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
    });
    TurnCommit {
        fields: changed_fields(opened, &completed.state),
        settle: Disposition::Done {
            outcome: outcome.to_stored(opened.seq + own as u64),
            keep_journal: false,
        },
        messages: stored(&messages),
        outcome,
        state: Some(completed.state),
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
        commit_failure_category: "suspension_persistence_failed",
    }
}
