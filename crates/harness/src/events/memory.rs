//! A log of events in memory.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{EventBatch, EventLog, EventPage, LogPosition, LoggedEvent};
use crate::clock::Timestamp;
use crate::store::{StoreError, StoreResult};

/// The number of bytes after which a page of events ends.
const PAGE_BYTES: usize = 64 * 1024;

/// A log of events that ends with its process.
#[derive(Debug)]
pub struct MemoryEventLog {
    logs: Mutex<Logs>,
}

#[derive(Debug)]
struct Logs {
    sessions: HashMap<String, SessionLog>,
    /// The generation of the next log.
    generation: u64,
}

#[derive(Debug, Default)]
struct SessionLog {
    position: LogPosition,
    events: VecDeque<(Timestamp, LoggedEvent)>,
    removed: u64,
    /// The latest lease under which events were appended.
    epoch: u64,
}

impl MemoryEventLog {
    /// Creates an empty log.
    pub fn new() -> Self {
        Self::with_generation(1)
    }

    /// Creates an empty log whose numbers are of this generation, at least 1.
    ///
    /// Each process that uses a store must name another one.
    pub fn with_generation(generation: u64) -> Self {
        Self {
            logs: Mutex::new(Logs {
                sessions: HashMap::new(),
                generation: generation.max(1),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Logs> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryEventLog {
    fn default() -> Self {
        Self::new()
    }
}

impl Logs {
    fn append(
        &mut self,
        session: &str,
        batch: EventBatch,
    ) -> Result<Option<LogPosition>, StoreError> {
        if let Some(log) = self.sessions.get_mut(session) {
            return log.append(batch);
        }
        let begins = batch
            .progress
            .is_some_and(|(from, _)| LogPosition::default().is_level_with(&from));
        if !begins {
            return Ok(None);
        }
        let mut log = SessionLog::default();
        log.position.generation = self.generation;
        let position = log.append(batch)?;
        self.sessions.insert(session.to_owned(), log);
        Ok(position)
    }
}

impl SessionLog {
    fn append(&mut self, batch: EventBatch) -> Result<Option<LogPosition>, StoreError> {
        if let Some(lease) = batch.lease {
            let settled = self.position.settled;
            let is_settled = batch.events.iter().any(|(entry, _)| *entry <= settled);
            if lease.epoch < self.epoch || is_settled {
                return Err(StoreError::Fenced {
                    session: lease.session,
                    epoch: lease.epoch,
                    current: self.epoch,
                });
            }
            self.epoch = lease.epoch;
        }
        if let Some((from, to)) = batch.progress {
            if !self.position.is_level_with(&from) {
                return Ok(None);
            }
            self.position = LogPosition {
                seq: self.position.seq,
                generation: self.position.generation,
                ..to
            };
        }
        for (entry, text) in batch.events {
            self.position.seq += 1;
            let seq = self.position.seq;
            let event = LoggedEvent { seq, entry, text };
            self.events.push_back((batch.now, event));
        }
        Ok(Some(self.position))
    }

    fn trim(&mut self, before: Timestamp) -> u64 {
        let mut removed = 0;
        while let Some((at, event)) = self.events.front() {
            if *at >= before || event.entry > self.position.settled {
                break;
            }
            self.removed = event.seq;
            removed += 1;
            self.events.pop_front();
        }
        removed
    }
}

impl EventLog for MemoryEventLog {
    fn position<'a>(&'a self, session: &'a str) -> StoreResult<'a, LogPosition> {
        let position = self.lock().sessions.get(session).map(|log| log.position);
        Box::pin(async move { Ok(position.unwrap_or_default()) })
    }

    fn append<'a>(
        &'a self,
        session: &'a str,
        batch: EventBatch,
    ) -> StoreResult<'a, Option<LogPosition>> {
        let appended = self.lock().append(session, batch);
        Box::pin(async move { appended })
    }

    fn since<'a>(
        &'a self,
        session: &'a str,
        after: u64,
        limit: usize,
    ) -> StoreResult<'a, EventPage> {
        let logs = self.lock();
        let page = logs.sessions.get(session).map(|log| {
            let first = log.events.partition_point(|(_, event)| event.seq <= after);
            let mut bytes = 0;
            let events = log.events.iter().skip(first).take(limit);
            let events = events.take_while(|(_, event)| {
                let is_taken = bytes < PAGE_BYTES;
                bytes += event.text.len();
                is_taken
            });
            EventPage {
                generation: log.position.generation,
                events: events.map(|(_, event)| event.clone()).collect(),
                removed: log.removed,
            }
        });
        Box::pin(async move { Ok(page.unwrap_or_default()) })
    }

    fn latest<'a>(
        &'a self,
        session: &'a str,
        beginnings: &'a [&'a str],
        limit: usize,
    ) -> StoreResult<'a, Vec<LoggedEvent>> {
        let is_meant = |text: &str| beginnings.iter().any(|begin| text.starts_with(begin));
        let logs = self.lock();
        let log = logs.sessions.get(session);
        let events = log.into_iter().flat_map(|log| log.events.iter().rev());
        let events = events.map(|(_, event)| event);
        let found = events.filter(|event| is_meant(&event.text)).take(limit);
        let mut found: Vec<LoggedEvent> = found.cloned().collect();
        found.reverse();
        Box::pin(async move { Ok(found) })
    }

    fn first_after_entry<'a>(
        &'a self,
        session: &'a str,
        entry: u64,
    ) -> StoreResult<'a, Option<u64>> {
        let logs = self.lock();
        let first = logs.sessions.get(session).and_then(|log| {
            let mut events = log.events.iter();
            events.find(|(_, event)| event.entry > entry)
        });
        let seq = first.map(|(_, event)| event.seq);
        Box::pin(async move { Ok(seq) })
    }

    fn trim(&self, before: Timestamp) -> StoreResult<'_, u64> {
        let mut logs = self.lock();
        let logs = logs.sessions.values_mut();
        let removed = logs.map(|log| log.trim(before)).sum();
        Box::pin(async move { Ok(removed) })
    }

    fn delete<'a>(&'a self, session: &'a str) -> StoreResult<'a, ()> {
        let mut logs = self.lock();
        if logs.sessions.remove(session).is_some() {
            logs.generation += 1;
        }
        Box::pin(async { Ok(()) })
    }

    fn sessions(&self) -> StoreResult<'_, Vec<String>> {
        let sessions = self.lock().sessions.keys().cloned().collect();
        Box::pin(async move { Ok(sessions) })
    }

    fn foreign_changes(&self) -> StoreResult<'_, u64> {
        Box::pin(async { Ok(0) })
    }
}
