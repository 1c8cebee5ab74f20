//! The store of a chat: in memory, counted, and failing when the case says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use logue_harness::store::{
    Commit, Lease, MemoryStore, SessionInfo, Store, StoreError, StoreLayer, StoreResult,
};
use serde_json::Value;

use crate::vocabulary::StoreBehavior;

/// A memory that processes share.
pub(crate) struct ChatStore {
    kept: Arc<MemoryStore>,
    behavior: StoreBehavior,
    asked: AtomicU64,
    commits: AtomicU64,
}

impl ChatStore {
    pub(crate) fn new(behavior: StoreBehavior) -> Arc<Self> {
        Arc::new(Self {
            kept: Arc::new(MemoryStore::new()),
            behavior,
            asked: AtomicU64::new(0),
            commits: AtomicU64::new(0),
        })
    }

    /// Returns the content, without counting or failing.
    pub(crate) fn kept(&self) -> &Arc<MemoryStore> {
        &self.kept
    }

    /// Returns the number of store operations.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    fn count(&self) -> &MemoryStore {
        self.asked.fetch_add(1, Ordering::Relaxed);
        &self.kept
    }

    /// Reads, or fails as the case says.
    fn reading<'a, T: Send + 'a>(&'a self, work: StoreResult<'a, T>) -> StoreResult<'a, T> {
        match &self.behavior.load_raises {
            Some(words) => failed(words),
            None => work,
        }
    }
}

fn failed<'a, T: Send + 'a>(words: &str) -> StoreResult<'a, T> {
    let message = words.to_owned();
    Box::pin(async move {
        Err(StoreError::Unavailable {
            message,
            source: None,
        })
    })
}

impl StoreLayer for ChatStore {
    fn forward<'a, T: Send + 'static>(
        &'a self,
        operation: impl for<'s> FnOnce(&'s (dyn Store + 'a)) -> StoreResult<'s, T> + Send + 'a,
    ) -> StoreResult<'a, T> {
        operation(self.count())
    }

    fn commit<'a>(&'a self, lease: &'a Lease, commit: Commit) -> StoreResult<'a, ()> {
        let number = self.commits.fetch_add(1, Ordering::Relaxed) + 1;
        if self.behavior.fail_saves.contains(&number) {
            return failed("the disk is full");
        }
        self.count().commit(lease, commit)
    }

    fn session<'a>(&'a self, session: &'a str) -> StoreResult<'a, Option<SessionInfo>> {
        self.reading(self.count().session(session))
    }

    fn history<'a>(
        &'a self,
        session: &'a str,
        from: u64,
        limit: usize,
    ) -> StoreResult<'a, Vec<Value>> {
        self.reading(self.count().history(session, from, limit))
    }
}
