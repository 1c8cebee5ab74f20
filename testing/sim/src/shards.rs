//! Several stores in place of one, each with a log of its own that a crash cuts.
//!
//! The hash of the id of a session selects its store. An operation on a session reaches that store only;
//! a lookup without the id of a session asks each of them. As in a database whose leases are not
//! flushed, a crash loses the last operations on leases of a store, up to the last flushed operation.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use logue_harness::Timestamp;
use logue_harness::store::{
    AuditEntry, BeginResult, BoundLabel, CancelMode, ClaimedEntry, Commit, EnqueueResult,
    ImportResult, InboxEntry, IntegrityFault, IntegrityReport, JournalNote, LabelResult, Lease,
    LeaseResult, MemoryStore, NewEntry, RecordArrival, RecordHash, RecordSink, RecordSource,
    RepairReport, SessionFilter, SessionFork, SessionInfo, SessionLocation, SignalResult, Store,
    StoreError, StoreResult, StoredOutcome, Suspension, SuspensionFilter,
};
use serde_json::{Map, Value};

use crate::world::lock;

/// A view of the stores of a world, which counts its own operations.
pub(crate) struct Shards {
    all: Arc<Vec<Shard>>,
    counts: Mutex<Counts>,
}

/// The operations on the stores.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Those that reached one store, by the id of a session.
    pub(crate) routed: u64,
    /// The lookups that asked each store.
    pub(crate) asked_all: u64,
}

struct Shard {
    memory: Mutex<Arc<MemoryStore>>,
    unflushed: Mutex<Unflushed>,
}

/// What a crash loses.
#[derive(Default)]
struct Unflushed {
    /// The state at the last flush; `None` if everything is flushed.
    flushed: Option<Arc<MemoryStore>>,
    operations: u64,
}

/// The effect of an operation on the log of its store.
#[derive(Clone, Copy)]
enum Logging {
    Reads,
    /// It is in the log, and reaches the disk with a later operation.
    Lazy,
    /// The log is flushed before it is acknowledged.
    Flushes,
}

impl Shards {
    pub(crate) fn new(count: usize) -> Self {
        let shard = || Shard {
            memory: Mutex::new(Arc::new(MemoryStore::new())),
            unflushed: Mutex::default(),
        };
        Self {
            all: Arc::new((0..count.max(1)).map(|_| shard()).collect()),
            counts: Mutex::default(),
        }
    }

