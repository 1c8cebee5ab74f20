//! Stores that wrap another store.

use std::time::Duration;

use serde_json::{Map, Value};

use super::record::{
    AuditEntry, BeginResult, BegunTurn, BoundLabel, CancelMode, ClaimedEntry, Commit,
    EnqueueResult, InboxEntry, IntegrityFault, IntegrityReport, JournalNote, LabelResult, Lease,
    LeaseResult, NewEntry, RepairReport, SessionFilter, SessionFork, SessionInfo, SignalResult,
    StoredOutcome, Suspension, SuspensionFilter,
};
use super::transfer::{
    ImportResult, RecordArrival, RecordHash, RecordSink, RecordSource, SessionLocation,
};
use super::{Store, StoreError, StoreResult};
use crate::clock::Timestamp;

/// Declares the trait of layers and its implementation of [`Store`] from one list of operations.
macro_rules! layer {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        /// A store that passes its operations to another store.
        ///
        /// [`forward`](Self::forward) is the only required method: every operation goes through it.
        /// A layer that changes an operation also implements the method of that name, which
        /// otherwise forwards. Each layer is a [`Store`].
        ///
        /// ```
        /// use std::sync::atomic::{AtomicU64, Ordering};
        ///
        /// use logue_harness::store::{SharedStore, Store, StoreLayer, StoreResult};
        ///
        /// /// Counts the operations of a store, and counts a deletion twice.
        /// struct Counted {
        ///     inner: SharedStore,
        ///     operations: AtomicU64,
        /// }
        ///
        /// impl StoreLayer for Counted {
        ///     fn forward<'a, T: Send + 'static>(
        ///         &'a self,
        ///         operation: impl for<'s> FnOnce(&'s (dyn Store + 'a)) -> StoreResult<'s, T> + Send + 'a,
        ///     ) -> StoreResult<'a, T> {
        ///         self.operations.fetch_add(1, Ordering::Relaxed);
        ///         operation(&*self.inner)
        ///     }
        ///
        ///     fn delete<'a>(&'a self, session: &'a str) -> StoreResult<'a, bool> {
        ///         self.operations.fetch_add(1, Ordering::Relaxed);
        ///         self.forward(move |store| store.delete(session))
        ///     }
        /// }
        /// ```
        #[expect(
            clippy::elidable_lifetime_names,
            reason = "arguments of some of the operations need the name"
        )]
        pub trait StoreLayer: Send + Sync {
            /// Runs an operation on the other store.
            ///
            /// The operation may be run later, or never if the layer fails it.
            fn forward<'a, T: Send + 'static>(
                &'a self,
                operation: impl for<'s> FnOnce(&'s (dyn Store + 'a)) -> StoreResult<'s, T>
                + Send
                + 'a,
            ) -> StoreResult<'a, T>;

            $(
                #[doc = concat!(
                    "Forwards [`", stringify!($name), "`](Store::", stringify!($name), ")."
                )]
                fn $name<'a>(&'a self, $($argument: $kind),*) -> StoreResult<'a, $result> {
                    self.forward(move |store| store.$name($($argument),*))
                }
            )*

            /// Begins a turn by the operations of this layer: [`acquire`](Self::acquire) and
            /// [`claim_next`](Self::claim_next). The session is not read.
            ///
            /// A layer that changes none of them and not [`session`](Self::session) forwards [`Store::begin`] for speed.
            fn begin<'a>(
                &'a self,
                session: &'a str,
                owner: &'a str,
                invocation_id: &'a str,
                now: Timestamp,
                ttl: Duration,
            ) -> StoreResult<'a, BeginResult> {
                Box::pin(async move {
                    let lease = match StoreLayer::acquire(self, session, owner, now, ttl).await? {
                        LeaseResult::Lease(lease) => lease,
                        LeaseResult::Held { owner, until } => {
                            return Ok(BeginResult::Held { owner, until });
                        }
                    };
                    let begun = claim_under(self, &lease, invocation_id, now).await;
                    if !matches!(begun, Ok(BeginResult::Turn(_))) {
                        // A lease that cannot be given back expires.
                        drop(StoreLayer::release(self, &lease).await);
                    }
                    begun
                })
            }

            /// Ends a turn by the operations of this layer: [`commit`](Self::commit) and
            /// [`release`](Self::release).
            ///
            /// A layer that changes neither forwards [`Store::commit_and_release`] for speed.
            fn commit_and_release<'a>(
                &'a self,
                lease: &'a Lease,
                commit: Commit,
            ) -> StoreResult<'a, ()> {
                Box::pin(async move {
                    StoreLayer::commit(self, lease, commit).await?;
                    // A lease that cannot be given back expires.
                    drop(StoreLayer::release(self, lease).await);
                    Ok(())
                })
            }
        }

        #[expect(
            clippy::elidable_lifetime_names,
            reason = "arguments of some of the operations need the name"
        )]
        impl<L: StoreLayer> Store for L {
            $(
                fn $name<'a>(&'a self, $($argument: $kind),*) -> StoreResult<'a, $result> {
                    StoreLayer::$name(self, $($argument),*)
                }
            )*

            fn begin<'a>(
                &'a self,
                session: &'a str,
                owner: &'a str,
                invocation_id: &'a str,
                now: Timestamp,
                ttl: Duration,
            ) -> StoreResult<'a, BeginResult> {
                StoreLayer::begin(self, session, owner, invocation_id, now, ttl)
            }

            fn commit_and_release<'a>(
                &'a self,
                lease: &'a Lease,
                commit: Commit,
            ) -> StoreResult<'a, ()> {
                StoreLayer::commit_and_release(self, lease, commit)
            }
        }
    };
}

