//! The port through which sessions become durable.
//!
//! A [`Store`] keeps, for each session, six things:
//!
//! - the **inbox**: the pending work, in the order in which it was accepted. A user's message and a
//!   signal are entries alike ([`EntryPayload`]), so one queue says what comes next;
//! - the **lease**: the owner that may process the inbox, its deadline and its epoch. Each new
//!   owner gets a higher epoch, and later attempts of an earlier owner are refused
//!   ([`StoreError::Fenced`]). The owner is compared too, because a store may lose the latest lease
//!   in a crash and give its epoch again;
//! - the **history**: messages in an append-only log, and the other fields of the state;
//! - the **journal** of the turn that runs: what has happened in it and is not yet history;
//! - **suspensions** and **outcomes**: what waits for a signal, and how every entry ended;
//! - the **audit**: what was decided about calls of tools, and by what. It is only ever added to, and
//!   goes when its session goes.
//!
//! A session that was moved to another store stays readable. Every operation that would continue it is
//! refused with [`StoreError::Moved`], or [`StoreError::Arriving`] in the other store until the move is
//! complete ([`SessionLocation`]).
//!
//! Every method is one transaction: it happens as a whole and is durable when it returns, or it did
//! not happen. None of them holds anything between calls, so a turn of minutes locks nothing.
//!
//! Leases are an exception: a store may make [`begin`](Store::begin), [`renew`](Store::renew) and
//! [`release`](Store::release) durable with the next durable operation only, of any session. Until then
//! nothing that is stored depends on them: a crash that loses one loses no note and no commit, and the
//! owner of a lost lease is refused.
//!
//! ```text
//! enqueue ─▶ inbox ─▶ begin ─▶ journal … ─▶ commit ─▶ history, outcome
//!                       ▲                     └────▶ suspension ─▶ signal ─▶ inbox
//!             renew while it takes
//! ```
//!
//! Nothing here is of one database: positions are numbers that count up within a session, and all
//! times are the caller's.

mod current_history;
mod error;
mod layer;
mod leave;
mod memory;
#[cfg(feature = "system")]
mod process_leases;
mod record;
mod transfer;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

pub use current_history::current_history;
pub use error::StoreError;
pub use layer::StoreLayer;
#[cfg(feature = "system")]
pub(crate) use leave::{LeaveReason, note_left};
pub use memory::MemoryStore;
pub use process_leases::{LeaseClock, ProcessLeases};
pub use record::{
    AuditEntry, BeginResult, BegunTurn, BoundLabel, CancelMode, ClaimedEntry, Commit, Disposition,
    EnqueueResult, EntryPayload, EntryState, InboxEntry, IntegrityFault, IntegrityReport,
    JournalNote, LabelResult, Lease, LeaseResult, NewEntry, NewOutcome, NewSuspension, OutcomeKind,
    RepairReport, SessionFilter, SessionFork, SessionInfo, SignalResult, StoredOutcome, Suspension,
    SuspensionFilter, SuspensionStatus,
};
pub use transfer::{
    EntryRecord, ImportResult, OutcomeRecord, QuarantineRecord, RecordArrival, RecordDigest,
    RecordHash, RecordHead, RecordPart, RecordParts, RecordSink, RecordSource, SessionLocation,
    SuspensionRecord, record_hash,
};

use crate::clock::Timestamp;
use logue_graph::BoxFuture;

/// Returns the name of the clock of an owner: the text after the last `@`, up to a `/`.
///
/// Owners without one have the same clock.
pub fn clock_of(owner: &str) -> &str {
    let clock = owner.rsplit_once('@').map_or("", |(_, clock)| clock);
    clock.split_once('/').map_or(clock, |(clock, _)| clock)
}

/// Returns whether two names of owners are of one holder.
///
/// A holder takes its own lease at once.
///
/// A holder is named by the text without an acquisition, which a `#` begins and the clock ends:
/// `a#1@clock` and `a#2@clock` are two acquisitions by one holder.
pub fn is_same_holder(one: &str, other: &str) -> bool {
    fn holder(owner: &str) -> (&str, Option<&str>) {
        let parts = owner.rsplit_once('@');
        let name = parts.map_or(owner, |(name, _)| name);
        let holder = name.rsplit_once('#').map_or(name, |(holder, _)| holder);
        (holder, parts.map(|(_, clock)| clock))
    }
    holder(one) == holder(other)
}

