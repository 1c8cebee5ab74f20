//! Inputs and outputs of a store.
//!
//! The structs are exhaustive on purpose: implementations of a store build and take them apart, and
//! must notice a new field. Enums that may grow are `#[non_exhaustive]`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::transfer::SessionLocation;
use crate::clock::Timestamp;

/// The work that an entry of the inbox requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EntryPayload {
    /// A turn that a message begins.
    Message {
        /// The message.
        message: Value,
    },
    /// A turn that resumes after its signal came.
    Resume {
        /// The invocation that waits.
        invocation_id: String,
        /// The fields that the signal carries.
        payload: Map<String, Value>,
    },
    /// A failed turn that continues from its part of the history.
    Continue {
        /// The invocation that failed.
        invocation_id: String,
        /// The position in the history of the message that began it, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        said: Option<u64>,
        /// The length of the history at its failure.
        upto: u64,
        /// The calls that may not be repeated without a person.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        guarded: Vec<Value>,
        /// The fields of the signal with which it resumed, if it did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decision: Option<Map<String, Value>>,
        /// The ids of calls in the history that run first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        open: Vec<String>,
    },
    /// A payload that was damaged and is in quarantine. Its turn fails.
    Quarantined,
}

impl EntryPayload {
    /// Returns the invocation that continues; a message begins a new one.
    pub fn invocation_id(&self) -> Option<&str> {
        match self {
            Self::Message { .. } | Self::Quarantined => None,
            Self::Resume { invocation_id, .. } | Self::Continue { invocation_id, .. } => {
                Some(invocation_id)
            }
        }
    }
}

/// An entry to put into the inbox.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEntry {
    /// The work to do.
    pub work: EntryPayload,
    /// The name under which the same entry may be delivered again without being done again.
    pub key: Option<String>,
    /// The hash of the work; a key is bound to the first one.
    pub digest: Option<String>,
    /// The settled entry that this one tries again, with its key and its signal.
    pub retries: Option<u64>,
    /// Whether to refuse while another entry waits or runs.
    pub only_if_idle: bool,
    /// The required number of settled entries, while no other one waits or runs.
    pub only_after: Option<u64>,
    /// The required time of creation of the session, as it was read.
    ///
    /// The entry is refused if the session was removed since, also if another one has its id.
    pub only_created_at: Option<Timestamp>,
    /// The mode in which the running entry is to end for this one.
    pub cancel: Option<CancelMode>,
    /// The time of acceptance.
    pub now: Timestamp,
}

/// The result of putting an entry into the inbox.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum EnqueueResult {
    /// It is in the inbox.
    Entry {
        /// Its position in the session's inbox, from 1.
        entry: u64,
        /// Whether it was put now; otherwise its key was known.
        is_new: bool,
        /// The number of entries in front of it.
        ahead: u64,
    },
    /// Another entry waits or runs, and idleness was required.
    Busy,
    /// The session was removed, or is another one with the same id.
    OtherSession,
    /// The key is bound to an entry with another hash.
    OtherWork {
        /// That entry.
        entry: u64,
    },
    /// Another caller tried the entry again, or the session has continued.
    Superseded,
}

/// A label for a session as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundLabel {
    /// The name of the label.
    pub name: String,
    /// The value of the label.
    pub value: Value,
    /// The required time of creation of the session.
    ///
    /// The label is refused if the session was removed since, also if another one has its id.
    pub only_created_at: Timestamp,
    /// Whether a label of the name that the session has already stays.
    pub only_if_new: bool,
    /// The time of the change.
    pub now: Timestamp,
}

/// The result of setting a [`BoundLabel`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum LabelResult {
    /// The session has the label.
    Set,
    /// The session has this earlier value, which stays.
    Kept(Value),
    /// The session was removed, or is another one with the same id.
    OtherSession,
}

impl LabelResult {
    /// Returns the result in the required session, whose earlier value may stay.
    pub fn from_earlier(earlier: Option<Value>) -> Self {
        earlier.map_or(Self::Set, Self::Kept)
    }
}

