//! Sessions in a SQLite file.

mod audit;
mod column;
mod copy;
mod error;
mod event_log;
mod event_rows;
mod file;
mod fork;
mod inbox;
mod mend;
mod message_body;
mod migration;
#[cfg(test)]
mod plans;
mod quarantine;
mod queue;
mod repair;
mod requests;
mod restore;
mod schema;
mod seal;
mod session;
mod sound;
mod suspension;
mod tally;
mod transfer;
mod turn;
mod verify;

pub(crate) use self::error::search_failure;

pub use self::copy::{RestoreReport, back_up, restore, vacuum};
pub use self::event_log::SqliteEventLog;
pub use self::mend::{is_session_store, mend_schema};

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use logue_harness::Timestamp;
use logue_harness::store::{
    AuditEntry, BeginResult, BoundLabel, CancelMode, ClaimedEntry, Commit, Disposition,
    EnqueueResult, EntryPayload, ImportResult, InboxEntry, IntegrityFault, IntegrityReport,
    JournalNote, LabelResult, Lease, LeaseResult, NewEntry, RecordArrival, RecordHash, RecordSink,
    RecordSource, RepairReport, SessionFilter, SessionFork, SessionInfo, SessionLocation,
    SignalResult, Store, StoreError, StoreResult, StoredOutcome, Suspension, SuspensionFilter,
};
use rusqlite::Connection;
use serde_json::{Map, Value};

use crate::encoding::{stored_work, written};

use self::error::SqliteResult;
use self::file::Access;
use self::queue::{Flush, Pace, Queue};
use self::transfer::Place;
use self::turn::{Change, DispositionRow, OutcomeRow};

/// The time for which a check of the file waits for other processes.
const READY_TIMEOUT: Duration = Duration::from_secs(1);

/// Options for opening a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SqliteOptions {
    /// The maximum wait for other processes that write to the file. The default is 30 seconds.
    pub busy_timeout: Duration,
    /// The number of concurrent read operations. The default is two, the minimum one.
    pub readers: usize,
    /// The maximum size of the file, in bytes; `None` is unlimited.
    pub max_bytes: Option<u64>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            busy_timeout: Duration::from_secs(30),
            readers: 2,
            max_bytes: None,
        }
    }
}

impl SqliteOptions {
    /// Sets the maximum wait for other processes.
    #[must_use]
    pub const fn busy_timeout(mut self, busy_timeout: Duration) -> Self {
        self.busy_timeout = busy_timeout;
        self
    }

    /// Sets the number of readers.
    #[must_use]
    pub const fn readers(mut self, readers: usize) -> Self {
        self.readers = readers;
        self
    }

    /// Sets the maximum size of the file.
    #[must_use]
    pub const fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = Some(bytes);
        self
    }
}

/// A store of sessions in a file that several processes may use concurrently.
///
/// The effect of an operation is on the disk when it returns: the write-ahead log is flushed with
/// each transaction. Concurrent operations share a transaction and so the cost of the flush. The cost
/// of an operation does not depend on the length of the session. Reads do not wait for writes.
///
/// Only its owner can read a new file and the directories that are created for it. While the file is
/// open, `-wal` and `-shm` files beside it are part of it. The file must be on a local disk: network
/// file systems do not provide the required locks.
///
/// The futures run on any executor; threads of the store do the work and end with it. Dropping a
/// future does not cancel an operation that has begun, and its result is then unknown.
#[derive(Debug)]
pub struct SqliteStore {
    // The order matters: the last connection that closes empties the log into the file.
    readers: Queue,
    /// One connection, because each counts the changes by others from its own beginning.
    observer: Queue,
    /// `None` if the file is only read.
    writer: Option<Queue>,
    path: PathBuf,
}

