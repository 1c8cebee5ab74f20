//! Sessions in a PostgreSQL database that many nodes share.
//!
//! Each operation of the port is one statement, the call of a function of the schema, and so one
//! transaction and one round trip. Functions with control flow were chosen over statements with many
//! common table expressions: most operations decide under the lock of one row, and a statement sees the
//! state before it waited for the lock, while each statement of a function sees the state after it.
//!
//! Nothing depends on the server connection: statements use the unnamed prepared statement, and there
//! are neither settings nor locks or tables of a connection, so a pooler that shares connections
//! between transactions may be used. The times of leases are those of the database's clock.

/// The condition of the session `s` whose id is the first parameter.
macro_rules! of_session {
    () => {
        "substr(s.id, 1, 1024) = substr($1, 1, 1024) AND s.id = $1"
    };
}

mod address;
mod call;
mod column;
mod error;
mod event_log;
mod feed;
mod inbox;
mod lease;
mod link;
mod migration;
mod password;
mod payload;
mod repair;
mod session;
mod suspension;
mod tls;
mod transfer;
mod turn;
mod verify;

pub(crate) use self::address::is_address;

pub use self::event_log::PostgresEventLog;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use logue_harness::Timestamp;
use logue_harness::events::{ListenState, SessionChanges};
use logue_harness::store::{
    AuditEntry, BeginResult, BoundLabel, CancelMode, ClaimedEntry, Commit, EnqueueResult,
    ImportResult, InboxEntry, IntegrityFault, IntegrityReport, JournalNote, LabelResult, Lease,
    LeaseResult, NewEntry, RecordArrival, RecordHash, RecordSink, RecordSource, RepairReport,
    SessionFilter, SessionFork, SessionInfo, SessionLocation, SignalResult, Store, StoreError,
    StoreResult, StoredOutcome, Suspension, SuspensionFilter, check_session_id,
};
use serde_json::{Map, Value};
use tokio_postgres::Row;

use self::address::Address;
use self::call::Call;
use self::column::get;
use self::feed::Feed;
use self::link::Link;

/// The clock of leases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeaseTime {
    /// The clock of the database, whatever the callers state.
    #[default]
    Database,
    /// The times that the callers state, for simulations. Those of owners with different
    /// [clocks](logue_harness::store::clock_of) are not compared.
    Caller,
}

/// Options for opening a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PostgresOptions {
    /// The clock of leases.
    pub lease_time: LeaseTime,
    /// The address for notifications, without a pooler.
    ///
    /// Without it, changes by other nodes are found by polling.
    pub listen: Option<String>,
}

impl PostgresOptions {
    /// Sets the clock of leases.
    #[must_use]
    pub fn lease_time(mut self, lease_time: LeaseTime) -> Self {
        self.lease_time = lease_time;
        self
    }

    /// Sets the address for notifications.
    #[must_use]
    pub fn listen(mut self, listen: Option<String>) -> Self {
        self.listen = listen;
        self
    }
}

/// A store of sessions in a PostgreSQL database that many nodes share.
///
/// The effect of an operation is on the disk of the server when it returns. An operation is one round
/// trip, and its cost does not depend on the length of the session.
///
/// While the database restarts or fails over, operations wait for it, up to ten seconds. If the
/// connection is lost after a statement was sent, it is sent again where a second one does nothing;
/// otherwise, as for an entry without a key, the error says that the effect is unknown.
///
/// The futures run on any executor; a thread of the store does the work and ends with it. Dropping a
/// future does not cancel an operation that has begun, and its result is then unknown.
pub struct PostgresStore {
    link: Link,
    options: PostgresOptions,
    journals: Journals,
    feed: Arc<Feed>,
}

impl PostgresStore {
    /// Connects to a database, and creates or migrates the schema of the store.
    ///
    /// The address is `postgres://USER@HOST/DATABASE` with the parameters of PostgreSQL's own
    /// programs, and `schema` for another schema than `logue`. Of several hosts, the one that accepts
    /// writes is used.
    ///
    /// Blocks until the server has answered.
    ///
    /// # Errors
    /// Returns [`StoreError::NotAStore`] if the address, the user or the server cannot be used,
    /// [`StoreError::ReadOnly`] for a standby, [`StoreError::Newer`] if a later version created the
    /// schema, and [`StoreError::Unavailable`] if the server does not answer.
    pub fn open(url: &str) -> Result<Self, StoreError> {
        Self::open_with(url, PostgresOptions::default())
    }