    /// Returns another view of the same stores.
    pub(crate) fn view(&self) -> Self {
        Self {
            all: Arc::clone(&self.all),
            counts: Mutex::default(),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn counts(&self) -> Counts {
        *lock(&self.counts)
    }

    /// Ends a store and starts it again from its log. Returns the number of operations that it lost.
    pub(crate) fn crash(&self, shard: usize) -> u64 {
        let Some(shard) = self.all.get(shard) else {
            return 0;
        };
        let unflushed = std::mem::take(&mut *lock(&shard.unflushed));
        if let Some(flushed) = unflushed.flushed {
            *lock(&shard.memory) = flushed;
        }
        unflushed.operations
    }

    /// Flushes the log of a store, as databases do from time to time.
    pub(crate) fn flush(&self, shard: usize) {
        if let Some(shard) = self.all.get(shard) {
            drop(std::mem::take(&mut *lock(&shard.unflushed)));
        }
    }

    /// Returns the sessions of a store.
    pub(crate) async fn sessions_of(&self, shard: usize) -> Result<Vec<SessionInfo>, StoreError> {
        match self.all.get(shard) {
            Some(shard) => shard.store().list(SessionFilter::default()).await,
            None => Ok(Vec::new()),
        }
    }

    /// Returns a description of something that is in another store than its session.
    pub(crate) async fn misplaced(&self) -> Result<Option<String>, StoreError> {
        for (number, shard) in self.all.iter().enumerate() {
            let store = shard.store();
            let sessions = store.list(SessionFilter::default()).await?;
            let sessions = sessions.into_iter().map(|info| info.session);
            let waiting = store.suspensions(SuspensionFilter::default()).await?;
            for session in sessions.chain(waiting.into_iter().map(|one| one.session)) {
                let own = self.place(&session);
                if own != number {
                    return Ok(Some(format!("{session} of store {own} is in {number}")));
                }
            }
        }
        Ok(None)
    }

    /// Returns the number of a session's store.
    fn place(&self, session: &str) -> usize {
        let mut hasher = DefaultHasher::new();
        session.hash(&mut hasher);
        let count = self.all.len() as u64;
        usize::try_from(hasher.finish() % count).unwrap_or_default()
    }

    /// Returns the store of a session for an operation.
    fn store_of(&self, session: &str, logging: Logging) -> Arc<MemoryStore> {
        lock(&self.counts).routed += 1;
        match self.all.get(self.place(session)) {
            Some(shard) => shard.for_operation(logging),
            None => Arc::default(),
        }
    }

    /// Returns all stores for a lookup.
    fn each(&self) -> Vec<Arc<MemoryStore>> {
        lock(&self.counts).asked_all += 1;
        self.all.iter().map(Shard::store).collect()
    }

    /// Returns the session that waits under an invocation.
    async fn session_of(&self, invocation_id: &str) -> Result<Option<String>, StoreError> {
        for store in self.each() {
            if let Some(found) = store.suspension(invocation_id).await? {
                return Ok(Some(found.session));
            }
        }
        Ok(None)
    }
}

impl Shard {
    fn store(&self) -> Arc<MemoryStore> {
        Arc::clone(&lock(&self.memory))
    }

    fn for_operation(&self, logging: Logging) -> Arc<MemoryStore> {
        let store = self.store();
        let mut unflushed = lock(&self.unflushed);
        match logging {
            Logging::Reads => {}
            Logging::Lazy => {
                let copy = || Arc::new(MemoryStore::clone(&store));
                unflushed.flushed.get_or_insert_with(copy);
                unflushed.operations += 1;
            }
            Logging::Flushes => *unflushed = Unflushed::default(),
        }
        store
    }
}

/// Implements operations on one session, by its id or its lease.
macro_rules! routed {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty, $logging:ident;)*) => {$(
        fn $name<'a>(&'a self, session: &'a str, $($argument: $kind),*) -> StoreResult<'a, $result> {
            Box::pin(async move {
                let store = self.store_of(session, Logging::$logging);
                store.$name(session, $($argument),*).await
            })
        }
    )*};
    (by lease: $($name:ident($($argument:ident: $kind:ty),*) -> $result:ty, $logging:ident;)*) => {$(
        fn $name<'a>(&'a self, lease: &'a Lease, $($argument: $kind),*) -> StoreResult<'a, $result> {
            Box::pin(async move {
                let store = self.store_of(&lease.session, Logging::$logging);
                store.$name(lease, $($argument),*).await
            })
        }
    )*};
}