impl SqliteStore {
    /// Opens the file, and creates it and its directories if they are missing.
    ///
    /// A file that cannot be written, or is in a directory that cannot, is read without writing
    /// anything; operations that write fail.
    ///
    /// Blocks, up to [`SqliteOptions::busy_timeout`] while other processes write.
    ///
    /// # Errors
    /// Returns [`StoreError::Damaged`] if the file is not a session store (it stays unchanged),
    /// [`StoreError::Newer`] if a later version created it, [`StoreError::ReadOnly`] if it is missing
    /// and its directory cannot be written, and [`StoreError::Unavailable`] if it cannot be opened or
    /// created for another reason.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_with(path, SqliteOptions::default())
    }

    /// Opens the file with the given options, like [`open`](Self::open).
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self, StoreError> {
        let path = path.as_ref();
        let pages = options.max_bytes.map(|bytes| bytes / file::PAGE);
        if let Some(access) = file::marked_read_only(path) {
            return Self::read_only(path, options, access);
        }
        let conn = match file::open(path, options.busy_timeout, pages) {
            Err(error) if file::permits_reading(path, &error) => {
                return Self::read_only(path, options, file::read_only(path));
            }
            opened => opened?,
        };
        let timeout = options.busy_timeout;
        Ok(Self {
            readers: Queue::to_read(options.readers, path, timeout, Access::ReadWrite)?,
            observer: Queue::to_read(1, path, timeout, Access::ReadWrite)?,
            writer: Some(Queue::to_write(conn, path, timeout, Pace::AtOnce)?),
            path: path.to_owned(),
        })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file that cannot be written.
    fn read_only(path: &Path, options: SqliteOptions, access: Access) -> Result<Self, StoreError> {
        file::check_read_only(path, options.busy_timeout, access)?;
        Ok(Self {
            readers: Queue::to_read(options.readers, path, options.busy_timeout, access)?,
            observer: Queue::to_read(1, path, options.busy_timeout, access)?,
            writer: None,
            path: path.to_owned(),
        })
    }

    fn write<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&Connection) -> SqliteResult<T> + Send + 'static,
    ) -> StoreResult<'_, T> {
        self.write_with(Flush::BeforeAnswer, operation)
    }

    /// Changes the lease of a session, or what its owner does with it.
    ///
    /// A failure of the machine may undo it, and ends its owner too. The entry is claimed again then:
    /// every effect of a turn follows a flushed change.
    fn write_lease<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&Connection) -> SqliteResult<T> + Send + 'static,
    ) -> StoreResult<'_, T> {
        self.write_with(Flush::WithLater, operation)
    }

    fn write_with<T: Send + 'static>(
        &self,
        flush: Flush,
        operation: impl FnOnce(&Connection) -> SqliteResult<T> + Send + 'static,
    ) -> StoreResult<'_, T> {
        match &self.writer {
            Some(writer) => writer.ask(flush, operation),
            None => Box::pin(std::future::ready(Err(file::unwritable(&self.path)))),
        }
    }

    /// Runs an operation after which the log beside the file has no earlier contents.
    fn erase<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&Connection) -> SqliteResult<T> + Send + 'static,
    ) -> StoreResult<'_, T> {
        let erased = self.writer.as_ref().map(Queue::erased);
        self.write(move |conn| {
            let result = operation(conn);
            if let (Ok(_), Some(erased)) = (&result, erased) {
                erased.store(true, Ordering::Relaxed);
            }
            result
        })
    }

    fn read<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&Connection) -> SqliteResult<T> + Send + 'static,
    ) -> StoreResult<'_, T> {
        self.readers.ask(Flush::WithLater, operation)
    }
}

impl Store for SqliteStore {
    fn enqueue<'a>(&'a self, session: &'a str, entry: NewEntry) -> StoreResult<'a, EnqueueResult> {
        let arrival = arrival(entry);
        let session = session.to_owned();
        self.prepared(arrival, move |conn, arrival| {
            inbox::enqueue(conn, &session, arrival)
        })
    }

    fn entry<'a>(&'a self, session: &'a str, entry: u64) -> StoreResult<'a, Option<InboxEntry>> {
        let session = session.to_owned();
        self.read(move |conn| inbox::entry(conn, &session, entry))
    }