/// Marks the next entry as running under a lease that was taken.
pub(super) async fn claim_under<L: StoreLayer + ?Sized>(
    layer: &L,
    lease: &Lease,
    invocation_id: &str,
    now: Timestamp,
) -> Result<BeginResult, StoreError> {
    let claimed = StoreLayer::claim_next(layer, lease, invocation_id, now).await?;
    let Some(claimed) = claimed else {
        return Ok(BeginResult::Idle);
    };
    Ok(BeginResult::Turn(Box::new(BegunTurn {
        lease: lease.clone(),
        claimed,
        info: None,
    })))
}

layer! {
    enqueue(session: &'a str, entry: NewEntry) -> EnqueueResult;
    entry(session: &'a str, entry: u64) -> Option<InboxEntry>;
    entry_with_key(session: &'a str, key: &'a str) -> Option<InboxEntry>;
    inbox(session: &'a str) -> Vec<InboxEntry>;
    request_cancel(session: &'a str, mode: CancelMode) -> bool;
    request_cancel_of(session: &'a str, entry: u64, mode: CancelMode) -> bool;
    acquire(session: &'a str, owner: &'a str, now: Timestamp, ttl: Duration) -> LeaseResult;
    take_over(
        session: &'a str,
        owner: &'a str,
        gone: (&'a str, Timestamp),
        now: Timestamp,
        ttl: Duration
    ) -> LeaseResult;
    renew(lease: &'a Lease, now: Timestamp, ttl: Duration) -> Option<CancelMode>;
    release(lease: &'a Lease) -> ();
    claim_next(lease: &'a Lease, invocation_id: &'a str, now: Timestamp) -> Option<ClaimedEntry>;
    journal(lease: &'a Lease, invocation_id: &'a str, notes: Vec<Value>) -> ();
    commit(lease: &'a Lease, commit: Commit) -> ();
    signal(
        invocation_id: &'a str,
        signal_id: Option<&'a str>,
        payload: Map<String, Value>,
        now: Timestamp
    ) -> SignalResult;
    suspension(invocation_id: &'a str) -> Option<Suspension>;
    suspensions(filter: SuspensionFilter) -> Vec<Suspension>;
    session(session: &'a str) -> Option<SessionInfo>;
    history(session: &'a str, from: u64, limit: usize) -> Vec<Value>;
    notes(session: &'a str, invocation_id: &'a str) -> Vec<JournalNote>;
    audit(
        session: &'a str,
        invocation_id: &'a str,
        records: Vec<Value>,
        now: Timestamp
    ) -> ();
    audited(session: &'a str, from: u64, limit: usize) -> Vec<AuditEntry>;
    outcomes_since(session: &'a str, cursor: u64, limit: usize) -> Vec<StoredOutcome>;
    outcome_of(session: &'a str, entry: u64) -> Option<StoredOutcome>;
    list(filter: SessionFilter) -> Vec<SessionInfo>;
    set_label(session: &'a str, name: &'a str, value: Value, now: Timestamp) -> ();
    set_label_once(session: &'a str, name: &'a str, value: Value, now: Timestamp) -> Option<Value>;
    set_bound_label(session: &'a str, label: BoundLabel) -> LabelResult;
    fork(session: &'a str, fork: SessionFork) -> ();
    delete(session: &'a str) -> bool;
    prune(session: &'a str, unchanged_since: Timestamp, busy_too: bool) -> bool;
    location(session: &'a str) -> Option<SessionLocation>;
    export(session: &'a str, sink: Box<dyn RecordSink>) -> bool;
    import(
        session: &'a str,
        arrival: RecordArrival,
        record: Box<dyn RecordSource>
    ) -> ImportResult;
    mark_moved(lease: &'a Lease, hash: RecordHash, to: &'a str) -> bool;
    mark_arrived(session: &'a str) -> bool;
    version() -> Option<u64>;
    ready() -> ();
    verify(session: Option<&'a str>) -> IntegrityReport;
    repair(now: Timestamp) -> RepairReport;
    quarantine(faults: Vec<IntegrityFault>, now: Timestamp) -> RepairReport;
}