/// The policy for the messages of a turn that is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelMode {
    /// Completed messages become history.
    Interrupt,
    /// Only its started calls and their results become history.
    Rollback,
}

/// The progress of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EntryState {
    /// The entry has not begun.
    Waiting,
    /// It runs, or its owner died.
    Running,
    /// Its outcome is stored.
    Settled,
}

/// An entry of the inbox.
#[derive(Clone, Debug, PartialEq)]
pub struct InboxEntry {
    /// Its position in the session's inbox, from 1.
    pub entry: u64,
    /// The work to do; a settled message that became history is not kept twice.
    pub work: Option<EntryPayload>,
    /// The name under which it may be delivered again.
    pub key: Option<String>,
    /// The progress of the entry.
    pub state: EntryState,
    /// The invocation, from when it was begun.
    pub invocation_id: Option<String>,
    /// The time of acceptance.
    pub accepted_at: Timestamp,
}

/// An exclusive lease on a session's inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The session.
    pub session: String,
    /// The lease owner; a lease is valid for this name only.
    pub owner: String,
    /// The number under which everything is written; a later owner has a higher one.
    pub epoch: u64,
}

/// The result of [`acquire`](super::Store::acquire).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseResult {
    /// The session is the caller's.
    Lease(Lease),
    /// Another owner has it.
    Held {
        /// The other owner.
        owner: String,
        /// Until when, unless they renew it.
        until: Timestamp,
    },
}

/// The result of [`claim_next`](super::Store::claim_next).
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedEntry {
    /// The entry.
    pub entry: InboxEntry,
    /// Whether an earlier owner had begun it and died.
    pub recovered: bool,
    /// The notes of that owner, in order.
    pub notes: Vec<Value>,
    /// The mode in which it was asked to end, if it was.
    pub cancel: Option<CancelMode>,
}

/// A turn that was begun.
#[derive(Clone, Debug, PartialEq)]
pub struct BegunTurn {
    /// The lease under which it runs.
    pub lease: Lease,
    /// The entry that it processes.
    pub claimed: ClaimedEntry,
    /// The session under that lease, if it was read.
    ///
    /// A record that cannot be read does not keep a turn from beginning: it fails the turn.
    pub info: Option<SessionInfo>,
}

/// The result of [`begin`](super::Store::begin).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BeginResult {
    /// The session is the caller's, and its next entry runs.
    Turn(Box<BegunTurn>),
    /// Nothing waits; the session was not taken.
    Idle,
    /// Another owner has it.
    Held {
        /// The other owner.
        owner: String,
        /// Until when, unless they renew it.
        until: Timestamp,
    },
}

/// A note of the journal.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalNote {
    /// Its position in the journal of its invocation, from 0.
    pub seq: u64,
    /// The noted event.
    pub note: Value,
}

/// A record of what was decided about a call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Its position in the audit of its session, from 0.
    pub seq: u64,
    /// The invocation that the call belongs to.
    pub invocation_id: String,
    /// The decision and its source.
    pub record: Value,
    /// The time of recording.
    pub at: Timestamp,
}

/// A change of a session that happens as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Commit {
    /// The invocation that it is made by.
    pub invocation_id: String,
    /// The length of the history before the commit.
    pub expected_seq: u64,
    /// The messages to append to it.
    pub messages: Vec<Value>,
    /// The other fields that changed, with their new values.
    pub fields: Map<String, Value>,
    /// The version of the schema that they are in.
    pub schema_version: Option<String>,
    /// The disposition of the running entry; `None` saves in the middle of a turn.
    pub settle: Option<Disposition>,
    /// The time of the commit.
    pub now: Timestamp,
}

