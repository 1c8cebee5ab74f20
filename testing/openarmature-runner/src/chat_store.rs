//! The store of a chat: in memory, counted, and failing when the case says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use logue_harness::Timestamp;
use logue_harness::store::{
    AuditEntry, CancelMode, ClaimedEntry, Commit, EnqueueResult, InboxEntry, IntegrityReport,
    JournalNote, Lease, LeaseResult, MemoryStore, NewEntry, SessionFilter, SessionInfo,
    SignalResult, Store, StoreError, StoreResult, StoredOutcome, Suspension, SuspensionFilter,
};
use serde_json::{Map, Value};

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

impl Store for ChatStore {
    fn accept<'a>(&'a self, session: &'a str, entry: NewEntry) -> StoreResult<'a, EnqueueResult> {
        self.count().accept(session, entry)
    }

    fn entry<'a>(&'a self, session: &'a str, entry: u64) -> StoreResult<'a, Option<InboxEntry>> {
        self.count().entry(session, entry)
    }

    fn inbox<'a>(&'a self, session: &'a str) -> StoreResult<'a, Vec<InboxEntry>> {
        self.count().inbox(session)
    }

    fn request_cancel<'a>(&'a self, session: &'a str, mode: CancelMode) -> StoreResult<'a, bool> {
        self.count().request_cancel(session, mode)
    }

    fn acquire<'a>(
        &'a self,
        session: &'a str,
        owner: &'a str,
        now: Timestamp,
        ttl: Duration,
    ) -> StoreResult<'a, LeaseResult> {
        self.count().acquire(session, owner, now, ttl)
    }

    fn renew<'a>(
        &'a self,
        lease: &'a Lease,
        now: Timestamp,
        ttl: Duration,
    ) -> StoreResult<'a, Option<CancelMode>> {
        self.count().renew(lease, now, ttl)
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> StoreResult<'a, ()> {
        self.count().release(lease)
    }

    fn begin<'a>(
        &'a self,
        lease: &'a Lease,
        invocation_id: &'a str,
        now: Timestamp,
    ) -> StoreResult<'a, Option<ClaimedEntry>> {
        self.count().begin(lease, invocation_id, now)
    }

    fn journal<'a>(
        &'a self,
        lease: &'a Lease,
        invocation_id: &'a str,
        notes: Vec<Value>,
    ) -> StoreResult<'a, ()> {
        self.count().journal(lease, invocation_id, notes)
    }

    fn commit<'a>(&'a self, lease: &'a Lease, commit: Commit) -> StoreResult<'a, ()> {
        let number = self.commits.fetch_add(1, Ordering::Relaxed) + 1;
        if self.behavior.fail_saves.contains(&number) {
            return failed("the disk is full");
        }
        self.count().commit(lease, commit)
    }

    fn signal<'a>(
        &'a self,
        invocation_id: &'a str,
        signal_id: Option<&'a str>,
        payload: Map<String, Value>,
        now: Timestamp,
    ) -> StoreResult<'a, SignalResult> {
        self.count().signal(invocation_id, signal_id, payload, now)
    }

    fn suspension<'a>(&'a self, invocation_id: &'a str) -> StoreResult<'a, Option<Suspension>> {
        self.count().suspension(invocation_id)
    }

    fn suspensions(&self, filter: SuspensionFilter) -> StoreResult<'_, Vec<Suspension>> {
        self.count().suspensions(filter)
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

    fn notes<'a>(
        &'a self,
        session: &'a str,
        invocation_id: &'a str,
    ) -> StoreResult<'a, Vec<JournalNote>> {
        self.count().notes(session, invocation_id)
    }

    fn audit<'a>(
        &'a self,
        session: &'a str,
        invocation_id: &'a str,
        records: Vec<Value>,
        now: Timestamp,
    ) -> StoreResult<'a, ()> {
        self.count().audit(session, invocation_id, records, now)
    }

    fn audited<'a>(
        &'a self,
        session: &'a str,
        from: u64,
        limit: usize,
    ) -> StoreResult<'a, Vec<AuditEntry>> {
        self.count().audited(session, from, limit)
    }

    fn outcomes_since<'a>(
        &'a self,
        session: &'a str,
        cursor: u64,
        limit: usize,
    ) -> StoreResult<'a, Vec<StoredOutcome>> {
        self.count().outcomes_since(session, cursor, limit)
    }

    fn outcome_of<'a>(
        &'a self,
        session: &'a str,
        entry: u64,
    ) -> StoreResult<'a, Option<StoredOutcome>> {
        self.count().outcome_of(session, entry)
    }

    fn list(&self, filter: SessionFilter) -> StoreResult<'_, Vec<SessionInfo>> {
        self.count().list(filter)
    }

    fn set_label<'a>(
        &'a self,
        session: &'a str,
        name: &'a str,
        value: Value,
        now: Timestamp,
    ) -> StoreResult<'a, ()> {
        self.count().set_label(session, name, value, now)
    }

    fn fork<'a>(
        &'a self,
        session: &'a str,
        upto: u64,
        into: &'a str,
        now: Timestamp,
    ) -> StoreResult<'a, ()> {
        self.count().fork(session, upto, into, now)
    }

    fn delete<'a>(&'a self, session: &'a str) -> StoreResult<'a, bool> {
        self.count().delete(session)
    }

    fn verify<'a>(&'a self, session: Option<&'a str>) -> StoreResult<'a, IntegrityReport> {
        self.count().verify(session)
    }
}