    /// Connects with the given options, like [`open`](Self::open).
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(url: &str, options: PostgresOptions) -> Result<Self, StoreError> {
        let link = Link::new(Address::parse(url)?)?;
        let listen = options.listen.as_deref().map(Address::parse).transpose()?;
        let feed = Feed::new(listen, &link.shared.address.schema);
        let shared = Arc::clone(&link.shared);
        link.block(async move { migration::prepare(&shared).await })?;
        Ok(Self {
            link,
            options,
            journals: Journals::default(),
            feed: Arc::new(feed),
        })
    }

    /// Sends a statement and reads all its rows.
    fn all<'a, T: Send + 'a>(
        &self,
        call: Result<Call, StoreError>,
        read: impl FnOnce(&[Row]) -> Result<T, StoreError> + Send + 'a,
    ) -> StoreResult<'a, T> {
        match call {
            Ok(call) => {
                let rows = self.link.ask(call);
                Box::pin(async move { read(&rows.await?) })
            }
            Err(refused) => Box::pin(std::future::ready(Err(refused))),
        }
    }

    /// Sends a statement and reads its only row.
    fn one<'a, T: Send + 'a>(
        &self,
        call: Result<Call, StoreError>,
        read: impl FnOnce(&Row) -> Result<T, StoreError> + Send + 'a,
    ) -> StoreResult<'a, T> {
        self.all(call, |rows| match rows {
            [row] => read(row),
            _ => Err(StoreError::Damaged(
                "the database returned an unexpected number of rows".to_owned(),
            )),
        })
    }

    /// Sends a statement and reads its row, if it has one.
    fn maybe<'a, T: Send + 'a>(
        &self,
        call: Call,
        read: impl FnOnce(&Row) -> Result<T, StoreError> + Send + 'a,
    ) -> StoreResult<'a, Option<T>> {
        self.all(Ok(call), |rows| rows.first().map(read).transpose())
    }

    /// Sends a statement and reads each row.
    fn each<'a, T: Send + 'a>(
        &self,
        call: Call,
        read: impl Fn(&Row) -> Result<T, StoreError> + Send + 'a,
    ) -> StoreResult<'a, Vec<T>> {
        self.all(Ok(call), move |rows| rows.iter().map(read).collect())
    }

    /// Returns a number that differs after each change of the database.
    ///
    /// The transactions that run are in it, so that it differs after each that ends.
    fn snapshot(&self) -> StoreResult<'_, u64> {
        let call = Call::new("SELECT hashtextextended(pg_current_snapshot()::text, 0) AS version");
        self.one(Ok(call.quick()), |row| {
            Ok(get::<i64>(row, "version")?.cast_unsigned())
        })
    }

    /// Waits for hints of changes.
    fn changes(&self, followed: &[String]) -> StoreResult<'static, SessionChanges> {
        let (feed, shared) = (Arc::clone(&self.feed), Arc::clone(&self.link.shared));
        Box::pin(self.link.run(feed.next(shared, followed.to_vec())))
    }

    /// Returns the state of the notifications.
    fn listening(&self) -> Option<ListenState> {
        self.feed.state()
    }

    /// Returns the time of a lease operation; `None` for that of the database.
    fn lease_time(&self, now: Timestamp) -> Option<Timestamp> {
        (self.options.lease_time == LeaseTime::Caller).then_some(now)
    }
}

/// Runs a check before a statement is made.
fn checked(session: &str, call: Result<Call, StoreError>) -> Result<Call, StoreError> {
    check_session_id(session)?;
    call
}

impl Store for PostgresStore {
    fn enqueue<'a>(&'a self, session: &'a str, entry: NewEntry) -> StoreResult<'a, EnqueueResult> {
        let is_bound = entry.only_created_at.is_some();
        let call = checked(session, inbox::enqueue(session, entry));
        self.all(call, move |rows| {
            let enqueued = inbox::enqueued(session, rows, is_bound)?;
            self.feed.note(session);
            Ok(enqueued)
        })
    }

    fn entry<'a>(&'a self, session: &'a str, entry: u64) -> StoreResult<'a, Option<InboxEntry>> {
        self.maybe(inbox::entry(session, entry), inbox::read_entry)
    }

