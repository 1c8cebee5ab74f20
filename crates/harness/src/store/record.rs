//! What a store is given and gives back.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::clock::Timestamp;

/// What an entry of the inbox asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EntryPayload {
    /// A turn that a message begins.
    Message {
        /// The message.
        message: Value,
    },
    /// A turn that goes on after its signal came.
    Resume {
        /// The invocation that waits.
        invocation_id: String,
        /// What the signal carries.
        payload: Map<String, Value>,
    },
}

/// An entry to put into the inbox.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEntry {
    /// What is to be done.
    pub work: EntryPayload,
    /// The name under which the same entry may be delivered again without being done again.
    pub key: Option<String>,
    /// Whether to refuse while another entry waits or runs.
    pub only_if_idle: bool,
    /// Whether the entry that runs is to end for this one.
    pub cancel: Option<CancelMode>,
    /// When it was accepted.
    pub now: Timestamp,
}

/// What became of an entry that was to be put.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum EnqueueResult {
    /// It is in the inbox.
    Entry {
        /// Its position in the session's inbox, from 1.
        entry: u64,
        /// Whether it was put now; otherwise its key was known.
        fresh: bool,
        /// How many entries are in front of it.
        ahead: u64,
    },
    /// Another entry waits or runs, and this one was to be put only if none does.
    Busy,
}

/// What becomes of the messages of a turn that is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelMode {
    /// What was completed becomes history.
    Interrupt,
    /// Nothing of it becomes history.
    Rollback,
}

/// Where an entry is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EntryState {
    /// Nobody has begun it.
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
    /// What is to be done; a settled message that became history is not kept twice.
    pub work: Option<EntryPayload>,
    /// The name under which it may be delivered again.
    pub key: Option<String>,
    /// Where it is.
    pub state: EntryState,
    /// The invocation, from when it was begun.
    pub invocation_id: Option<String>,
    /// When it was accepted.
    pub accepted_at: Timestamp,
}

/// The right to work a session's inbox off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The session.
    pub session: String,
    /// Who has it.
    pub owner: String,
    /// The number under which everything is written; a later owner has a higher one.
    pub epoch: u64,
}

/// What [`acquire`](super::Store::acquire) gives.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseResult {
    /// The session is the caller's.
    Lease(Lease),
    /// Somebody else has it.
    Held {
        /// Who.
        owner: String,
        /// Until when, unless they renew it.
        until: Timestamp,
    },
}

/// What [`begin`](super::Store::begin) gives.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedEntry {
    /// The entry.
    pub entry: InboxEntry,
    /// Whether an earlier owner had begun it and died.
    pub recovered: bool,
    /// What that owner had noted, in order.
    pub notes: Vec<Value>,
    /// Whether it was asked to end.
    pub cancel: Option<CancelMode>,
}

/// A note of the journal.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalNote {
    /// Its position in the journal of its invocation, from 0.
    pub seq: u64,
    /// What happened.
    pub note: Value,
}

/// A record of what was decided about a call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditEntry {
    /// Its position in the audit of its session, from 0.
    pub seq: u64,
    /// The invocation that the call belongs to.
    pub invocation_id: String,
    /// What was decided, and by what.
    pub record: Value,
    /// When it was recorded.
    pub at: Timestamp,
}

/// A change of a session that happens as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Commit {
    /// The invocation that it is made by.
    pub invocation_id: String,
    /// How long the history is before.
    pub expected_seq: u64,
    /// What is appended to it.
    pub messages: Vec<Value>,
    /// The other fields that changed, with their new values.
    pub fields: Map<String, Value>,
    /// The version of the schema that they are in.
    pub schema_version: Option<String>,
    /// What becomes of the running entry; `None` saves in the middle of a turn.
    pub settle: Option<Disposition>,
    /// When it happens.
    pub now: Timestamp,
}