    fn entry_with_key<'a>(
        &'a self,
        session: &'a str,
        key: &'a str,
    ) -> StoreResult<'a, Option<InboxEntry>> {
        let (session, key) = (session.to_owned(), key.to_owned());
        self.read(move |conn| inbox::entry_with_key(conn, &session, &key))
    }

    fn inbox<'a>(&'a self, session: &'a str) -> StoreResult<'a, Vec<InboxEntry>> {
        let session = session.to_owned();
        self.read(move |conn| inbox::inbox(conn, &session))
    }

    fn request_cancel<'a>(&'a self, session: &'a str, mode: CancelMode) -> StoreResult<'a, bool> {
        let session = session.to_owned();
        self.write(move |conn| inbox::request_cancel(conn, &session, mode))
    }

    fn request_cancel_of<'a>(
        &'a self,
        session: &'a str,
        entry: u64,
        mode: CancelMode,
    ) -> StoreResult<'a, bool> {
        let session = session.to_owned();
        self.write(move |conn| inbox::request_cancel_of(conn, &session, entry, mode))
    }

    fn acquire<'a>(
        &'a self,
        session: &'a str,
        owner: &'a str,
        now: Timestamp,
        ttl: Duration,
    ) -> StoreResult<'a, LeaseResult> {
        let (session, owner) = (session.to_owned(), owner.to_owned());
        self.write_lease(move |conn| session::acquire(conn, session, owner, None, now, ttl))
    }

    fn take_over<'a>(
        &'a self,
        session: &'a str,
        owner: &'a str,
        (gone, until): (&'a str, Timestamp),
        now: Timestamp,
        ttl: Duration,
    ) -> StoreResult<'a, LeaseResult> {
        let (session, owner) = (session.to_owned(), owner.to_owned());
        let gone = Some((gone.to_owned(), until));
        self.write_lease(move |conn| session::acquire(conn, session, owner, gone, now, ttl))
    }

    fn renew<'a>(
        &'a self,
        lease: &'a Lease,
        now: Timestamp,
        ttl: Duration,
    ) -> StoreResult<'a, Option<CancelMode>> {
        let lease = lease.clone();
        self.write_lease(move |conn| session::renew(conn, &lease, now.after(ttl)))
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> StoreResult<'a, ()> {
        let lease = lease.clone();
        self.write_lease(move |conn| session::release(conn, &lease))
    }

    fn claim_next<'a>(
        &'a self,
        lease: &'a Lease,
        invocation_id: &'a str,
        _now: Timestamp,
    ) -> StoreResult<'a, Option<ClaimedEntry>> {
        let (lease, invocation_id) = (lease.clone(), invocation_id.to_owned());
        self.write_lease(move |conn| inbox::claim_next(conn, &lease, invocation_id))
    }

    fn journal<'a>(
        &'a self,
        lease: &'a Lease,
        invocation_id: &'a str,
        notes: Vec<Value>,
    ) -> StoreResult<'a, ()> {
        let (lease, invocation_id) = (lease.clone(), invocation_id.to_owned());
        let notes: Result<Vec<String>, StoreError> = notes.iter().map(written).collect();
        self.prepared(notes, move |conn, notes| {
            inbox::journal(conn, &lease, invocation_id, &notes)
        })
    }

    fn commit<'a>(&'a self, lease: &'a Lease, commit: Commit) -> StoreResult<'a, ()> {
        let lease = lease.clone();
        self.prepared(change(commit), move |conn, change| {
            turn::commit(conn, &lease, change)
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
        let (session, owner) = (session.to_owned(), owner.to_owned());
        let invocation_id = invocation_id.to_owned();
        self.write_lease(move |conn| session::begin(conn, session, owner, invocation_id, now, ttl))
    }

    fn commit_and_release<'a>(&'a self, lease: &'a Lease, commit: Commit) -> StoreResult<'a, ()> {
        let lease = lease.clone();
        self.prepared(change(commit), move |conn, change| {
            turn::commit(conn, &lease, change)?;
            session::release(conn, &lease)
        })
    }

    fn signal<'a>(
        &'a self,
        invocation_id: &'a str,
        signal_id: Option<&'a str>,
        payload: Map<String, Value>,
        now: Timestamp,
    ) -> StoreResult<'a, SignalResult> {
        let invocation_id = invocation_id.to_owned();
        let signal_id = signal_id.map(str::to_owned);
        let work = stored_work(&EntryPayload::Resume {
            invocation_id: invocation_id.clone(),
            payload,
        });
        self.prepared(work, move |conn, work| {
            suspension::signal(conn, &invocation_id, signal_id, work, now)
        })
    }

    fn suspension<'a>(&'a self, invocation_id: &'a str) -> StoreResult<'a, Option<Suspension>> {
        let invocation_id = invocation_id.to_owned();
        self.read(move |conn| suspension::suspension(conn, invocation_id))
    }

    fn suspensions(&self, filter: SuspensionFilter) -> StoreResult<'_, Vec<Suspension>> {
        self.read(move |conn| suspension::suspensions(conn, filter))
    }

    fn session<'a>(&'a self, session: &'a str) -> StoreResult<'a, Option<SessionInfo>> {
        let session = session.to_owned();
        self.read(move |conn| session::info(conn, &session))
    }

    fn history<'a>(
        &'a self,
        session: &'a str,
        from: u64,
        limit: usize,
    ) -> StoreResult<'a, Vec<Value>> {
        let session = session.to_owned();
        self.read(move |conn| session::history(conn, &session, from, limit))
    }

    fn notes<'a>(
        &'a self,
        session: &'a str,
        invocation_id: &'a str,
    ) -> StoreResult<'a, Vec<JournalNote>> {
        let (session, invocation_id) = (session.to_owned(), invocation_id.to_owned());
        self.read(move |conn| inbox::notes(conn, &session, invocation_id))
    }

    fn audit<'a>(
        &'a self,
        session: &'a str,
        invocation_id: &'a str,
        records: Vec<Value>,
        now: Timestamp,
    ) -> StoreResult<'a, ()> {
        let (session, invocation_id) = (session.to_owned(), invocation_id.to_owned());
        let records: Result<Vec<String>, StoreError> = records.iter().map(written).collect();
        self.prepared(records, move |conn, records| {
            audit::add(conn, &session, invocation_id, &records, now)
        })
    }

    fn audited<'a>(
        &'a self,
        session: &'a str,
        from: u64,
        limit: usize,
    ) -> StoreResult<'a, Vec<AuditEntry>> {
        let session = session.to_owned();
        self.read(move |conn| audit::from(conn, &session, from, limit))
    }

    fn outcomes_since<'a>(
        &'a self,
        session: &'a str,
        cursor: u64,
        limit: usize,
    ) -> StoreResult<'a, Vec<StoredOutcome>> {
        let session = session.to_owned();
        self.read(move |conn| turn::outcomes_since(conn, &session, cursor, limit))
    }

    fn outcome_of<'a>(
        &'a self,
        session: &'a str,
        entry: u64,
    ) -> StoreResult<'a, Option<StoredOutcome>> {
        let session = session.to_owned();
        self.read(move |conn| turn::outcome_of(conn, &session, entry))
    }

    fn list(&self, filter: SessionFilter) -> StoreResult<'_, Vec<SessionInfo>> {
        self.read(move |conn| session::list(conn, &filter))
    }

    fn set_label<'a>(
        &'a self,
        session: &'a str,
        name: &'a str,
        value: Value,
        now: Timestamp,
    ) -> StoreResult<'a, ()> {
        let (session, name) = (session.to_owned(), name.to_owned());
        self.prepared(written(&value), move |conn, value| {
            session::set_label(conn, &session, &name, &value, now)
        })
    }

    fn set_label_once<'a>(
        &'a self,
        session: &'a str,
        name: &'a str,
        value: Value,
        now: Timestamp,
    ) -> StoreResult<'a, Option<Value>> {
        let (session, name) = (session.to_owned(), name.to_owned());
        self.prepared(written(&value), move |conn, value| {
            session::set_label_once(conn, &session, &name, &value, now)
        })
    }

    fn set_bound_label<'a>(
        &'a self,
        session: &'a str,
        label: BoundLabel,
    ) -> StoreResult<'a, LabelResult> {
        let session = session.to_owned();
        self.prepared(written(&label.value), move |conn, value| {
            session::set_bound_label(conn, &session, &label, &value)
        })
    }

    fn fork<'a>(&'a self, session: &'a str, fork: SessionFork) -> StoreResult<'a, ()> {
        let session = session.to_owned();
        self.prepared(fork::Fork::new(fork), move |conn, fork| {
            fork::fork(conn, &session, fork)
        })
    }

    fn delete<'a>(&'a self, session: &'a str) -> StoreResult<'a, bool> {
        let (session, path) = (session.to_owned(), self.path.clone());
        self.erase(move |conn| {
            let is_deleted = session::delete_usable(conn, &session)?;
            // The events repeat the session. Without it, they are of a removal that failed.
            event_log::forget(&path, &session)?;
            Ok(is_deleted)
        })
    }

    fn prune<'a>(
        &'a self,
        session: &'a str,
        unchanged_since: Timestamp,
        busy_too: bool,
    ) -> StoreResult<'a, bool> {
        let (session, path) = (session.to_owned(), self.path.clone());
        self.erase(move |conn| {
            let is_deleted = session::prune(conn, &session, unchanged_since, busy_too)?;
            if is_deleted {
                event_log::forget(&path, &session)?;
            }
            Ok(is_deleted)
        })
    }

    fn location<'a>(&'a self, session: &'a str) -> StoreResult<'a, Option<SessionLocation>> {
        let session = session.to_owned();
        self.read(move |conn| transfer::location(conn, &session))
    }

    fn export<'a>(
        &'a self,
        session: &'a str,
        mut sink: Box<dyn RecordSink>,
    ) -> StoreResult<'a, bool> {
        let (session, path) = (session.to_owned(), self.path.clone());
        self.read(move |conn| transfer::export(conn, Place::new(&path, &session), &mut *sink))
    }

    fn import<'a>(
        &'a self,
        session: &'a str,
        arrival: RecordArrival,
        mut record: Box<dyn RecordSource>,
    ) -> StoreResult<'a, ImportResult> {
        let (session, path) = (session.to_owned(), self.path.clone());
        self.write(move |conn| {
            transfer::import(conn, Place::new(&path, &session), &arrival, &mut *record)
        })
    }

    fn mark_moved<'a>(
        &'a self,
        lease: &'a Lease,
        hash: RecordHash,
        to: &'a str,
    ) -> StoreResult<'a, bool> {
        let (lease, to, path) = (lease.clone(), to.to_owned(), self.path.clone());
        self.write(move |conn| {
            let place = Place::new(&path, &lease.session);
            transfer::mark_moved(conn, place, &lease, hash, &to)
        })
    }

    fn mark_arrived<'a>(&'a self, session: &'a str) -> StoreResult<'a, bool> {
        let session = session.to_owned();
        self.write(move |conn| transfer::mark_arrived(conn, &session))
    }

    fn version(&self) -> StoreResult<'_, Option<u64>> {
        self.observer.ask(Flush::WithLater, |conn| {
            let version: i64 = conn.pragma_query_value(None, "data_version", |row| row.get(0))?;
            Ok(Some(version.unsigned_abs()))
        })
    }

    fn ready(&self) -> StoreResult<'_, ()> {
        Box::pin(async {
            // An empty change takes the lock and checks the identity of the file as others do.
            self.write_lease(|_| Ok(())).await?;
            let path = self.path.clone();
            let read = self.observer.ask(Flush::WithLater, move |_| {
                // The empty change needs no space.
                file::expect_space(&path)?;
                // The pages that other connections have cached hide a damaged file.
                let conn = file::open_reader(&path, READY_TIMEOUT, Access::ReadWrite)?;
                let sessions = "SELECT id FROM session LIMIT 1";
                let mut sessions = conn.prepare(sessions)?;
                sessions.query([])?.next()?;
                Ok(())
            });
            read.await
        })
    }

    fn verify<'a>(&'a self, session: Option<&'a str>) -> StoreResult<'a, IntegrityReport> {
        let (session, path) = (session.map(str::to_owned), self.path.clone());
        self.read(move |conn| {
            let mut report = verify::verify(conn, &path, session.as_deref())?;
            if session.is_none()
                && let Some(problem) = event_log::fault(&path)
            {
                report.faults.push(IntegrityFault::new("events", problem));
            }
            Ok(report)
        })
    }

    fn repair(&self, now: Timestamp) -> StoreResult<'_, RepairReport> {
        let path = self.path.clone();
        self.write(move |conn| {
            let mut report = repair::repair(conn, &path, now)?;
            if event_log::fault(&path).is_some() {
                event_log::remove(&path)?;
                report.rebuilt.push("events".to_owned());
            }
            Ok(report)
        })
    }

    fn quarantine(
        &self,
        faults: Vec<IntegrityFault>,
        now: Timestamp,
    ) -> StoreResult<'_, RepairReport> {
        self.write(move |conn| repair::quarantine(conn, faults, now))
    }
}