    fn entry_with_key<'a>(
        &'a self,
        session: &'a str,
        key: &'a str,
    ) -> StoreResult<'a, Option<InboxEntry>> {
        self.maybe(inbox::entry_with_key(session, key), inbox::read_entry)
    }

    fn inbox<'a>(&'a self, session: &'a str) -> StoreResult<'a, Vec<InboxEntry>> {
        self.each(inbox::inbox(session), inbox::read_entry)
    }

    fn request_cancel<'a>(&'a self, session: &'a str, mode: CancelMode) -> StoreResult<'a, bool> {
        let call = inbox::request_cancel(session, mode);
        self.one(Ok(call), |row| get(row, "asked"))
    }

    fn request_cancel_of<'a>(
        &'a self,
        session: &'a str,
        entry: u64,
        mode: CancelMode,
    ) -> StoreResult<'a, bool> {
        let call = inbox::request_cancel_of(session, entry, mode);
        self.all(Ok(call), |rows| Ok(!rows.is_empty()))
    }

    fn acquire<'a>(
        &'a self,
        session: &'a str,
        owner: &'a str,
        now: Timestamp,
        ttl: Duration,
    ) -> StoreResult<'a, LeaseResult> {
        let call = lease::acquire(session, owner, None, self.lease_time(now), ttl);
        self.one(Ok(call), move |row| lease::acquired(session, owner, row))
    }

    fn take_over<'a>(
        &'a self,
        session: &'a str,
        owner: &'a str,
        gone: (&'a str, Timestamp),
        now: Timestamp,
        ttl: Duration,
    ) -> StoreResult<'a, LeaseResult> {
        let call = lease::acquire(session, owner, Some(gone), self.lease_time(now), ttl);
        self.one(Ok(call), move |row| lease::acquired(session, owner, row))
    }

    fn renew<'a>(
        &'a self,
        lease: &'a Lease,
        now: Timestamp,
        ttl: Duration,
    ) -> StoreResult<'a, Option<CancelMode>> {
        let call = lease::renew(lease, self.lease_time(now), ttl);
        self.one(Ok(call), |row| lease::renewed(lease, row))
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> StoreResult<'a, ()> {
        self.journals.forget(lease);
        self.all(Ok(lease::release(lease)), |_| Ok(()))
    }

    fn claim_next<'a>(
        &'a self,
        lease: &'a Lease,
        invocation_id: &'a str,
        _now: Timestamp,
    ) -> StoreResult<'a, Option<ClaimedEntry>> {
        let call = inbox::claim_next(lease, invocation_id);
        self.one(Ok(call), move |row| {
            let claimed = inbox::claimed(lease, row)?;
            if let Some(claimed) = &claimed {
                self.journals.begin(lease, claimed);
            }
            Ok(claimed)
        })
    }

    fn begin<'a>(
        &'a self,
        session: &'a str,
        owner: &'a str,
        invocation_id: &'a str,
        now: Timestamp,
        ttl: Duration,
    ) -> StoreResult<'a, BeginResult> {
        let call = turn::begin(session, owner, invocation_id, self.lease_time(now), ttl);
        self.one(Ok(call), move |row| {
            let begun = turn::begun(session, owner, row)?;
            if let BeginResult::Turn(begun) = &begun {
                self.journals.begin(&begun.lease, &begun.claimed);
            }
            Ok(begun)
        })
    }

    fn journal<'a>(
        &'a self,
        lease: &'a Lease,
        invocation_id: &'a str,
        notes: Vec<Value>,
    ) -> StoreResult<'a, ()> {
        Box::pin(async move {
            // A batch of notes is known by its place, so that each follows the one before.
            let order = self.journals.order(lease, invocation_id);
            let _order = match &order {
                Some(order) => Some(order.lock().await),
                None => None,
            };
            let from = self.journals.length(lease, invocation_id);
            let call = inbox::journal(lease, invocation_id, &notes, from);
            let noted = self.one(call, |row| {
                let length = inbox::journalled(lease, invocation_id, row)?;
                self.journals.set(lease, invocation_id, length);
                Ok(())
            });
            noted.await
        })
    }

    fn commit<'a>(&'a self, lease: &'a Lease, commit: Commit) -> StoreResult<'a, ()> {
        Box::pin(async move {
            let is_done = match turn::append(lease, &commit)? {
                Some(call) => self.one(Ok(call), |row| get(row, "is_done")).await?,
                None => false,
            };
            if !is_done {
                let call = turn::commit(lease, &commit, false);
                self.one(call, |row| turn::committed(lease, &commit, row))
                    .await?;
            }
            self.feed.note(&lease.session);
            Ok(())
        })
    }

    fn commit_and_release<'a>(&'a self, lease: &'a Lease, commit: Commit) -> StoreResult<'a, ()> {
        let call = turn::commit(lease, &commit, true);
        self.one(call, move |row| {
            turn::committed(lease, &commit, row)?;
            self.journals.forget(lease);
            self.feed.note(&lease.session);
            Ok(())
        })
    }

    fn signal<'a>(
        &'a self,
        invocation_id: &'a str,
        signal_id: Option<&'a str>,
        payload: Map<String, Value>,
        now: Timestamp,
    ) -> StoreResult<'a, SignalResult> {
        let call = suspension::signal(invocation_id, signal_id, payload, now);
        self.one(call, suspension::signalled)
    }

    fn suspension<'a>(&'a self, invocation_id: &'a str) -> StoreResult<'a, Option<Suspension>> {
        self.maybe(suspension::suspension(invocation_id), suspension::read)
    }

    fn suspensions(&self, filter: SuspensionFilter) -> StoreResult<'_, Vec<Suspension>> {
        self.each(suspension::suspensions(&filter), suspension::read)
    }

    fn session<'a>(&'a self, session: &'a str) -> StoreResult<'a, Option<SessionInfo>> {
        self.maybe(session::info(session), session::read_info)
    }

    fn history<'a>(
        &'a self,
        session: &'a str,
        from: u64,
        limit: usize,
    ) -> StoreResult<'a, Vec<Value>> {
        let call = session::history(session, from, limit);
        self.all(Ok(call), move |rows| {
            session::read_history(session, from, limit, rows)
        })
    }

    fn notes<'a>(
        &'a self,
        session: &'a str,
        invocation_id: &'a str,
    ) -> StoreResult<'a, Vec<JournalNote>> {
        self.each(inbox::notes(session, invocation_id), inbox::read_note)
    }

    fn audit<'a>(
        &'a self,
        session: &'a str,
        invocation_id: &'a str,
        records: Vec<Value>,
        now: Timestamp,
    ) -> StoreResult<'a, ()> {
        let call = session::audit(session, invocation_id, &records, now);
        self.one(checked(session, call), |row| session::done(session, row))
    }

    fn audited<'a>(
        &'a self,
        session: &'a str,
        from: u64,
        limit: usize,
    ) -> StoreResult<'a, Vec<AuditEntry>> {
        self.each(session::audited(session, from, limit), session::read_audit)
    }

    fn outcomes_since<'a>(
        &'a self,
        session: &'a str,
        cursor: u64,
        limit: usize,
    ) -> StoreResult<'a, Vec<StoredOutcome>> {
        self.each(
            turn::outcomes_since(session, cursor, limit),
            turn::read_outcome,
        )
    }

    fn outcome_of<'a>(
        &'a self,
        session: &'a str,
        entry: u64,
    ) -> StoreResult<'a, Option<StoredOutcome>> {
        self.maybe(turn::outcome_of(session, entry), turn::read_outcome)
    }

    fn list(&self, filter: SessionFilter) -> StoreResult<'_, Vec<SessionInfo>> {
        self.each(session::list(&filter), session::read_info)
    }

    fn set_label<'a>(
        &'a self,
        session: &'a str,
        name: &'a str,
        value: Value,
        now: Timestamp,
    ) -> StoreResult<'a, ()> {
        let call = session::set_label(session, name, &value, now);
        self.one(checked(session, call), |row| session::done(session, row))
    }

    fn set_label_once<'a>(
        &'a self,
        session: &'a str,
        name: &'a str,
        value: Value,
        now: Timestamp,
    ) -> StoreResult<'a, Option<Value>> {
        let call = session::set_label_once(session, name, &value, now);
        self.one(checked(session, call), |row| {
            session::earlier_label(session, row)
        })
    }

    fn set_bound_label<'a>(
        &'a self,
        session: &'a str,
        label: BoundLabel,
    ) -> StoreResult<'a, LabelResult> {
        let call = checked(session, session::set_bound_label(session, &label));
        self.all(call, |rows| session::bound_label(session, rows))
    }

    fn fork<'a>(&'a self, session: &'a str, fork: SessionFork) -> StoreResult<'a, ()> {
        let call = checked(&fork.into, session::fork(session, &fork));
        self.one(call, move |row| session::forked(session, &fork, row))
    }

    fn delete<'a>(&'a self, session: &'a str) -> StoreResult<'a, bool> {
        self.one(Ok(session::delete(session)), move |row| {
            session::deleted(session, row)
        })
    }

    fn prune<'a>(
        &'a self,
        session: &'a str,
        unchanged_since: Timestamp,
        busy_too: bool,
    ) -> StoreResult<'a, bool> {
        let call = session::prune(session, unchanged_since, busy_too);
        self.one(Ok(call), |row| get(row, "removed"))
    }

    fn location<'a>(&'a self, session: &'a str) -> StoreResult<'a, Option<SessionLocation>> {
        self.maybe(session::location(session), session::read_location)
    }

    fn export<'a>(
        &'a self,
        session: &'a str,
        mut sink: Box<dyn RecordSink>,
    ) -> StoreResult<'a, bool> {
        Box::pin(async move {
            let read = self.export_record(session, &mut *sink).await?;
            Ok(read.is_some())
        })
    }

    fn import<'a>(
        &'a self,
        session: &'a str,
        arrival: RecordArrival,
        mut record: Box<dyn RecordSource>,
    ) -> StoreResult<'a, ImportResult> {
        Box::pin(async move { self.import_record(session, &arrival, &mut *record).await })
    }

    fn mark_moved<'a>(
        &'a self,
        lease: &'a Lease,
        hash: RecordHash,
        to: &'a str,
    ) -> StoreResult<'a, bool> {
        Box::pin(self.mark_as_moved(lease, hash, to))
    }

    fn mark_arrived<'a>(&'a self, session: &'a str) -> StoreResult<'a, bool> {
        let call = transfer::mark_arrived(session);
        self.one(Ok(call), move |row| transfer::arrived(session, row))
    }

    fn version(&self) -> StoreResult<'_, Option<u64>> {
        let snapshot = self.snapshot();
        Box::pin(async { snapshot.await.map(Some) })
    }

    fn ready(&self) -> StoreResult<'_, ()> {
        let shared = Arc::clone(&self.link.shared);
        Box::pin(self.link.run(async move { shared.ready().await }))
    }

    fn verify<'a>(&'a self, session: Option<&'a str>) -> StoreResult<'a, IntegrityReport> {
        self.all(Ok(verify::verify(session)), verify::report)
    }

    fn repair(&self, now: Timestamp) -> StoreResult<'_, RepairReport> {
        let repaired = self.all(Ok(repair::repair(now)), repair::report);
        Box::pin(async move {
            let mut report = repaired.await?;
            report.remaining = self.verify(None).await?.faults;
            Ok(report)
        })
    }

    fn quarantine(
        &self,
        faults: Vec<IntegrityFault>,
        now: Timestamp,
    ) -> StoreResult<'_, RepairReport> {
        Box::pin(async move {
            let mut report = RepairReport::default();
            for fault in faults {
                let is_moved = match repair::quarantine(&fault, now) {
                    Some(call) => self.one(Ok(call), |row| get(row, "moved")).await?,
                    None => false,
                };
                if is_moved {
                    report.quarantined.push(fault);
                } else {
                    report.remaining.push(fault);
                }
            }
            Ok(report)
        })
    }
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore")
            .field("address", &self.link.shared.address.shown)
            .finish_non_exhaustive()
    }
}