impl Store for Shards {
    routed! {
        enqueue(entry: NewEntry) -> EnqueueResult, Flushes;
        entry(entry: u64) -> Option<InboxEntry>, Reads;
        entry_with_key(key: &'a str) -> Option<InboxEntry>, Reads;
        inbox() -> Vec<InboxEntry>, Reads;
        request_cancel(mode: CancelMode) -> bool, Flushes;
        request_cancel_of(entry: u64, mode: CancelMode) -> bool, Flushes;
        acquire(owner: &'a str, now: Timestamp, ttl: Duration) -> LeaseResult, Lazy;
        take_over(owner: &'a str, gone: (&'a str, Timestamp), now: Timestamp, ttl: Duration)
            -> LeaseResult, Lazy;
        begin(owner: &'a str, invocation_id: &'a str, now: Timestamp, ttl: Duration)
            -> BeginResult, Lazy;
        session() -> Option<SessionInfo>, Reads;
        history(from: u64, limit: usize) -> Vec<Value>, Reads;
        notes(invocation_id: &'a str) -> Vec<JournalNote>, Reads;
        audit(invocation_id: &'a str, records: Vec<Value>, now: Timestamp) -> (), Flushes;
        audited(from: u64, limit: usize) -> Vec<AuditEntry>, Reads;
        outcomes_since(cursor: u64, limit: usize) -> Vec<StoredOutcome>, Reads;
        outcome_of(entry: u64) -> Option<StoredOutcome>, Reads;
        set_label(name: &'a str, value: Value, now: Timestamp) -> (), Flushes;
        set_label_once(name: &'a str, value: Value, now: Timestamp) -> Option<Value>, Flushes;
        set_bound_label(label: BoundLabel) -> LabelResult, Flushes;
        fork(fork: SessionFork) -> (), Flushes;
        delete() -> bool, Flushes;
        prune(unchanged_since: Timestamp, busy_too: bool) -> bool, Flushes;
        location() -> Option<SessionLocation>, Reads;
        export(sink: Box<dyn RecordSink>) -> bool, Reads;
        import(arrival: RecordArrival, record: Box<dyn RecordSource>) -> ImportResult, Flushes;
        mark_arrived() -> bool, Flushes;
    }

    routed! { by lease:
        renew(now: Timestamp, ttl: Duration) -> Option<CancelMode>, Lazy;
        release() -> (), Lazy;
        claim_next(invocation_id: &'a str, now: Timestamp) -> Option<ClaimedEntry>, Lazy;
        journal(invocation_id: &'a str, notes: Vec<Value>) -> (), Flushes;
        commit(commit: Commit) -> (), Flushes;
        commit_and_release(commit: Commit) -> (), Flushes;
        mark_moved(hash: RecordHash, to: &'a str) -> bool, Flushes;
    }

    fn signal<'a>(
        &'a self,
        invocation_id: &'a str,
        signal_id: Option<&'a str>,
        payload: Map<String, Value>,
        now: Timestamp,
    ) -> StoreResult<'a, SignalResult> {
        Box::pin(async move {
            let session = self.session_of(invocation_id).await?.unwrap_or_default();
            let store = self.store_of(&session, Logging::Flushes);
            store.signal(invocation_id, signal_id, payload, now).await
        })
    }

    fn suspension<'a>(&'a self, invocation_id: &'a str) -> StoreResult<'a, Option<Suspension>> {
        Box::pin(async move {
            for store in self.each() {
                if let Some(found) = store.suspension(invocation_id).await? {
                    return Ok(Some(found));
                }
            }
            Ok(None)
        })
    }

    fn suspensions(&self, filter: SuspensionFilter) -> StoreResult<'_, Vec<Suspension>> {
        Box::pin(async move {
            let mut all = Vec::new();
            for store in self.each() {
                all.extend(store.suspensions(filter.clone()).await?);
            }
            Ok(all)
        })
    }

    fn list(&self, filter: SessionFilter) -> StoreResult<'_, Vec<SessionInfo>> {
        Box::pin(async move {
            let mut all = Vec::new();
            for store in self.each() {
                all.extend(store.list(filter.clone()).await?);
            }
            all.sort_by(|one, other| {
                let latest = other.updated_at.cmp(&one.updated_at);
                latest.then_with(|| one.session.cmp(&other.session))
            });
            all.truncate(filter.limit.unwrap_or(usize::MAX));
            Ok(all)
        })
    }

    fn version(&self) -> StoreResult<'_, Option<u64>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn verify<'a>(&'a self, session: Option<&'a str>) -> StoreResult<'a, IntegrityReport> {
        Box::pin(async move {
            let mut all = IntegrityReport::default();
            for store in self.each() {
                let report = store.verify(session).await?;
                all.sessions += report.sessions;
                all.messages += report.messages;
                all.faults.extend(report.faults);
            }
            Ok(all)
        })
    }

    fn repair(&self, _now: Timestamp) -> StoreResult<'_, RepairReport> {
        // Memory cannot be damaged.
        Box::pin(std::future::ready(Ok(RepairReport::default())))
    }

    fn quarantine(
        &self,
        _faults: Vec<IntegrityFault>,
        _now: Timestamp,
    ) -> StoreResult<'_, RepairReport> {
        Box::pin(std::future::ready(Ok(RepairReport::default())))
    }
}
