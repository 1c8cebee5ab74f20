//! One turn: from an entry of the inbox to its commit.

use logue_message::{ChatMessage, Content, Role};
use serde_json::Map;
use tracing::{Instrument as _, Span};

use super::trace;
use crate::Timestamp;
use crate::store::{
    BeginResult, BegunTurn, CancelMode, ClaimedEntry, Commit, Disposition, EntryPayload,
    EntryState, Lease, LeaveReason, SessionInfo, StoreError, note_left,
};
use crate::turns::DispatchPath;
use logue_graph::RunOutcome;

use super::Inner;
use super::basis::TurnBasis;
use super::builder::REPORTED_FIELDS;
use super::ending::{TurnCommit, should_requeue};
use super::failure::Failure;
use super::open::Opened;
use super::outcome::{ChatTurnOutcome, mark_transient};
use super::recovery::{Journalled, Remains, TurnNote, is_message};
use super::stream::{ChatEvent, Sink};

/// Returns the dispatch path of an entry in a loaded session.
fn path(claimed: &ClaimedEntry, opened: &Opened) -> DispatchPath {
    match claimed.entry.work {
        Some(EntryPayload::Resume { .. }) => DispatchPath::SignalResume,
        _ if opened.seq == 0 => DispatchPath::NewSession,
        _ => DispatchPath::ExistingSession,
    }
}

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

/// A turn that is to run.
struct ClaimedTurn<'a> {
    lease: &'a Lease,
    claimed: ClaimedEntry,
    /// The session, unless it is to be read.
    info: Option<SessionInfo>,
    /// Whether its commit gives the session back.
    releases: bool,
}

/// A turn that has ended.
struct EndedTurn {
    outcome: ChatTurnOutcome,
    /// Whether its entry was settled and its session given back in one step.
    is_released: bool,
}

impl EndedTurn {
    /// The end of a turn whose lease is still held.
    const fn under_lease(outcome: ChatTurnOutcome) -> Self {
        Self {
            outcome,
            is_released: false,
        }
    }
}