/// The lengths of the journals of the turns that run here.
///
/// A note that is sent again is sought from there on.
#[derive(Debug, Default)]
struct Journals {
    lengths: Mutex<HashMap<String, Journal>>,
}

#[derive(Debug)]
struct Journal {
    epoch: u64,
    invocation: String,
    length: i64,
    /// The order of the batches of notes.
    order: Arc<tokio::sync::Mutex<()>>,
}

impl Journals {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Journal>> {
        self.lengths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn length(&self, lease: &Lease, invocation: &str) -> Option<i64> {
        let lengths = self.lock();
        let journal = lengths.get(&lease.session)?;
        let is_own = journal.epoch == lease.epoch && journal.invocation == invocation;
        is_own.then_some(journal.length)
    }

    fn order(&self, lease: &Lease, invocation: &str) -> Option<Arc<tokio::sync::Mutex<()>>> {
        self.length(lease, invocation)?;
        let lengths = self.lock();
        let journal = lengths.get(&lease.session)?;
        Some(Arc::clone(&journal.order))
    }

    fn set(&self, lease: &Lease, invocation: &str, length: i64) {
        let order = self.order(lease, invocation).unwrap_or_default();
        let journal = Journal {
            epoch: lease.epoch,
            invocation: invocation.to_owned(),
            length,
            order,
        };
        self.lock().insert(lease.session.clone(), journal);
    }

    /// Keeps the length of the journal of an entry that was claimed.
    fn begin(&self, lease: &Lease, claimed: &ClaimedEntry) {
        if let Some(invocation) = &claimed.entry.invocation_id {
            let length = i64::try_from(claimed.notes.len()).unwrap_or(i64::MAX);
            self.set(lease, invocation, length);
        }
    }

    fn forget(&self, lease: &Lease) {
        let mut lengths = self.lock();
        if lengths
            .get(&lease.session)
            .is_some_and(|journal| journal.epoch == lease.epoch)
        {
            lengths.remove(&lease.session);
        }
    }
}
