//! A log of events in memory.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{EventBatch, EventLog, EventPage, LogPosition, LoggedEvent};
use crate::clock::Timestamp;
use crate::store::StoreResult;

/// A log of events that ends with its process.
#[derive(Debug, Default)]
pub struct MemoryEventLog {
    sessions: Mutex<HashMap<String, SessionLog>>,
}

#[derive(Debug, Default)]
struct SessionLog {
    position: LogPosition,
    events: VecDeque<(Timestamp, LoggedEvent)>,
    removed: u64,
}

impl MemoryEventLog {
    /// Creates an empty log.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, SessionLog>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionLog {
    fn append(&mut self, batch: EventBatch) -> Option<LogPosition> {
        if let Some((from, to)) = batch.progress {
            if !self.position.is_level_with(&from) {
                return None;
            }
            self.position = LogPosition {
                seq: self.position.seq,
                ..to
            };
        }
        for (entry, text) in batch.events {
            self.position.seq += 1;
            let seq = self.position.seq;
            let event = LoggedEvent { seq, entry, text };
            self.events.push_back((batch.now, event));
        }
        Some(self.position)
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
    fn generation(&self) -> u64 {
        0
    }

    fn position<'a>(&'a self, session: &'a str) -> StoreResult<'a, LogPosition> {
        let position = self.lock().get(session).map(|log| log.position);
        Box::pin(async move { Ok(position.unwrap_or_default()) })
    }

    fn append<'a>(
        &'a self,
        session: &'a str,
        batch: EventBatch,
    ) -> StoreResult<'a, Option<LogPosition>> {
        let mut sessions = self.lock();
        let log = sessions.entry(session.to_owned()).or_default();
        let position = log.append(batch);
        Box::pin(async move { Ok(position) })
    }

    fn since<'a>(
        &'a self,
        session: &'a str,
        after: u64,
        limit: usize,
    ) -> StoreResult<'a, EventPage> {
        let sessions = self.lock();
        let page = sessions.get(session).map(|log| {
            let first = log.events.partition_point(|(_, event)| event.seq <= after);
            let events = log.events.iter().skip(first).take(limit);
            EventPage {
                events: events.map(|(_, event)| event.clone()).collect(),
                removed: log.removed,
            }
        });
        Box::pin(async move { Ok(page.unwrap_or_default()) })
    }

    fn first_after_entry<'a>(
        &'a self,
        session: &'a str,
        entry: u64,
    ) -> StoreResult<'a, Option<u64>> {
        let sessions = self.lock();
        let first = sessions.get(session).and_then(|log| {
            let mut events = log.events.iter();
            events.find(|(_, event)| event.entry > entry)
        });
        let seq = first.map(|(_, event)| event.seq);
        Box::pin(async move { Ok(seq) })
    }

    fn trim(&self, before: Timestamp) -> StoreResult<'_, u64> {
        let removed = self.lock().values_mut().map(|log| log.trim(before)).sum();
        Box::pin(async move { Ok(removed) })
    }

    fn delete<'a>(&'a self, session: &'a str) -> StoreResult<'a, ()> {
        self.lock().remove(session);
        Box::pin(async { Ok(()) })
    }
}
