//! The log of the turns that one task drives.

use std::sync::Arc;

use logue_agent::TurnEvent;
use logue_graph::RunEvent;
use logue_harness::chat::ChatEvent;
use logue_harness::events::EventBatch;
use logue_harness::store::{Lease, StoreError};

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
    /// Whether entries before the turn have no outcome in the log.
    has_earlier: bool,
    attempt: Option<Attempt>,
}

/// A turn that this process runs.
struct Attempt {
    entry: u64,
    /// `None` after the log has refused its events.
    lease: Option<Lease>,
    events: TurnEvents,
}

impl<'a> TurnLog<'a> {
    /// Creates the log of a turn whose acceptance is logged.
    pub(super) const fn new(
        turns: &'a Turns,
        (session, entry): (&'a str, u64),
        is_repeated: bool,
        has_earlier: bool,
    ) -> Self {
        Self {
            turns,
            session,
            entry,
            is_repeated,
            has_earlier,
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
            } => {
                let is_recovered = is_recovered || std::mem::take(&mut self.is_repeated);
                self.begin((self.entry, lease), is_recovered).await;
            }
            ChatEvent::Run { event, .. } => self.run(event),
            _ => {}
        }
    }

    /// Begins an attempt at a turn, after the outcomes of earlier turns.
    async fn begin(&mut self, (entry, lease): (u64, Lease), is_recovered: bool) {
        self.append().await;
        let before = self.attempt.take().map(|before| before.entry);
        // A failure is repeated after the turn.
        drop(match before.filter(|before| *before != entry) {
            Some(own) => self.turns.log_own_outcome(self.session, own).await,
            None if self.has_earlier => self.turns.log_earlier_outcomes(self.session, entry).await,
            None => Ok(()),
        });
        let mut events = TurnEvents::new(entry);
        if is_recovered || before == Some(entry) {
            events.recovered();
        }
        self.attempt = Some(Attempt {
            entry,
            lease: Some(lease),
            events,
        });
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
        let Some(attempt) = &mut self.attempt else {
            return;
        };
        let batch = attempt.events.take();
        let Some(lease) = attempt.lease.as_ref().filter(|_| !batch.is_empty()) else {
            return;
        };
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
