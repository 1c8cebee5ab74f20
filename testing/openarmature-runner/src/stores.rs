//! Stores that count what they are asked and fail when the case says so.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use logue_harness::sessions::{
    LoadedSession, MemorySessionStore, PausedRecord, PausedStatus, PausedStore, SessionRecord,
    SessionResult, SessionStore, SessionStoreError, SessionSummary, SessionWrite, SummaryFilter,
};
use serde_json::{Map, Value, json};

use crate::seen::{Machine, lock};
use crate::vocabulary::StoreBehavior;

/// Sessions and paused runs in memory. Clones share everything.
#[derive(Clone)]
pub(crate) struct CountedStore {
    kept: MemorySessionStore,
    behavior: Arc<StoreBehavior>,
    counts: Arc<Counts>,
    /// The state of the last loaded record, or null for a session without a record.
    loaded: Arc<Mutex<Option<Value>>>,
}

#[derive(Default)]
struct Counts {
    loads: AtomicUsize,
    saves: AtomicU64,
    pauses: AtomicU64,
    ended: AtomicUsize,
}

/// The numbers of store operations so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) loads: usize,
    pub(crate) saves: u64,
}

impl CountedStore {
    pub(crate) fn new(behavior: StoreBehavior) -> Self {
        Self {
            kept: MemorySessionStore::new(Arc::new(Machine)),
            behavior: Arc::new(behavior),
            counts: Arc::default(),
            loaded: Arc::default(),
        }
    }

    /// Returns the content, without counting or failing.
    pub(crate) fn kept(&self) -> &MemorySessionStore {
        &self.kept
    }

    pub(crate) fn asked(&self) -> Asked {
        Asked {
            loads: self.counts.loads.load(Ordering::Relaxed),
            saves: self.counts.saves.load(Ordering::Relaxed),
        }
    }

    /// Returns the result of the last load, once.
    pub(crate) fn take_loaded(&self) -> Option<Value> {
        lock(&self.loaded).take()
    }

    /// Counts a save, and fails it or lets another save come first if the case requires it.
    async fn saving(&self, session_id: &str) -> Result<(), SessionStoreError> {
        let number = self.counts.saves.fetch_add(1, Ordering::Relaxed) + 1;
        if self.behavior.fail_saves.contains(&number) {
            return Err(SessionStoreError::failed("the disk is full"));
        }
        if self.behavior.outrun_saves.contains(&number) {
            let other = self.kept.load(session_id).await?;
            let other = other.map_or_else(
                || SessionRecord::new(session_id, Map::new()),
                |loaded| loaded.record,
            );
            self.kept.save(other, None).await?;
        }
        Ok(())
    }
}

impl SessionStore for CountedStore {
    fn load<'a>(&'a self, session_id: &'a str) -> SessionResult<'a, Option<LoadedSession>> {
        Box::pin(async move {
            self.counts.loads.fetch_add(1, Ordering::Relaxed);
            if let Some(words) = &self.behavior.load_raises {
                return Err(SessionStoreError::failed(words.clone()));
            }
            let loaded = self.kept.load(session_id).await?;
            let state = loaded.as_ref().map(|loaded| &loaded.record.state);
            *lock(&self.loaded) = Some(json!(state));
            Ok(loaded)
        })
    }

    fn save(&self, record: SessionRecord, expected_version: Option<u64>) -> SessionResult<'_, u64> {
        Box::pin(async move {
            self.saving(&record.session_id).await?;
            self.kept.save(record, expected_version).await
        })
    }

    fn delete<'a>(&'a self, session_id: &'a str) -> SessionResult<'a, ()> {
        self.kept.delete(session_id)
    }

    fn list(&self, filter: SummaryFilter) -> SessionResult<'_, Vec<SessionSummary>> {
        self.kept.list(filter)
    }
}

impl PausedStore for CountedStore {
    fn pause(
        &self,
        paused: PausedRecord,
        beside: Option<SessionWrite>,
    ) -> SessionResult<'_, Option<u64>> {
        Box::pin(async move {
            let number = self.counts.pauses.fetch_add(1, Ordering::Relaxed) + 1;
            if self.behavior.fail_pauses.contains(&number) {
                return Err(SessionStoreError::failed("the disk is full"));
            }
            if let Some(write) = &beside {
                self.saving(&write.record.session_id).await?;
            }
            self.kept.pause(paused, beside).await
        })
    }

    fn paused<'a>(&'a self, invocation_id: &'a str) -> SessionResult<'a, Option<PausedRecord>> {
        Box::pin(async move {
            let found = self.kept.paused(invocation_id).await;
            // Others look before anybody claims what was found.
            tokio::task::yield_now().await;
            found
        })
    }

    fn claim<'a>(&'a self, invocation_id: &'a str, round: u64) -> SessionResult<'a, bool> {
        self.kept.claim(invocation_id, round)
    }

    fn finish<'a>(&'a self, invocation_id: &'a str, status: PausedStatus) -> SessionResult<'a, ()> {
        self.counts.ended.fetch_add(1, Ordering::Relaxed);
        self.kept.finish(invocation_id, status)
    }

    fn waiting<'a>(&'a self, signal_id: &'a str) -> SessionResult<'a, Vec<PausedRecord>> {
        self.kept.waiting(signal_id)
    }
}