impl<E: Send + 'static> Inner<E> {
    /// Takes a session and claims its next entry.
    pub(super) async fn begin(&self, session: &str) -> Result<BeginResult, StoreError> {
        let (owner, id) = (self.acquisition(), self.ids.invocation());
        let (now, ttl) = (self.clock.now(), self.settings.config.lease);
        self.store.begin(session, &owner, &id, now, ttl).await
    }

    /// Runs entries, the begun one first, until `wanted` is settled, and gives the session back.
    pub(super) async fn drain_until(
        &self,
        begun: BegunTurn,
        wanted: u64,
        sink: &Sink<E>,
    ) -> Result<ChatTurnOutcome, Failure> {
        let lease = begun.lease;
        let mut renewed = self.clock.now();
        let (mut claimed, mut info) = (begun.claimed, begun.info);
        loop {
            let entry = claimed.entry.entry;
            let is_wanted = entry == wanted;
            // Listeners of an earlier entry may follow it at another process.
            let earlier = (!is_wanted).then(|| sink.of_earlier(entry));
            let sink = earlier.as_ref().unwrap_or(sink);
            sink.emit(ChatEvent::Claimed {
                lease: lease.clone(),
                is_recovered: claimed.recovered,
            });
            let turn = ClaimedTurn {
                lease: &lease,
                claimed,
                info: info.take(),
                releases: is_wanted,
            };
            let ended = self.next_entry(turn, sink).await;
            if is_wanted || ended.is_err() {
                if !ended.as_ref().is_ok_and(|ended| ended.is_released) {
                    self.release(&lease).await;
                }
                return ended.map(|ended| ended.outcome);
            }
            let next = self.claim_next(&lease, &mut renewed).await;
            claimed = match next {
                Ok(Some(next)) => next,
                refused => {
                    self.release(&lease).await;
                    return Err(match refused {
                        Err(error) => Failure::save(&error, "session_save_failed"),
                        // Another owner settled it between two looks.
                        Ok(_) => Failure::new(
                            "session_write_conflict",
                            "the entry was settled by another process",
                        ),
                    });
                }
            };
        }
    }

    /// Runs entries until none waits or another owner has the session, and gives it back.
    pub(super) async fn drain_free(&self, session: &str) -> Result<u64, StoreError> {
        let mut settled = 0;
        loop {
            let BeginResult::Turn(begun) = self.begin(session).await? else {
                return Ok(settled);
            };
            let BegunTurn {
                lease,
                claimed,
                info,
            } = *begun;
            let entry = claimed.entry.entry;
            let turn = ClaimedTurn {
                lease: &lease,
                claimed,
                // Others that wait are processed under the same lease.
                releases: info.as_ref().is_some_and(|info| info.pending <= 1),
                info,
            };
            let ended = self.next_entry(turn, &Sink::none()).await;
            if ended.as_ref().is_ok_and(|ended| ended.is_released) {
                settled += 1;
                continue;
            }
            let worked = match ended {
                Ok(_) if self.is_settled(&lease.session, entry).await? => self.drain(&lease).await,
                _ => {
                    self.release(&lease).await;
                    return Ok(settled);
                }
            };
            self.release(&lease).await;
            settled += 1 + worked?;
        }
    }

    /// Gives a session back. A lease that cannot be given back expires.
    pub(super) async fn release(&self, lease: &Lease) {
        drop(self.store.release(lease).await);
    }

    async fn is_settled(&self, session: &str, entry: u64) -> Result<bool, StoreError> {
        let known = self.store.entry(session, entry).await?;
        Ok(known.is_none_or(|known| known.state == EntryState::Settled))
    }

    /// Runs entries until none waits.
    pub(super) async fn drain(&self, lease: &Lease) -> Result<u64, StoreError> {
        let mut settled = 0;
        let mut renewed = self.clock.now();
        while let Some(claimed) = self.claim_next(lease, &mut renewed).await? {
            let entry = claimed.entry.entry;
            let turn = ClaimedTurn {
                lease,
                claimed,
                info: None,
                releases: false,
            };
            // A failed entry has its outcome, and an entry taken over is settled by its new owner.
            if self.next_entry(turn, &Sink::none()).await.is_err()
                || !self.is_settled(&lease.session, entry).await?
            {
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
        let id = self.ids.invocation();
        self.store.claim_next(lease, &id, self.clock.now()).await
    }

    async fn next_entry(
        &self,
        turn: ClaimedTurn<'_>,
        sink: &Sink<E>,
    ) -> Result<EndedTurn, Failure> {
        let lease = turn.lease;
        let entry = &turn.claimed.entry;
        let resumed = matches!(entry.work, Some(EntryPayload::Resume { .. }));
        let invocation_id = entry.invocation_id.clone().unwrap_or_default();
        let span = trace::turn(&lease.session, &invocation_id);
        let ended = self.run_entry(turn, sink, &span);
        let ended = ended.instrument(span.clone()).await;
        match &ended {
            Ok(ended) => {
                let has_metadata = self.graph.has_signal_metadata_in_spans();
                trace::turn_ended(&span, &ended.outcome, has_metadata);
            }
            Err(failure) => trace::turn_failed(&span, &failure.category),
        }
        let ended = match ended {
            Ok(ended) => ended,
            Err(failure) => {
                // Other failures repeat, and the limit of recoveries ends their turns.
                if failure.transient && !failure.damaged {
                    self.leave(lease, &invocation_id).await;
                }
                return Err(failure);
            }
        };
        self.changed.notify_waiters();
        if resumed {
            // A listener that cannot be reached now catches up from its cursor the next time.
            drop(self.deliver(&lease.session).await);
        }
        Ok(ended)
    }

    async fn run_entry(
        &self,
        turn: ClaimedTurn<'_>,
        sink: &Sink<E>,
        span: &Span,
    ) -> Result<EndedTurn, Failure> {
        let ClaimedTurn {
            lease,
            claimed,
            info,
            releases,
        } = turn;
        let session = &lease.session;
        let begun = async {
            let opened = self.open(session, info).await?;
            let basis = self.basis(&claimed, session, &opened).await?;
            Ok((opened, basis))
        };
        let (opened, mut basis) = match begun.await {
            Ok(begun) => begun,
            Err(failure) if should_requeue(&claimed, &failure) => return Err(failure),
            Err(failure) => {
                let given_up = self.give_up(lease, failure, &claimed).await;
                return given_up.map(EndedTurn::under_lease);
            }
        };
        self.note_refused(lease, &claimed, &mut basis).await?;
        let path = path(&claimed, &opened);
        let ran = if let Some(mode) = claimed.cancel {
            RunResult::Cancelled(mode)
        } else if claimed.recovered && self.ends_after_crash(&basis) {
            RunResult::Interrupted
        } else {
            self.note_open_calls(lease, &claimed, &mut basis).await?;
            if claimed.recovered {
                self.take_over(lease, &claimed, &mut basis).await?;
            }
            self.drive(lease, &claimed, &opened, &basis, sink, span)
                .await
        };
        let ending = self.ending(ran, &claimed, &basis, &opened, session).await;
        let ended = match ending {
            Ok(ending) => {
                self.commit(lease, &claimed, &opened, ending, releases)
                    .await
            }
            Err(failure) if failure.category == "session_write_conflict" => Err(failure),
            Err(failure) if should_requeue(&claimed, &failure) => Err(failure),
            Err(failure) => {
                let given_up = self.give_up(lease, failure, &claimed).await;
                given_up.map(EndedTurn::under_lease)
            }
        };
        ended.map(|ended| EndedTurn {
            outcome: ended.outcome.with_path(path),
            ..ended
        })
    }

    /// Notes the calls of the history with which a turn begins.
    ///
    /// Without the note, a crash would hide that they were started.
    async fn note_open_calls(
        &self,
        lease: &Lease,
        claimed: &ClaimedEntry,
        basis: &mut TurnBasis,
    ) -> Result<(), Failure> {
        if basis.unnoted.is_empty() {
            return Ok(());
        }
        let calls = ChatMessage::new(Role::Assistant, Content::Absent);
        let calls = calls.with_tool_calls(std::mem::take(&mut basis.unnoted));
        let invocation_id = claimed.entry.invocation_id.as_deref().unwrap_or_default();
        let note = TurnNote::continuation_with_starts(&calls);
        let noted = self.store.journal(lease, invocation_id, vec![note]).await;
        noted.map_err(|error| Failure::save(&error, "session_save_failed"))?;
        basis.journalled.add(TurnNote::Continuation {
            calls,
            starts_noted: true,
        });
        Ok(())
    }

    /// Notes that this owner gives back a turn that the store did not let end.
    ///
    /// The next attempt counts no crash. A note that the store refuses as well is made by the next
    /// attempt of this process.
    async fn leave(&self, lease: &Lease, invocation_id: &str) {
        let noted = note_left(&*self.store, lease, invocation_id, LeaveReason::StoreFailed);
        if noted.await.is_err() {
            self.state_cache.refused.leave(invocation_id);
        }
    }

    /// Makes the notes that an earlier attempt of this process could not make.
    ///
    /// Nothing runs before that, so no response is requested twice while the store refuses changes.
    async fn note_refused(
        &self,
        lease: &Lease,
        claimed: &ClaimedEntry,
        basis: &mut TurnBasis,
    ) -> Result<(), Failure> {
        let invocation_id = claimed.entry.invocation_id.as_deref().unwrap_or_default();
        let Some(refused) = self.state_cache.refused.of_turn(invocation_id) else {
            return Ok(());
        };
        // Otherwise they were stored although the store reported a failure, or another owner has
        // continued the turn without them.
        let is_next = claimed.recovered && refused.noted == basis.noted;
        let mut notes = if is_next { refused.notes } else { Vec::new() };
        if claimed.recovered && (!notes.is_empty() || !basis.journalled.was_left()) {
            notes.push(LeaveReason::StoreFailed.to_note());
            let noted = self.store.journal(lease, invocation_id, notes.clone());
            let noted = noted.await;
            noted.map_err(|error| Failure::save(&error, "session_save_failed"))?;
        }
        self.state_cache.refused.remove(invocation_id);
        for note in notes {
            basis.noted += usize::from(is_message(&note));
            let note = TurnNote::from_json(&note).map_err(|cause| Failure::damaged(&cause))?;
            basis.journalled.add(note);
        }
        Ok(())
    }

    /// Notes that this owner continues a turn, before anything depends on it.
    async fn take_over(
        &self,
        lease: &Lease,
        claimed: &ClaimedEntry,
        basis: &mut TurnBasis,
    ) -> Result<(), Failure> {
        if !basis.journalled.needs_takeover() {
            return Ok(());
        }
        let invocation_id = claimed.entry.invocation_id.as_deref().unwrap_or_default();
        let notes = basis.journalled.takeover();
        basis.noted += notes.iter().filter(|note| is_message(note)).count();
        let noted = self.store.journal(lease, invocation_id, notes).await;
        noted.map_err(|error| Failure::save(&error, "session_save_failed"))
    }

    /// Commits the end of a turn, and gives the session back if `releases` says so.
    ///
    /// If that fails, the turn has failed, unless it [stays queued](should_requeue).
    async fn commit(
        &self,
        lease: &Lease,
        claimed: &ClaimedEntry,
        opened: &Opened,
        mut ending: TurnCommit,
        releases: bool,
    ) -> Result<EndedTurn, Failure> {
        self.report_fields(&mut ending);
        let invocation_id = claimed.entry.invocation_id.as_deref().unwrap_or_default();
        let added = ending.messages.len() as u64;
        // Fields of an earlier version that are not written anew stay in that version.
        let version = self.graph.schema().version();
        let mut failed = opened.failed.clone();
        failed.committed(invocation_id, &ending.settle, &ending.messages, opened.seq);
        let commit = Commit {
            invocation_id: invocation_id.to_owned(),
            expected_seq: opened.seq,
            messages: ending.messages,
            fields: ending.fields,
            schema_version: version.filter(|_| ending.is_migrated).map(str::to_owned),
            settle: Some(ending.settle),
            now: self.clock.now(),
        };
        let committed = if releases {
            self.store.commit_and_release(lease, commit).await
        } else {
            self.store.commit(lease, commit).await
        };
        match committed {
            Ok(()) => {
                self.state_cache.refused.remove(invocation_id);
                if let Some(state) = ending.state {
                    let now = Opened {
                        state,
                        seq: opened.seq + added,
                        cursor: opened.cursor + 1,
                        migrated: false,
                        failed,
                    };
                    self.state_cache.put(&lease.session, lease.epoch, now);
                }
                Ok(EndedTurn {
                    outcome: ending.outcome,
                    is_released: releases,
                })
            }
            Err(error) => {
                let failure = Failure::save(&error, ending.commit_failure_category);
                if error.is_conflict() || should_requeue(claimed, &failure) {
                    return Err(failure);
                }
                let given_up = self.give_up(lease, failure, claimed).await;
                given_up.map(EndedTurn::under_lease)
            }
        }
    }

    /// Adds the reported fields to the stored outcome.
    fn report_fields(&self, ending: &mut TurnCommit) {
        let names = self.settings.reported_fields.iter();
        let fields = names.filter_map(|name| {
            let value = ending.fields.get(*name)?;
            Some(((*name).to_owned(), value.clone()))
        });
        let fields: serde_json::Map<_, _> = fields.collect();
        if fields.is_empty() {
            return;
        }
        let (Disposition::Done { outcome, .. } | Disposition::Suspended { outcome, .. }) =
            &mut ending.settle
        else {
            return;
        };
        if outcome.body.is_null() {
            outcome.body = serde_json::json!({});
        }
        if let Some(body) = outcome.body.as_object_mut() {
            body.insert(REPORTED_FIELDS.to_owned(), fields.into());
        }
    }

    /// Settles an entry as failed after the store refused something.
    ///
    /// What had happened in its turn becomes history. If the store refuses that too, or was only
    /// away, the entry stays with its journal, and the next owner continues with it.
    async fn give_up(
        &self,
        lease: &Lease,
        failure: Failure,
        claimed: &ClaimedEntry,
    ) -> Result<ChatTurnOutcome, Failure> {
        let session = &lease.session;
        let invocation_id = claimed.entry.invocation_id.as_deref().unwrap_or_default();
        let Ok(info) = self.store.session(session).await else {
            return Err(failure);
        };
        let Ok(notes) = self.store.notes(session, invocation_id).await else {
            return Err(failure);
        };
        let notes: Vec<_> = notes.into_iter().map(|note| note.note).collect();
        let resumed = matches!(claimed.entry.work, Some(EntryPayload::Resume { .. }));
        let seq = info.map_or(0, |info| info.seq);
        let effects = match Journalled::from_notes(&notes) {
            Ok(journalled) => Some(journalled).filter(|known| known.has_effects(resumed)),
            // A lost note may have been the start of any call.
            Err(_) => Some(Journalled::from_sound_notes(&notes)).filter(|known| !known.is_empty()),
        };
        if effects.is_some() && failure.transient {
            return Err(failure);
        }
        let mut ending = self.given_up(&failure, claimed, seq, None);
        if let Some(effects) = effects {
            let retained = self.given_up(&failure, claimed, seq, Some(&effects));
            let (commit, outcome) = retained;
            if self.store.commit(lease, commit).await.is_ok() {
                return Ok(outcome);
            }
            ending = self.given_up(&failure, claimed, seq, None);
        }
        let (commit, outcome) = ending;
        match self.store.commit(lease, commit).await {
            Ok(()) => Ok(outcome),
            Err(_) => Err(failure),
        }
    }

    /// The commit of a turn that was given up, with what had happened in it.
    fn given_up(
        &self,
        failure: &Failure,
        claimed: &ClaimedEntry,
        seq: u64,
        effects: Option<&Journalled>,
    ) -> (Commit, ChatTurnOutcome) {
        let invocation_id = claimed.entry.invocation_id.clone().unwrap_or_default();
        let outcome = self.errored(failure.clone(), Some(invocation_id.clone()));
        let mut messages = Vec::new();
        let mut replies_from = seq;
        if let Some(journalled) = effects {
            if let Some(EntryPayload::Message { message }) = &claimed.entry.work {
                messages.push(message.clone());
                replies_from += 1;
            }
            let added = journalled.completed_messages(Remains::Resumable);
            messages.extend(added.iter().map(ChatMessage::to_json));
        }
        let mut stored = outcome.to_stored(replies_from);
        if failure.transient {
            mark_transient(&mut stored, failure.damaged);
        }
        let commit = Commit {
            invocation_id,
            expected_seq: seq,
            messages,
            fields: Map::new(),
            schema_version: None,
            settle: Some(Disposition::Done {
                outcome: stored,
                keep_journal: effects.is_none(),
                keep_suspension: false,
            }),
            now: self.clock.now(),
        };
        (commit, outcome)
    }
}