/// The maximum length of the id of a new session, in bytes.
///
/// The turn of a file has an id with the path of the file.
pub const MAX_SESSION_ID_BYTES: usize = 8_192;

/// The label of a session of which a repair has lost records.
///
/// What the lost ones forbade, or which calls they had begun, is not known any more.
pub const LOST_LABELS: &str = "labels_lost";

/// Checks the id of a session that is to be created.
///
/// # Errors
/// [`StoreError::NotFound`] if it is empty, [`StoreError::IdTooLong`] if it is longer than
/// [`MAX_SESSION_ID_BYTES`].
pub fn check_session_id(session: &str) -> Result<(), StoreError> {
    match session.len() {
        0 => Err(StoreError::NotFound {
            what: "session ``".to_owned(),
        }),
        1..=MAX_SESSION_ID_BYTES => Ok(()),
        bytes => Err(StoreError::IdTooLong { bytes }),
    }
}

/// The future that every method of a store returns.
pub type StoreResult<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Keeps sessions. See the [module](self) for what it keeps and what each method promises.
///
/// A store that wraps another one implements [`StoreLayer`] instead.
pub trait Store: Send + Sync {
    /// Puts an entry at the end of the inbox, and creates a missing session.
    ///
    /// An entry whose key the session has seen before is not put again: the first one is returned,
    /// settled or not, with `is_new` false, and nothing else happens. With
    /// [`NewEntry::only_if_idle`] an entry is refused while another one waits or runs, and
    /// with [`NewEntry::only_after`] if the session has continued as well. With
    /// [`NewEntry::cancel`] the running entry is asked to end in the same transaction. With
    /// [`NewEntry::only_created_at`] no missing session is created, and the entry is refused with
    /// [`EnqueueResult::OtherSession`] unless the session has that time of creation.
    ///
    /// A key is bound to the [`NewEntry::digest`] of its first entry: another one is refused with
    /// [`EnqueueResult::OtherWork`]. With [`NewEntry::retries`] the entry takes the place of a
    /// settled one: its key and its signal lead to the new entry from now on. That happens only once
    /// for an entry. One that is neither named by the key, nor signalled, nor the last of its session
    /// gives [`EnqueueResult::Superseded`].
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the id of the session is empty: no session has such an id.
    fn enqueue<'a>(&'a self, session: &'a str, entry: NewEntry) -> StoreResult<'a, EnqueueResult>;

    /// An entry of the inbox, settled or not.
    fn entry<'a>(&'a self, session: &'a str, entry: u64) -> StoreResult<'a, Option<InboxEntry>>;