/// The disposition of the running entry, and of the suspension that it resumed.
///
/// If the commit appends messages, the first of them is the entry's own, and the entry does not
/// keep it a second time.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Disposition {
    /// It ended; a suspension that it resumed is over.
    Done {
        /// The outcome of the entry.
        outcome: NewOutcome,
        /// Whether its journal is kept: it holds what did not become history.
        keep_journal: bool,
        /// Whether the suspension that it resumed is kept for another attempt.
        keep_suspension: bool,
    },
    /// It waits for a signal; a suspension that it resumed is replaced.
    Suspended {
        /// The new suspension.
        suspension: NewSuspension,
        /// The outcome to report.
        outcome: NewOutcome,
    },
    /// It goes back to the head of the inbox, as if it had never begun.
    Requeue,
}

/// An outcome to store.
#[derive(Clone, Debug, PartialEq)]
pub struct NewOutcome {
    /// The kind of end.
    pub kind: OutcomeKind,
    /// The position in the history of its first new message.
    ///
    /// The new messages reach to the end of the commit.
    pub replies_from: u64,
    /// Whatever else is to be known: the error, the descriptor of the signal.
    pub body: Value,
}

/// The kind of end of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OutcomeKind {
    /// The turn reached its end.
    Completed,
    /// It failed. The history holds its calls if one of them was started, and else nothing of it.
    Errored,
    /// It waits for a signal.
    Suspended,
    /// It was asked to end, or its owner died.
    Cancelled,
}

/// A stored outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredOutcome {
    /// Its position among the session's outcomes, from 1: the cursor after it.
    pub cursor: u64,
    /// The entry that ended.
    pub entry: u64,
    /// The invocation.
    pub invocation_id: String,
    /// Whether the entry was a signal.
    pub resumed: bool,
    /// The kind of end.
    pub kind: OutcomeKind,
    /// The position in the history of its first new message.
    pub replies_from: u64,
    /// The position in the history after its last new message.
    pub replies_to: u64,
    /// Whatever else is to be known.
    pub body: Value,
    /// The time of the end.
    pub at: Timestamp,
}

/// A suspension to store.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSuspension {
    /// The name under which its signal is to come.
    pub signal_id: String,
    /// Information for the sender of the signal.
    pub metadata: Option<Value>,
    /// Everything that the turn needs to resume.
    pub record: Value,
}

/// The progress of a suspension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SuspensionStatus {
    /// It waits for its signal.
    Suspended,
    /// The signal came; its entry is in the inbox or runs.
    Signalled,
    /// The turn resumed and ended, failed or not, or waits for another signal.
    Resumed,
}

/// A stored suspension.
#[derive(Clone, Debug, PartialEq)]
pub struct Suspension {
    /// The invocation that waits.
    pub invocation_id: String,
    /// The session.
    pub session: String,
    /// The name under which its signal is to come.
    pub signal_id: String,
    /// Information for the sender of the signal.
    pub metadata: Option<Value>,
    /// The progress of the suspension.
    pub status: SuspensionStatus,
    /// The entry that the signal became.
    pub entry: Option<u64>,
    /// The data that the turn needs to resume.
    ///
    /// `Null` in lists, and when the suspension is over.
    pub record: Value,
    /// The time from which the turn waits.
    pub since: Timestamp,
}

/// The result of a signal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SignalResult {
    /// It is in the inbox of the session.
    Entry {
        /// The session.
        session: String,
        /// The entry.
        entry: u64,
        /// Whether it was put now; otherwise the suspension was signalled before.
        is_new: bool,
    },
    /// No turn waits under that id.
    Unknown,
}

/// A session to create from a prefix of another one.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionFork {
    /// The id of the new session.
    pub into: String,
    /// The number of messages to copy.
    pub upto: u64,
    /// The messages after them.
    pub messages: Vec<Value>,
    /// The turns that wait for a signal in the new session, by their invocations.
    pub suspended: Vec<(String, NewSuspension)>,
    /// The first entry of its inbox.
    pub work: Option<EntryPayload>,
    /// The time of creation.
    pub now: Timestamp,
}

