//! A slow store with injected failures.
//!
//! An operation fails before it has an effect, or after it, so that its result is unknown.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use logue_harness::Timestamp;
use logue_harness::store::{
    AuditEntry, CancelMode, ClaimedEntry, Commit, EnqueueResult, InboxEntry, IntegrityReport,
    JournalNote, Lease, LeaseResult, MemoryStore, NewEntry, SessionFilter, SessionInfo,
    SignalResult, Store, StoreError, StoreResult, StoredOutcome, Suspension, SuspensionFilter,
};
use serde_json::{Map, Value};
use testkit::Random;

/// The view that all nodes have of one memory store.
#[derive(Clone)]
pub(crate) struct SimStore {
    memory: Arc<MemoryStore>,
    chance: Arc<Mutex<Chance>>,
}

struct Chance {
    random: Random,
    /// The mean number of operations per failure; 0 disables failures.
    one_in: usize,
}

#[derive(Clone, Copy)]
enum Fate {
    Works,
    FailsBefore,
    FailsAfter,
}

impl SimStore {
    pub(crate) fn new(seed: u64, one_in: usize) -> Self {
        let random = Random::new(seed);
        Self {
            memory: Arc::new(MemoryStore::new()),
            chance: Arc::new(Mutex::new(Chance { random, one_in })),
        }
    }

    /// Returns the underlying memory store, which never fails.
    pub(crate) fn memory(&self) -> &Arc<MemoryStore> {
        &self.memory
    }

    /// Disables failures.
    pub(crate) fn heal(&self) {
        self.lock().one_in = 0;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Chance> {
        self.chance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fate(&self) -> (usize, Fate) {
        let mut chance = self.lock();
        let delay = chance.random.below(3);
        let one_in = chance.one_in;
        if one_in == 0 || chance.random.below(one_in) != 0 {
            return (delay, Fate::Works);
        }
        match chance.random.below(2) {
            0 => (delay, Fate::FailsBefore),
            _ => (delay, Fate::FailsAfter),
        }
    }

    /// Runs an operation with a delay, and may fail before or after it.
    fn weather<'a, T: Send + 'a>(&'a self, work: StoreResult<'a, T>) -> StoreResult<'a, T> {
        Box::pin(async move {
            let (delay, fate) = self.fate();
            give_way(delay).await;
            let failed = || StoreError::Unavailable {
                message: "the disk is away".to_owned(),
                source: None,
            };
            match fate {
                Fate::Works => {
                    let result = work.await;
                    // The response is delayed, so a crash may lose it.
                    give_way(delay).await;
                    result
                }
                Fate::FailsBefore => Err(failed()),
                Fate::FailsAfter => {
                    drop(work.await);
                    Err(failed())
                }
            }
        })
    }
}

/// Returns `Pending` the given number of times.
pub(crate) async fn give_way(mut times: usize) {
    std::future::poll_fn(|_| {
        if times == 0 {
            return Poll::Ready(());
        }
        times -= 1;
        Poll::Pending
    })
    .await;
}

impl Store for SimStore {
    fn accept<'a>(&'a self, session: &'a str, entry: NewEntry) -> StoreResult<'a, EnqueueResult> {
        self.weather(self.memory.accept(session, entry))
    }

    fn entry<'a>(&'a self, session: &'a str, entry: u64) -> StoreResult<'a, Option<InboxEntry>> {
        self.weather(self.memory.entry(session, entry))
    }

    fn inbox<'a>(&'a self, session: &'a str) -> StoreResult<'a, Vec<InboxEntry>> {
        self.weather(self.memory.inbox(session))
    }

    fn request_cancel<'a>(&'a self, session: &'a str, mode: CancelMode) -> StoreResult<'a, bool> {
        self.weather(self.memory.request_cancel(session, mode))
    }