impl SqliteStore {
    /// Writes values that the caller's thread has serialised.
    ///
    /// The writer thread then does not serialise values.
    fn prepared<P: Send + 'static, T: Send + 'static>(
        &self,
        ready: Result<P, StoreError>,
        operation: impl FnOnce(&Connection, P) -> SqliteResult<T> + Send + 'static,
    ) -> StoreResult<'_, T> {
        match ready {
            Ok(ready) => self.write(move |conn| operation(conn, ready)),
            Err(refused) => Box::pin(std::future::ready(Err(refused))),
        }
    }
}

fn arrival(entry: NewEntry) -> Result<inbox::Arrival, StoreError> {
    Ok(inbox::Arrival {
        work: stored_work(&entry.work)?,
        resumes: matches!(entry.work, EntryPayload::Resume { .. }),
        key: entry.key,
        digest: entry.digest,
        retries: entry.retries,
        only_if_idle: entry.only_if_idle,
        only_after: entry.only_after,
        only_created_at: entry.only_created_at,
        cancel: entry.cancel,
        now: entry.now,
    })
}

fn change(commit: Commit) -> Result<Change, StoreError> {
    let end = match commit.settle {
        None => None,
        Some(Disposition::Requeue) => Some(DispositionRow::Requeue),
        Some(Disposition::Done {
            outcome,
            keep_journal,
            keep_suspension,
        }) => Some(DispositionRow::Done {
            outcome: OutcomeRow::new(&outcome)?,
            keep_journal,
            keep_suspension,
        }),
        Some(Disposition::Suspended {
            suspension,
            outcome,
        }) => Some(DispositionRow::Suspended {
            outcome: OutcomeRow::new(&outcome)?,
            waiting: suspension::SuspensionRow::new(suspension)?,
        }),
        Some(_) => {
            return Err(StoreError::Unavailable {
                message: "unknown disposition of an entry".to_owned(),
                source: None,
            });
        }
    };
    let fields = commit.fields.iter();
    Ok(Change {
        invocation_id: commit.invocation_id,
        expected_seq: commit.expected_seq,
        messages: commit
            .messages
            .iter()
            .map(message_body::written_message)
            .collect::<Result<_, _>>()?,
        fields: fields
            .map(|(name, value)| Ok((name.clone(), written(value)?)))
            .collect::<Result<_, StoreError>>()?,
        schema_version: commit.schema_version,
        end,
        now: commit.now,
    })
}