/// What becomes of the running entry, and of the suspension that it resumed. Where the commit appends
/// messages, the first of them is the entry's own, and the entry does not keep it a second time.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Disposition {
    /// It ended; a suspension that it resumed is over.
    Done {
        /// How.
        outcome: NewOutcome,
        /// Whether its journal is kept: it holds what did not become history.
        keep_journal: bool,
    },
    /// It waits for a signal; a suspension that it resumed is replaced.
    Suspended {
        /// What waits.
        suspension: NewSuspension,
        /// How it is told.
        outcome: NewOutcome,
    },
    /// It goes back to the head of the inbox, as if it had never begun.
    Requeue,
}

/// An outcome to store.
#[derive(Clone, Debug, PartialEq)]
pub struct NewOutcome {
    /// How the entry ended.
    pub kind: OutcomeKind,
    /// Where in the history its own new messages begin; they reach to the end of the commit.
    pub replies_from: u64,
    /// Whatever else is to be known: the error, the descriptor of the signal.
    pub body: Value,
}

/// How an entry ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OutcomeKind {
    /// The turn reached its end.
    Completed,
    /// It failed; the history is as it was.
    Errored,
    /// It waits for a signal.
    Suspended,
    /// It was asked to end, or its owner died.
    Cancelled,
}

/// A stored outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredOutcome {
    /// Its position among the session's outcomes, from 1: the cursor behind it.
    pub cursor: u64,
    /// The entry that ended.
    pub entry: u64,
    /// The invocation.
    pub invocation_id: String,
    /// Whether the entry was a signal.
    pub resumed: bool,
    /// How it ended.
    pub kind: OutcomeKind,
    /// Where in the history its own new messages begin.
    pub replies_from: u64,
    /// Where they end.
    pub replies_to: u64,
    /// Whatever else is to be known.
    pub body: Value,
    /// When.
    pub at: Timestamp,
}

/// A suspension to store.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSuspension {
    /// The name under which its signal is to come.
    pub signal_id: String,
    /// What the giver of the signal should know.
    pub metadata: Option<Value>,
    /// Everything that the turn needs to go on.
    pub record: Value,
}

/// Where a suspension is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SuspensionStatus {
    /// It waits for its signal.
    Suspended,
    /// The signal came; its entry is in the inbox or runs.
    Signalled,
    /// The turn went on and ended, failed or not, or waits for another signal.
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
    /// What the giver of the signal should know.
    pub metadata: Option<Value>,
    /// Where it is.
    pub status: SuspensionStatus,
    /// The entry that the signal became.
    pub entry: Option<u64>,
    /// Everything that the turn needs to go on; `Null` in lists, and when it is over.
    pub record: Value,
    /// Since when.
    pub since: Timestamp,
}

/// What a signal did.
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
        fresh: bool,
    },
    /// No turn waits under that id.
    Unknown,
}

/// Which suspensions to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SuspensionFilter {
    /// Of one session only.
    pub session: Option<String>,
    /// Of one signal only.
    pub signal_id: Option<String>,
    /// In one state only.
    pub status: Option<SuspensionStatus>,
}

/// Which sessions to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// Those whose id begins so.
    pub prefix: Option<String>,
    /// At most so many; all, if it is not said.
    pub limit: Option<usize>,
}

/// What is known of a session without its messages.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionInfo {
    /// Its id.
    pub session: String,
    /// How many messages its history has.
    pub seq: u64,
    /// The other fields of its state.
    pub fields: Map<String, Value>,
    /// The version of the schema that they are in.
    pub schema_version: Option<String>,
    /// Whether anything was ever committed that is more than the end of a turn without effect (failed,
    /// cancelled or put back, and neither messages nor fields): otherwise it has an inbox only.
    pub has_state: bool,
    /// What was noted beside it.
    pub labels: Map<String, Value>,
    /// The latest epoch.
    pub epoch: u64,
    /// The position of the latest outcome.
    pub cursor: u64,
    /// How many entries are not settled.
    pub pending: u64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// What a check of the store found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntegrityReport {
    /// How many sessions were looked at.
    pub sessions: u64,
    /// How many messages.
    pub messages: u64,
    /// What is wrong, with its place.
    pub faults: Vec<String>,
}