    /// Returns the entry to which a key leads, settled or not.
    fn entry_with_key<'a>(
        &'a self,
        session: &'a str,
        key: &'a str,
    ) -> StoreResult<'a, Option<InboxEntry>>;

    /// The entries that are not settled, the next one first.
    fn inbox<'a>(&'a self, session: &'a str) -> StoreResult<'a, Vec<InboxEntry>>;

    /// Asks the owner of the running entry to end it; the latest request counts.
    ///
    /// Nothing happens, and `false` is returned, if none runs.
    fn request_cancel<'a>(&'a self, session: &'a str, mode: CancelMode) -> StoreResult<'a, bool>;

    /// Asks that one entry ends, also if it waits: then it ends when it is claimed, before anything runs.
    ///
    /// Nothing happens, and `false` is returned, if it is settled or missing.
    fn request_cancel_of<'a>(
        &'a self,
        session: &'a str,
        entry: u64,
        mode: CancelMode,
    ) -> StoreResult<'a, bool>;

    /// Takes a free session for `owner` until `now + ttl`.
    ///
    /// A session is free if it has no lease or its lease is over. The epoch is higher than every
    /// earlier one, also of a deleted session of this id. A [holder](is_same_holder) that still has it
    /// gets a new epoch too. A lease is over from `now + ttl` on.
    ///
    /// Every acquisition should have another name: after a crash of the database, only the name
    /// distinguishes a lease from a later one with its epoch.
    ///
    /// Times are compared only between owners of one clock, which their names state
    /// ([`clock_of`]). A lease by another clock is held until it is released or
    /// [taken over](Self::take_over).
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is no such session.
    fn acquire<'a>(
        &'a self,
        session: &'a str,
        owner: &'a str,
        now: Timestamp,
        ttl: Duration,
    ) -> StoreResult<'a, LeaseResult>;

    /// Takes a session from an owner that is gone, before its lease is over.
    ///
    /// As [`acquire`](Self::acquire), except that a lease of `gone` that ends at `until` counts as
    /// over. One that was renewed or taken meanwhile does not.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is no such session.
    fn take_over<'a>(
        &'a self,
        session: &'a str,
        owner: &'a str,
        gone: (&'a str, Timestamp),
        now: Timestamp,
        ttl: Duration,
    ) -> StoreResult<'a, LeaseResult>;

    /// Extends the lease and returns any request to end the running entry.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if the session has another epoch or owner, or was given back. An expired
    /// lease that was not taken may be renewed.
    fn renew<'a>(
        &'a self,
        lease: &'a Lease,
        now: Timestamp,
        ttl: Duration,
    ) -> StoreResult<'a, Option<CancelMode>>;

    /// Gives the session back. Nothing happens if it is no longer the lease's.
    fn release<'a>(&'a self, lease: &'a Lease) -> StoreResult<'a, ()>;

    /// Marks the next entry as running under an invocation.
    ///
    /// A turn that resumes after a signal runs under the id that it had, given by
    /// [`InboxEntry::invocation_id`].
    ///
    /// If an entry is already marked so, its owner died: that one is returned with its journal and
    /// the invocation id that it had, and nothing is changed but that the entry is this lease's now.
    /// `None` if nothing waits.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] as with [`renew`](Self::renew).
    fn claim_next<'a>(
        &'a self,
        lease: &'a Lease,
        invocation_id: &'a str,
        now: Timestamp,
    ) -> StoreResult<'a, Option<ClaimedEntry>>;

    /// Takes a free session and marks its next entry as running.
    ///
    /// As [`acquire`](Self::acquire), [`claim_next`](Self::claim_next) and
    /// [`session`](Self::session) in one transaction, except that the session is left free if nothing
    /// waits. A layer may make two operations of it, which leave a lease if they are interrupted, and
    /// not read the session.
    ///
    /// # Errors
    /// As of `acquire` and `claim_next`.
    fn begin<'a>(
        &'a self,
        session: &'a str,
        owner: &'a str,
        invocation_id: &'a str,
        now: Timestamp,
        ttl: Duration,
    ) -> StoreResult<'a, BeginResult>;

    /// Adds notes to the journal of the running entry. Durable when it returns.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] as with [`renew`](Self::renew); [`StoreError::NotFound`] if another
    /// invocation runs, or none.
    fn journal<'a>(
        &'a self,
        lease: &'a Lease,
        invocation_id: &'a str,
        notes: Vec<Value>,
    ) -> StoreResult<'a, ()>;

    /// Ends a turn, or saves in the middle of one: everything in `commit` at once. A save in the
    /// middle leaves the journal as it is, and may be made while nothing runs.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if the lease is not the session's latest; [`StoreError::Conflict`] if
    /// the history has not the expected length; [`StoreError::NotFound`] if another invocation runs,
    /// or none does and one is to be settled; [`StoreError::Exists`] if it is to wait for a signal
    /// under an id that another turn waits under. Nothing is changed then.
    fn commit<'a>(&'a self, lease: &'a Lease, commit: Commit) -> StoreResult<'a, ()>;

    /// Ends a turn and gives the session back in one transaction.
    ///
    /// The lease is kept if the commit is refused. A layer may make two operations of it, of which
    /// the second one may fail: the lease then expires.
    ///
    /// # Errors
    /// As of [`commit`](Self::commit).
    fn commit_and_release<'a>(&'a self, lease: &'a Lease, commit: Commit) -> StoreResult<'a, ()>;

    /// Consumes the latest suspension of an invocation: marks it as signalled and puts the payload into the inbox of its
    /// session. One that was signalled before is not consumed again; its first entry is returned. Of
    /// an invocation that waits for the second time, the second suspension is meant.
    ///
    /// With a `signal_id` it must be the one that the suspension waits for: a signal of an earlier
    /// suspension of the same invocation, delivered late, gives the entry that it became then.
    fn signal<'a>(
        &'a self,
        invocation_id: &'a str,
        signal_id: Option<&'a str>,
        payload: Map<String, Value>,
        now: Timestamp,
    ) -> StoreResult<'a, SignalResult>;

    /// A suspension by the invocation that waits; its latest one.
    fn suspension<'a>(&'a self, invocation_id: &'a str) -> StoreResult<'a, Option<Suspension>>;

    /// Suspensions without their records, in the order in which they came.
    fn suspensions(&self, filter: SuspensionFilter) -> StoreResult<'_, Vec<Suspension>>;

    /// The data of a session without its messages.
    fn session<'a>(&'a self, session: &'a str) -> StoreResult<'a, Option<SessionInfo>>;

    /// At most `limit` messages of the history from position `from` on.
    fn history<'a>(
        &'a self,
        session: &'a str,
        from: u64,
        limit: usize,
    ) -> StoreResult<'a, Vec<Value>>;

    /// The notes of an invocation, in order.
    ///
    /// Notes that the end of its turn removed are missing.
    fn notes<'a>(
        &'a self,
        session: &'a str,
        invocation_id: &'a str,
    ) -> StoreResult<'a, Vec<JournalNote>>;

    /// Adds records to the audit of a session, in this order.
    ///
    /// Creates a missing session: agents of its prompt may run before its first message is
    /// accepted. Durable when it returns. No lease is needed: a decision is true under any owner.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the id of the session is empty.
    fn audit<'a>(
        &'a self,
        session: &'a str,
        invocation_id: &'a str,
        records: Vec<Value>,
        now: Timestamp,
    ) -> StoreResult<'a, ()>;

    /// At most `limit` records of a session's audit from position `from` on. A fork begins with none.
    fn audited<'a>(
        &'a self,
        session: &'a str,
        from: u64,
        limit: usize,
    ) -> StoreResult<'a, Vec<AuditEntry>>;

    /// At most `limit` outcomes after `cursor`, in the order of their commits.
    ///
    /// The first cursor is 0.
    fn outcomes_since<'a>(
        &'a self,
        session: &'a str,
        cursor: u64,
        limit: usize,
    ) -> StoreResult<'a, Vec<StoredOutcome>>;

    /// The outcome of an entry, if it is settled.
    fn outcome_of<'a>(
        &'a self,
        session: &'a str,
        entry: u64,
    ) -> StoreResult<'a, Option<StoredOutcome>>;

    /// Sessions, the one that changed last first, and then in the order of their ids. What changes a
    /// session is an entry, a commit and a label.
    fn list(&self, filter: SessionFilter) -> StoreResult<'_, Vec<SessionInfo>>;

    /// Sets a label of a session outside its state, such as its agent's file.
    ///
    /// Creates a missing session.
    fn set_label<'a>(
        &'a self,
        session: &'a str,
        name: &'a str,
        value: Value,
        now: Timestamp,
    ) -> StoreResult<'a, ()>;

    /// Sets a label of a session unless the session has one of this name.
    ///
    /// Returns the earlier value, which stays, or `None` if this call set the label. Of several calls
    /// at the same time one sets it. Creates a missing session.
    fn set_label_once<'a>(
        &'a self,
        session: &'a str,
        name: &'a str,
        value: Value,
        now: Timestamp,
    ) -> StoreResult<'a, Option<Value>>;

    /// Sets a label of the session that was read, and of no other one.
    ///
    /// Never creates a session. Of several calls at the same time with
    /// [`BoundLabel::only_if_new`] one sets the label.
    fn set_bound_label<'a>(
        &'a self,
        session: &'a str,
        label: BoundLabel,
    ) -> StoreResult<'a, LabelResult>;

    /// Creates a session from a prefix of another one.
    ///
    /// It receives the first messages, the fields and the labels of the source, and what the fork
    /// adds to them.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the source is missing, [`StoreError::Exists`] if the new session
    /// or one of its waiting invocations exists, [`StoreError::Conflict`] if the history is shorter.
    /// Nothing is created then.
    fn fork<'a>(&'a self, session: &'a str, fork: SessionFork) -> StoreResult<'a, ()>;

    /// Removes a session and all its data, regardless of its owner. `false` if there was none.
    ///
    /// # Errors
    /// Returns [`StoreError::Moved`] if the session was moved: without its record, a message with a
    /// known key would begin a turn here, beside the other store. [`prune`](Self::prune) removes it.
    fn delete<'a>(&'a self, session: &'a str) -> StoreResult<'a, bool>;

    /// Removes a session that has not changed since a time.
    ///
    /// Returns `false` if it was kept or is missing.
    ///
    /// A session with pending entries or a turn that waits for a signal is kept unless `busy_too`.
    fn prune<'a>(
        &'a self,
        session: &'a str,
        unchanged_since: Timestamp,
        busy_too: bool,
    ) -> StoreResult<'a, bool>;

    /// Returns the store that continues a session; `None` if there is no such session.
    fn location<'a>(&'a self, session: &'a str) -> StoreResult<'a, Option<SessionLocation>>;

    /// Reads the complete record of a session in one snapshot, in the order of [`RecordPart`].
    ///
    /// Returns `false` if there is no such session.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if a part is not what was written; the sink may have received parts
    /// before it.
    fn export<'a>(&'a self, session: &'a str, sink: Box<dyn RecordSink>) -> StoreResult<'a, bool>;

    /// Creates a session from a complete record, as one that is arriving.
    ///
    /// Positions, ids, keys, cursors and times are those of the record; the epoch is higher than the
    /// record's and every earlier one. A session that is arriving, or was moved to where the record
    /// comes from, is replaced. Another one is compared: it stays as it is, except that an equal one
    /// gets a higher epoch if its own is lower than the record's.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if what was written has another hash than the arrival;
    /// [`StoreError::Exists`] if a turn of another session waits under an invocation of the record.
    /// Nothing is changed then.
    fn import<'a>(
        &'a self,
        session: &'a str,
        arrival: RecordArrival,
        record: Box<dyn RecordSource>,
    ) -> StoreResult<'a, ImportResult>;

    /// Marks a session as moved to another store, if its record still has the hash.
    ///
    /// Returns `false` if it has another one. The lease ends, and no later one is given.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] as with [`renew`](Self::renew).
    fn mark_moved<'a>(
        &'a self,
        lease: &'a Lease,
        hash: RecordHash,
        to: &'a str,
    ) -> StoreResult<'a, bool>;

    /// Makes an arriving session one that this store continues. `false` if it is not arriving.
    fn mark_arrived<'a>(&'a self, session: &'a str) -> StoreResult<'a, bool>;

    /// A number that differs after each change of the store, by any process.
    ///
    /// `None` if the store has none; a caller that follows the store then reads it each time.
    fn version(&self) -> StoreResult<'_, Option<u64>>;

    /// Checks that the store accepts changes, without one.
    ///
    /// Stores whose reads do not show that check what a change requires.
    fn ready(&self) -> StoreResult<'_, ()> {
        let version = self.version();
        Box::pin(async { version.await.map(drop) })
    }

    /// Checks what can be checked of what is stored, of one session or of all: positions without
    /// gaps, no entry settled without its outcome, no suspension without its session, and the
    /// checksum of each record where the store has checksums.
    fn verify<'a>(&'a self, session: Option<&'a str>) -> StoreResult<'a, IntegrityReport>;

    /// Moves damaged records to quarantine and builds the indexes again.
    ///
    /// A placeholder takes the place of a damaged message, so that later messages keep their
    /// positions. A damaged entry ends as failed. Nothing sound is changed. A store whose medium
    /// cannot be damaged finds nothing to repair.
    fn repair(&self, now: Timestamp) -> StoreResult<'_, RepairReport>;

    /// Moves the records of the given faults to quarantine, as [`repair`](Self::repair) does.
    ///
    /// Faults of records that are sound for the store and invalid for its caller. Those that name
    /// no record are returned as remaining.
    fn quarantine(
        &self,
        faults: Vec<IntegrityFault>,
        now: Timestamp,
    ) -> StoreResult<'_, RepairReport>;
}

/// A store that many share.
pub type SharedStore = Arc<dyn Store>;