impl SessionFork {
    /// Creates a fork with the first `upto` messages.
    pub fn new(upto: u64, into: impl Into<String>, now: Timestamp) -> Self {
        Self {
            into: into.into(),
            upto,
            messages: Vec::new(),
            suspended: Vec::new(),
            work: None,
            now,
        }
    }
}

/// A filter for the suspensions to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SuspensionFilter {
    /// Of one session only.
    pub session: Option<String>,
    /// Of one signal only.
    pub signal_id: Option<String>,
    /// In one state only.
    pub status: Option<SuspensionStatus>,
    /// Whether those of sessions that another store continues are left out.
    ///
    /// Their signals are refused here.
    pub is_usable: bool,
}

/// A filter for the sessions to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// Those whose id begins so.
    pub prefix: Option<String>,
    /// The maximum number of sessions; all by default.
    pub limit: Option<usize>,
    /// Whether only those with entries that are not settled are listed.
    pub is_pending: bool,
}

/// The data of a session without its messages.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionInfo {
    /// Its id.
    pub session: String,
    /// The number of messages of its history.
    pub seq: u64,
    /// The other fields of its state.
    pub fields: Map<String, Value>,
    /// The version of the schema that they are in.
    pub schema_version: Option<String>,
    /// Whether a commit ever left state; otherwise the session has an inbox only.
    ///
    /// The end of a turn without effect leaves none: failed, cancelled or put back, with neither
    /// messages nor fields.
    pub has_state: bool,
    /// The labels set on it.
    pub labels: Map<String, Value>,
    /// The latest epoch.
    pub epoch: u64,
    /// The position of the latest outcome.
    pub cursor: u64,
    /// The number of entries that are not settled; 0 if another store continues the session.
    pub pending: u64,
    /// The store that continues the session; `None` if this one does.
    pub elsewhere: Option<SessionLocation>,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time of the last change.
    pub updated_at: Timestamp,
}

/// The findings of a check of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntegrityReport {
    /// The number of sessions checked.
    pub sessions: u64,
    /// The number of messages checked.
    pub messages: u64,
    /// The violations, each with its place.
    pub faults: Vec<IntegrityFault>,
}

/// A violation that a check of the store found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IntegrityFault {
    /// The session; `None` if the fault is of the store as a whole.
    pub session: Option<String>,
    /// The kind of the record: `message`, `entry`, `work`, `note`, `suspension`, `outcome`, `audit`,
    /// `field`, `label`, `session`, `index`, `file`, or `page` for what no repair can mend.
    pub record: &'static str,
    /// The position within the session, from 0 for messages and from 1 for entries.
    pub position: Option<u64>,
    /// The name of a field or label, or the invocation of a note or suspension.
    pub name: Option<String>,
    /// A description of the violation.
    pub problem: String,
}

impl IntegrityFault {
    /// Creates a fault of the store as a whole.
    pub fn new(record: &'static str, problem: impl Into<String>) -> Self {
        Self {
            session: None,
            record,
            position: None,
            name: None,
            problem: problem.into(),
        }
    }

    /// Sets the session of the record.
    #[must_use]
    pub fn in_session(mut self, session: &str) -> Self {
        self.session = Some(session.to_owned());
        self
    }

    /// Sets the name of the record.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Sets the position of the record.
    #[must_use]
    pub const fn at(mut self, position: u64) -> Self {
        self.position = Some(position);
        self
    }
}

impl std::fmt::Display for IntegrityFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(session) = &self.session {
            write!(f, "`{session}`: ")?;
        }
        f.write_str(self.record)?;
        if let Some(position) = self.position {
            write!(f, " {position}")?;
        }
        write!(f, ": {}", self.problem)
    }
}

/// The result of a repair of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// The records that were moved to quarantine, with the reasons.
    pub quarantined: Vec<IntegrityFault>,
    /// The indexes and tables that were built again.
    pub rebuilt: Vec<String>,
    /// The records that are missing. Placeholders take the places that others refer to.
    pub lost: Vec<IntegrityFault>,
    /// The faults that remain.
    pub remaining: Vec<IntegrityFault>,
}
