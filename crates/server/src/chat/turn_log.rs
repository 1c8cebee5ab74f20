//! The log of the turns that one task drives.

use std::sync::Arc;

use logue_agent::TurnEvent;
use logue_graph::RunEvent;
use logue_harness::chat::ChatEvent;
use logue_harness::events::EventBatch;
use logue_harness::store::{Lease, StoreError};
use serde_json::Value;

use super::earlier_attempt::{EarlierAttempts, earlier_attempts, noted_results};
use super::outcomes::adopt;
use super::turn_events::TurnEvents;
use super::turns::Turns;

/// The log of an accepted turn.
///
/// It includes earlier turns of the session, which the same task runs first.
pub(super) struct TurnLog<'a> {
    turns: &'a Turns,
    session: &'a str,
    /// The entry of the turn.
    entry: u64,
    /// Whether its acceptance was in the log: if it runs here, another attempt may have ended.
    is_repeated: bool,
    attempt: Option<Attempt>,
}

/// A turn that this process runs.
struct Attempt {
    entry: u64,
    /// `None` after the log has refused its events.
    lease: Option<Lease>,
    events: TurnEvents,
    /// Whether the outcomes of all earlier entries are logged, which its events follow.
    is_next: bool,
}

impl<'a> TurnLog<'a> {
    /// Creates the log of a turn whose acceptance is logged.
    pub(super) const fn new(
        turns: &'a Turns,
        (session, entry): (&'a str, u64),
        is_repeated: bool,
    ) -> Self {
        Self {
            turns,
            session,
            entry,
            is_repeated,
            attempt: None,
        }
    }

    /// Adds an event.
    pub(super) async fn event(&mut self, event: ChatEvent<TurnEvent>) {
        match event {
            ChatEvent::Earlier { entry, event } => match *event {
                ChatEvent::Claimed {
                    lease,
                    is_recovered,
                } => self.begin((entry, lease), is_recovered).await,
                ChatEvent::Run { event, .. } => self.run(event),
                _ => {}
            },
            ChatEvent::Claimed {
                lease,
                is_recovered,
            } => self.begin((self.entry, lease), is_recovered).await,
            ChatEvent::Run { event, .. } => self.run(event),
            _ => {}
        }
    }

    /// Begins an attempt at a turn, after the outcomes of earlier turns.
    ///
    /// Earlier attempts are over, and so are the calls that they had begun. An attempt is announced if
    /// the log has events of an earlier one, also of another process whose message was the same, unless
    /// nothing has happened since an announcement.
    async fn begin(&mut self, (entry, lease): (u64, Lease), is_recovered: bool) {
        self.append().await;
        let before = self.attempt.take().map(|before| before.entry);
        if let Some(own) = before.filter(|before| *before != entry) {
            // A failure is repeated below.
            drop(self.turns.log_own_outcome(self.session, own).await);
        }
        // After the own entry has ended elsewhere, this task may run later ones.
        let is_next = self.log_earlier(entry, true).await;
        let mut events = TurnEvents::new(entry);
        let mut lease = Some(lease);
        let is_first = entry == self.entry && before.is_none() && !self.is_repeated;
        let mut is_continued = is_recovered || before == Some(entry);
        if is_continued || !is_first {
            match self.earlier_attempts(entry, lease.as_ref()).await {
                Ok(attempts) => {
                    is_continued |= attempts.have_events;
                    // While the store lets no attempt end, the log must not grow with each.
                    is_continued &= !attempts.are_announced;
                    for (call, result) in self.results(entry, attempts.open_calls).await {
                        events.interrupted(&call, result.as_deref());
                    }
                }
                Err(StoreError::Fenced { .. }) => lease = None,
                // The outcome has the results.
                Err(_) => is_continued = true,
            }
            if is_continued {
                events.recovered();
            }
        }
        self.attempt = Some(Attempt {
            entry,
            lease,
            events,
            is_next,
        });
    }

    /// Returns the events of earlier attempts at an entry, after their last possible append.
    async fn earlier_attempts(
        &self,
        entry: u64,
        lease: Option<&Lease>,
    ) -> Result<EarlierAttempts, StoreError> {
        let Some(lease) = lease else {
            return Ok(EarlierAttempts::default());
        };
        // It ensures that earlier owners append nothing any more.
        try_append(self.turns, self.session, lease, &[]).await?;
        earlier_attempts(self.turns.hub.log(), self.session, entry).await
    }

    /// Returns the calls of earlier attempts with their results, if the store has them.
    async fn results(&self, entry: u64, calls: Vec<Value>) -> Vec<(Value, Option<String>)> {
        let store = self.turns.host.store();
        let results = noted_results(&**store, (self.session, entry), &calls).await;
        // The outcome has the results, too.
        let results = results.unwrap_or_else(|_| vec![None; calls.len()]);
        calls.into_iter().zip(results).collect()
    }

    /// Logs the outcomes before an entry, and returns whether all are logged.
    async fn log_earlier(&self, entry: u64, waits: bool) -> bool {
        let turns = self.turns;
        let logged = if waits {
            turns.log_earlier_outcomes(self.session, entry).await
        } else {
            turns.log_due_outcomes(self.session, entry).await
        };
        logged.unwrap_or(false)
    }

    /// Appends the last events, for which the outcomes of earlier turns are waited for.
    pub(super) async fn finish(&mut self) {
        if let Some(attempt) = self.attempt.as_ref().filter(|attempt| !attempt.is_next) {
            let is_next = self.log_earlier(attempt.entry, true).await;
            if let Some(attempt) = &mut self.attempt {
                attempt.is_next = is_next;
            }
        }
        self.append().await;
    }

    /// Returns the entry that this process has run last, unless another owner continues it.
    pub(super) fn last_entry(&self) -> Option<u64> {
        let attempt = self.attempt.as_ref()?;
        attempt.lease.is_some().then_some(attempt.entry)
    }

    fn run(&mut self, event: RunEvent<TurnEvent>) {
        if let (Some(attempt), RunEvent::Emitted(event)) = (&mut self.attempt, event)
            && attempt.lease.is_some()
        {
            attempt.events.event(event);
        }
    }

    /// Appends the events since the last call. What cannot be logged is tried again with later events.
    pub(super) async fn append(&mut self) {
        if let Some(attempt) = self.attempt.as_ref().filter(|attempt| !attempt.is_next) {
            let is_next = self.log_earlier(attempt.entry, false).await;
            if let Some(attempt) = &mut self.attempt {
                attempt.is_next = is_next;
            }
        }
        let Some(attempt) = &mut self.attempt else {
            return;
        };
        let batch = attempt.events.take();
        let Some(lease) = attempt.lease.as_ref().filter(|_| !batch.is_empty()) else {
            return;
        };
        if !attempt.is_next {
            attempt.events.put_back(batch);
            return;
        }
        match try_append(self.turns, self.session, lease, &batch).await {
            Ok(()) => {}
            // Another owner continues the turn, or its outcome is logged.
            Err(StoreError::Fenced { .. }) => attempt.lease = None,
            Err(_) => attempt.events.put_back(batch),
        }
    }
}

async fn try_append(
    turns: &Turns,
    session: &str,
    lease: &Lease,
    batch: &[(u64, Arc<str>)],
) -> Result<(), StoreError> {
    loop {
        let batch = EventBatch {
            progress: None,
            lease: Some(lease.clone()),
            events: batch.to_vec(),
            now: turns.clock.now(),
        };
        if turns.hub.append(session, batch).await?.is_some() {
            return Ok(());
        }
        // The log was lost, or the session was removed.
        let store = turns.host.store();
        let position = adopt(&turns.hub, &**store, &*turns.clock, session).await?;
        if !position.has_begun() {
            return Ok(());
        }
    }
}
