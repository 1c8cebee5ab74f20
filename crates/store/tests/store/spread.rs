//! A file used in odd ways that must make no difference: opened anew for each operation, or through
//! another connection each time.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use logue_harness::Timestamp;
use logue_harness::store::{
    AuditEntry, CancelMode, ClaimedEntry, Commit, EnqueueResult, InboxEntry, IntegrityReport,
    JournalNote, Lease, LeaseResult, NewEntry, SessionFilter, SessionInfo, SignalResult, Store,
    StoreError, StoreResult, StoredOutcome, Suspension, SuspensionFilter,
};
use logue_store::SqliteStore;
use serde_json::{Map, Value};
use tempfile::TempDir;

/// Several stores on one file.
pub(crate) struct Spread {
    open: Vec<Arc<SqliteStore>>,
    next: AtomicUsize,
    path: PathBuf,
    // Goes last.
    _folder: TempDir,
}

impl Spread {
    /// Each operation goes to the next of `count` stores; with none, to one that is opened for it.
    pub(crate) fn over(count: usize) -> Self {
        let (folder, path) = super::place();
        let open = (0..count).map(|_| Arc::new(SqliteStore::open(&path).unwrap()));
        Self {
            open: open.collect(),
            next: AtomicUsize::new(0),
            path,
            _folder: folder,
        }
    }

    fn pick(&self) -> Result<Arc<SqliteStore>, StoreError> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        match self.open.get(turn % self.open.len().max(1)) {
            Some(store) => Ok(Arc::clone(store)),
            None => SqliteStore::open(&self.path).map(Arc::new),
        }
    }
}

/// Forwards each operation of the port to the next store.
macro_rules! spread {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        #[expect(
            clippy::elidable_lifetime_names,
            reason = "arguments of some of the operations need the name"
        )]
        impl Store for Spread {
            $(fn $name<'a>(&'a self, $($argument: $kind),*) -> StoreResult<'a, $result> {
                Box::pin(async move { self.pick()?.$name($($argument),*).await })
            })*
        }
    };
}

spread! {
    accept(session: &'a str, entry: NewEntry) -> EnqueueResult;
    entry(session: &'a str, entry: u64) -> Option<InboxEntry>;
    inbox(session: &'a str) -> Vec<InboxEntry>;
    request_cancel(session: &'a str, mode: CancelMode) -> bool;
    acquire(session: &'a str, owner: &'a str, now: Timestamp, ttl: Duration) -> LeaseResult;
    renew(lease: &'a Lease, now: Timestamp, ttl: Duration) -> Option<CancelMode>;
    release(lease: &'a Lease) -> ();
    begin(lease: &'a Lease, invocation_id: &'a str, now: Timestamp) -> Option<ClaimedEntry>;
    journal(lease: &'a Lease, invocation_id: &'a str, notes: Vec<Value>) -> ();
    commit(lease: &'a Lease, commit: Commit) -> ();
    signal(invocation_id: &'a str, signal_id: Option<&'a str>, payload: Map<String, Value>, now: Timestamp) -> SignalResult;
    suspension(invocation_id: &'a str) -> Option<Suspension>;
    suspensions(filter: SuspensionFilter) -> Vec<Suspension>;
    session(session: &'a str) -> Option<SessionInfo>;
    history(session: &'a str, from: u64, limit: usize) -> Vec<Value>;
    notes(session: &'a str, invocation_id: &'a str) -> Vec<JournalNote>;
    audit(session: &'a str, invocation_id: &'a str, records: Vec<Value>, now: Timestamp) -> ();
    audited(session: &'a str, from: u64, limit: usize) -> Vec<AuditEntry>;
    outcomes_since(session: &'a str, cursor: u64, limit: usize) -> Vec<StoredOutcome>;
    outcome_of(session: &'a str, entry: u64) -> Option<StoredOutcome>;
    list(filter: SessionFilter) -> Vec<SessionInfo>;
    set_label(session: &'a str, name: &'a str, value: Value, now: Timestamp) -> ();
    fork(session: &'a str, upto: u64, into: &'a str, now: Timestamp) -> ();
    delete(session: &'a str) -> bool;
    verify(session: Option<&'a str>) -> IntegrityReport;
}