    fn acquire<'a>(
        &'a self,
        session: &'a str,
        owner: &'a str,
        now: Timestamp,
        ttl: Duration,
    ) -> StoreResult<'a, LeaseResult> {
        self.weather(self.memory.acquire(session, owner, now, ttl))
    }

    fn renew<'a>(
        &'a self,
        lease: &'a Lease,
        now: Timestamp,
        ttl: Duration,
    ) -> StoreResult<'a, Option<CancelMode>> {
        self.weather(self.memory.renew(lease, now, ttl))
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> StoreResult<'a, ()> {
        self.weather(self.memory.release(lease))
    }

    fn begin<'a>(
        &'a self,
        lease: &'a Lease,
        invocation_id: &'a str,
        now: Timestamp,
    ) -> StoreResult<'a, Option<ClaimedEntry>> {
        self.weather(self.memory.begin(lease, invocation_id, now))
    }

    fn journal<'a>(
        &'a self,
        lease: &'a Lease,
        invocation_id: &'a str,
        notes: Vec<Value>,
    ) -> StoreResult<'a, ()> {
        self.weather(self.memory.journal(lease, invocation_id, notes))
    }

    fn commit<'a>(&'a self, lease: &'a Lease, commit: Commit) -> StoreResult<'a, ()> {
        self.weather(self.memory.commit(lease, commit))
    }

    fn signal<'a>(
        &'a self,
        invocation_id: &'a str,
        signal_id: Option<&'a str>,
        payload: Map<String, Value>,
        now: Timestamp,
    ) -> StoreResult<'a, SignalResult> {
        self.weather(self.memory.signal(invocation_id, signal_id, payload, now))
    }

    fn suspension<'a>(&'a self, invocation_id: &'a str) -> StoreResult<'a, Option<Suspension>> {
        self.weather(self.memory.suspension(invocation_id))
    }

    fn suspensions(&self, filter: SuspensionFilter) -> StoreResult<'_, Vec<Suspension>> {
        self.weather(self.memory.suspensions(filter))
    }

    fn session<'a>(&'a self, session: &'a str) -> StoreResult<'a, Option<SessionInfo>> {
        self.weather(self.memory.session(session))
    }

    fn history<'a>(
        &'a self,
        session: &'a str,
        from: u64,
        limit: usize,
    ) -> StoreResult<'a, Vec<Value>> {
        self.weather(self.memory.history(session, from, limit))
    }

    fn notes<'a>(
        &'a self,
        session: &'a str,
        invocation_id: &'a str,
    ) -> StoreResult<'a, Vec<JournalNote>> {
        self.weather(self.memory.notes(session, invocation_id))
    }

    fn audit<'a>(
        &'a self,
        session: &'a str,
        invocation_id: &'a str,
        records: Vec<Value>,
        now: Timestamp,
    ) -> StoreResult<'a, ()> {
        self.weather(self.memory.audit(session, invocation_id, records, now))
    }

    fn audited<'a>(
        &'a self,
        session: &'a str,
        from: u64,
        limit: usize,
    ) -> StoreResult<'a, Vec<AuditEntry>> {
        self.weather(self.memory.audited(session, from, limit))
    }

    fn outcomes_since<'a>(
        &'a self,
        session: &'a str,
        cursor: u64,
        limit: usize,
    ) -> StoreResult<'a, Vec<StoredOutcome>> {
        self.weather(self.memory.outcomes_since(session, cursor, limit))
    }

    fn outcome_of<'a>(
        &'a self,
        session: &'a str,
        entry: u64,
    ) -> StoreResult<'a, Option<StoredOutcome>> {
        self.weather(self.memory.outcome_of(session, entry))
    }

    fn list(&self, filter: SessionFilter) -> StoreResult<'_, Vec<SessionInfo>> {
        self.weather(self.memory.list(filter))
    }

    fn set_label<'a>(
        &'a self,
        session: &'a str,
        name: &'a str,
        value: Value,
        now: Timestamp,
    ) -> StoreResult<'a, ()> {
        self.weather(self.memory.set_label(session, name, value, now))
    }

    fn fork<'a>(
        &'a self,
        session: &'a str,
        upto: u64,
        into: &'a str,
        now: Timestamp,
    ) -> StoreResult<'a, ()> {
        self.weather(self.memory.fork(session, upto, into, now))
    }

    fn delete<'a>(&'a self, session: &'a str) -> StoreResult<'a, bool> {
        self.weather(self.memory.delete(session))
    }

    fn verify<'a>(&'a self, session: Option<&'a str>) -> StoreResult<'a, IntegrityReport> {
        self.weather(self.memory.verify(session))
    }
}
