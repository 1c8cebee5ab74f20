//! Sessions and paused runs in memory: for tests, and for programs that may forget.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::clock::{Clock, Timestamp};

use super::paused::{PausedRecord, PausedStatus, PausedStore, SessionWrite};
use super::record::{
    LoadedSession, SessionRecord, SessionResult, SessionStore, SessionStoreError, SessionSummary,
    SummaryFilter,
};

/// Keeps sessions and paused runs as long as it lives. Clones share what they keep.
#[derive(Clone)]
pub struct MemorySessionStore {
    clock: Arc<dyn Clock>,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    sessions: BTreeMap<String, Session>,
    /// By the order in which they came.
    paused: Vec<PausedRecord>,
    /// Versions are never given twice, also not after a session was deleted.
    versions: u64,
}

#[derive(Debug)]
struct Session {
    record: SessionRecord,
    version: u64,
    updated_at: Timestamp,
}

impl MemorySessionStore {
    /// A store of nothing, which dates its records by this clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            kept: Arc::default(),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn check(&self, session_id: &str, expected: Option<u64>) -> Result<(), SessionStoreError> {
        let found = self.sessions.get(session_id);
        let found = found.map_or(0, |session| session.version);
        if expected.is_none_or(|expected| expected == found) {
            return Ok(());
        }
        Err(SessionStoreError::Conflict {
            session_id: session_id.to_owned(),
        })
    }

    fn put(&mut self, record: SessionRecord, updated_at: Timestamp) -> u64 {
        self.versions += 1;
        let version = self.versions;
        let session = Session {
            record,
            version,
            updated_at,
        };
        let id = session.record.session_id.clone();
        self.sessions.insert(id, session);
        version
    }

    fn paused_mut(&mut self, invocation_id: &str) -> Option<&mut PausedRecord> {
        let mut all = self.paused.iter_mut();
        all.find(|paused| paused.invocation_id == invocation_id)
    }
}

impl SessionStore for MemorySessionStore {
    fn load<'a>(&'a self, session_id: &'a str) -> SessionResult<'a, Option<LoadedSession>> {
        Box::pin(async move {
            let kept = self.kept();
            let found = kept.sessions.get(session_id);
            Ok(found.map(|session| LoadedSession {
                record: session.record.clone(),
                version: session.version,
            }))
        })
    }

    fn save(&self, record: SessionRecord, expected_version: Option<u64>) -> SessionResult<'_, u64> {
        Box::pin(async move {
            let now = self.clock.now();
            let mut kept = self.kept();
            kept.check(&record.session_id, expected_version)?;
            Ok(kept.put(record, now))
        })
    }

    fn delete<'a>(&'a self, session_id: &'a str) -> SessionResult<'a, ()> {
        Box::pin(async move {
            self.kept().sessions.remove(session_id);
            Ok(())
        })
    }

    fn list(&self, filter: SummaryFilter) -> SessionResult<'_, Vec<SessionSummary>> {
        Box::pin(async move {
            let prefix = filter.prefix.unwrap_or_default();
            let kept = self.kept();
            let sessions = kept.sessions.values();
            let fitting = sessions.filter(|one| one.record.session_id.starts_with(&prefix));
            Ok(fitting
                .map(|session| SessionSummary {
                    session_id: session.record.session_id.clone(),
                    schema_version: session.record.schema_version.clone(),
                    updated_at: session.updated_at,
                })
                .collect())
        })
    }
}

impl PausedStore for MemorySessionStore {
    fn pause(
        &self,
        paused: PausedRecord,
        beside: Option<SessionWrite>,
    ) -> SessionResult<'_, Option<u64>> {
        Box::pin(async move {
            let now = self.clock.now();
            let mut kept = self.kept();
            if let Some(write) = &beside {
                kept.check(&write.record.session_id, write.expected_version)?;
            }
            kept.paused
                .retain(|earlier| earlier.invocation_id != paused.invocation_id);
            kept.paused.push(paused);
            Ok(beside.map(|write| kept.put(write.record, now)))
        })
    }

    fn paused<'a>(&'a self, invocation_id: &'a str) -> SessionResult<'a, Option<PausedRecord>> {
        Box::pin(async move { Ok(self.kept().paused_mut(invocation_id).cloned()) })
    }

    fn claim<'a>(&'a self, invocation_id: &'a str, round: u64) -> SessionResult<'a, bool> {
        Box::pin(async move {
            let mut kept = self.kept();
            let Some(paused) = kept.paused_mut(invocation_id) else {
                return Ok(false);
            };
            let free = paused.status == PausedStatus::Suspended && paused.round == round;
            if free {
                paused.status = PausedStatus::Claimed;
            }
            Ok(free)
        })
    }

    fn finish<'a>(&'a self, invocation_id: &'a str, status: PausedStatus) -> SessionResult<'a, ()> {
        Box::pin(async move {
            if let Some(paused) = self.kept().paused_mut(invocation_id) {
                paused.status = status;
                paused.run = Value::Null;
            }
            Ok(())
        })
    }

    fn waiting<'a>(&'a self, signal_id: &'a str) -> SessionResult<'a, Vec<PausedRecord>> {
        Box::pin(async move {
            let kept = self.kept();
            let waiting = kept.paused.iter().filter(|paused| {
                paused.signal_id == signal_id && paused.status == PausedStatus::Suspended
            });
            Ok(waiting.cloned().collect())
        })
    }
}

impl fmt::Debug for MemorySessionStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.kept();
        f.debug_struct("MemorySessionStore")
            .field("sessions", &kept.sessions.len())
            .field("paused", &kept.paused.len())
            .finish_non_exhaustive()
    }
}
