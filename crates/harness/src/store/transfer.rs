//! The complete record of a session, as it goes from one store to another.
//!
//! A record is a sequence of [`RecordPart`]s in one order, which is the same in every store: the head,
//! the fields and the labels by their names, the messages, the entries, the notes by their
//! invocations, the suspensions as they came, the audit and what a repair took out. So its hash
//! ([`RecordDigest`]) is the same in every store that keeps the session unchanged.
//!
//! A session moves in four steps, of which each can be repeated after a crash:
//!
//! ```text
//! acquire (source) ─▶ export ─▶ import (target: arriving) ─▶ mark_moved (source) ─▶ mark_arrived (target)
//! ```
//!
//! No store continues a session that is arriving or was moved ([`StoreError::Arriving`],
//! [`StoreError::Moved`]), so at most one store continues it at any time.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::record::{AuditEntry, CancelMode, EntryPayload, OutcomeKind, SuspensionStatus};
use super::{Store, StoreError};
use crate::clock::Timestamp;

/// A part of the complete record of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordPart {
    /// The first part.
    Head(RecordHead),
    /// A field of the state.
    Field {
        /// The name.
        name: String,
        /// The value.
        value: Value,
    },
    /// A label.
    Label {
        /// The name.
        name: String,
        /// The value.
        value: Value,
    },
    /// A message of the history.
    Message {
        /// Its position, from 0.
        seq: u64,
        /// The message.
        message: Value,
    },
    /// An entry of the inbox, settled or not.
    Entry(EntryRecord),
    /// A note of a journal.
    Note {
        /// The invocation of the journal.
        invocation_id: String,
        /// Its position in the journal, from 0.
        seq: u64,
        /// The noted event.
        note: Value,
    },
    /// A suspension in any state.
    Suspension(SuspensionRecord),
    /// A record of the audit.
    Audit(AuditEntry),
    /// A damaged record that a repair took out.
    Quarantined(QuarantineRecord),
}

/// The values of a session that occur once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordHead {
    /// The session.
    pub session: String,
    /// The latest epoch. The hash does not cover it.
    pub epoch: u64,
    /// Whether a commit ever left state.
    pub has_state: bool,
    /// The version of the schema that the fields are in.
    pub schema_version: Option<String>,
    /// The number of messages.
    pub messages: u64,
    /// The number of entries.
    pub entries: u64,
    /// The number of settled entries, which is the position of the latest outcome.
    pub settled: u64,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time of the last change.
    pub updated_at: Timestamp,
}

/// An entry of the inbox with everything that a store keeps of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EntryRecord {
    /// Its position in the inbox, from 1.
    pub entry: u64,
    /// Whether it is a signal.
    pub resumes: bool,
    /// The name under which it may be delivered again.
    pub key: Option<String>,
    /// The hash to which the key is bound.
    pub digest: Option<String>,
    /// The invocation, from when it was begun.
    pub invocation_id: Option<String>,
    /// The mode in which it was asked to end.
    pub cancel: Option<CancelMode>,
    /// The time of acceptance.
    pub accepted_at: Timestamp,
    /// The work to do, until it is a part of the history.
    pub work: Option<EntryPayload>,
    /// The outcome of a settled entry.
    pub outcome: Option<OutcomeRecord>,
}

/// The outcome of an entry. Its cursor is the position of the entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutcomeRecord {
    /// The kind of end.
    pub kind: OutcomeKind,
    /// The position in the history of its first new message.
    pub replies_from: u64,
    /// The position in the history after its last new message.
    pub replies_to: u64,
    /// The error or the descriptor of the signal, if there is one.
    pub body: Value,
    /// The time of the end.
    pub at: Timestamp,
}

/// A suspension of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SuspensionRecord {
    /// The invocation that waits.
    pub invocation_id: String,
    /// The name under which its signal is to come.
    pub signal_id: String,
    /// Information for the sender of the signal.
    pub metadata: Option<Value>,
    /// The progress of the suspension.
    pub status: SuspensionStatus,
    /// The entry that the signal became.
    pub entry: Option<u64>,
    /// The data that the turn needs to resume; `Null` when it is over.
    pub record: Value,
    /// The time from which the turn waits.
    pub since: Timestamp,
}

/// A damaged record in quarantine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantineRecord {
    /// The kind of the record.
    pub record: String,
    /// The position within the session.
    pub position: Option<i64>,
    /// The reason.
    pub reason: String,
    /// The stored row, as far as it could be read.
    pub content: String,
    /// The time of the repair.
    pub at: Timestamp,
}

/// Receives the parts of a record, in order.
///
/// A second [`RecordPart::Head`] begins the record again: the store has read it anew.
pub trait RecordSink: Send {
    /// Receives a part.
    ///
    /// # Errors
    /// Returns an error that ends the reading.
    fn put(&mut self, part: RecordPart) -> Result<(), StoreError>;
}

impl<T: RecordSink> RecordSink for Arc<Mutex<T>> {
    fn put(&mut self, part: RecordPart) -> Result<(), StoreError> {
        let mut sink = self.lock().unwrap_or_else(PoisonError::into_inner);
        sink.put(part)
    }
}

impl RecordSink for Vec<RecordPart> {
    fn put(&mut self, part: RecordPart) -> Result<(), StoreError> {
        if matches!(part, RecordPart::Head(_)) {
            self.clear();
        }
        self.push(part);
        Ok(())
    }
}

/// Supplies the parts of a record, in order.
///
/// A store reads it within a transaction, so a source must not wait for another machine.
pub trait RecordSource: Send {
    /// Goes back to the first part.
    ///
    /// # Errors
    /// Returns an error if the medium fails.
    fn rewind(&mut self) -> Result<(), StoreError>;

    /// Returns the next part, or `None` at the end.
    ///
    /// # Errors
    /// Returns an error if the medium fails.
    fn next_part(&mut self) -> Result<Option<RecordPart>, StoreError>;
}

/// A record in memory.
#[derive(Clone, Debug)]
pub struct RecordParts {
    parts: Vec<RecordPart>,
    next: usize,
}

impl RecordParts {
    /// Creates a source of these parts.
    pub const fn new(parts: Vec<RecordPart>) -> Self {
        Self { parts, next: 0 }
    }
}

impl RecordSource for RecordParts {
    fn rewind(&mut self) -> Result<(), StoreError> {
        self.next = 0;
        Ok(())
    }

    fn next_part(&mut self) -> Result<Option<RecordPart>, StoreError> {
        let part = self.parts.get(self.next).cloned();
        self.next += usize::from(part.is_some());
        Ok(part)
    }
}

/// The SHA-256 of the complete record of a session.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RecordHash([u8; 32]);

impl fmt::Display for RecordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for RecordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Computes the hash of a record from its parts.
///
/// Covers each part as a line of JSON. The epoch is left out: it belongs to the lease.
#[derive(Clone, Debug, Default)]
pub struct RecordDigest {
    sum: Sha256,
    parts: u64,
    bytes: u64,
}

impl RecordDigest {
    /// Adds a part.
    ///
    /// # Errors
    /// Returns an error if the part cannot be serialised.
    pub fn add(&mut self, part: &RecordPart) -> Result<(), StoreError> {
        let line = match part {
            RecordPart::Head(head) => {
                *self = Self::default();
                serde_json::to_vec(&RecordPart::Head(RecordHead {
                    epoch: 0,
                    ..head.clone()
                }))
            }
            part => serde_json::to_vec(part),
        };
        let line = line.map_err(StoreError::unavailable)?;
        self.sum.update(&line);
        self.sum.update(b"\n");
        self.parts += 1;
        self.bytes += line.len() as u64 + 1;
        Ok(())
    }

    /// Returns the hash of the parts, or `None` if there are none.
    pub fn hash(&self) -> Option<RecordHash> {
        let hash = self.sum.clone().finalize();
        (self.parts > 0).then(|| RecordHash(hash.into()))
    }

    /// Returns the length of the parts as lines of JSON.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl RecordSink for RecordDigest {
    fn put(&mut self, part: RecordPart) -> Result<(), StoreError> {
        self.add(&part)
    }
}

/// Computes the hash of a session's record; `None` if there is no such session.
///
/// # Errors
/// Returns the errors of [`Store::export`].
pub async fn record_hash(
    store: &dyn Store,
    session: &str,
) -> Result<Option<RecordHash>, StoreError> {
    let digest = Arc::new(Mutex::new(RecordDigest::default()));
    let is_found = store.export(session, Box::new(Arc::clone(&digest))).await?;
    let digest = digest.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(digest.hash().filter(|_| is_found))
}

/// The origin and hash of a record that another store receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordArrival {
    /// The address of the store that it comes from, without a password.
    pub from: String,
    /// The hash of the record.
    pub hash: RecordHash,
}

/// The result of [`import`](Store::import).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImportResult {
    /// The session is there and arriving.
    Arriving,
    /// An equal session was there and can be continued.
    Equal,
    /// Another session of that id is there. Nothing was changed.
    Different,
    /// The session had moved to another address than that of the record.
    ///
    /// The store at that address continues it, so the record may be of an older backup. Nothing was
    /// changed.
    Elsewhere,
}

/// The store that continues a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionLocation {
    /// This one.
    Here {
        /// The owner of a lease, and its end.
        lease: Option<(String, Timestamp)>,
    },
    /// Another one: the session was moved.
    Moved {
        /// The address of the other store.
        to: String,
    },
    /// Another one, until the session has arrived here.
    Arriving {
        /// The address of the other store.
        from: String,
    },
}

/// The beginnings of the names of owners that mark a location.
const MOVED: &str = "moved:";
const ARRIVING: &str = "arriving:";

impl SessionLocation {
    /// The beginnings of the owners that mark a location.
    pub const MARKS: [&'static str; 2] = [MOVED, ARRIVING];

    /// Returns the location that a session with this owner and end of its lease has.
    ///
    /// A store keeps the location as a lease that never ends: earlier versions of a program then
    /// refuse to continue the session as well.
    pub fn from_lease(lease: Option<(&str, Timestamp)>) -> Self {
        if let Some((owner, _)) = lease {
            if let Some(to) = owner.strip_prefix(MOVED) {
                return Self::Moved { to: to.to_owned() };
            }
            if let Some(from) = owner.strip_prefix(ARRIVING) {
                return Self::Arriving {
                    from: from.to_owned(),
                };
            }
        }
        Self::Here {
            lease: lease.map(|(owner, until)| (owner.to_owned(), until)),
        }
    }

    /// Returns the owner that marks a session as moved to an address.
    pub fn moved_owner(to: &str) -> String {
        format!("{MOVED}{}", shortened(to))
    }

    /// Returns the owner that marks a session as arriving from an address.
    pub fn arriving_owner(from: &str) -> String {
        format!("{ARRIVING}{}", shortened(from))
    }

    /// Returns the location if it is another store.
    pub fn elsewhere(self) -> Option<Self> {
        match self {
            Self::Here { .. } => None,
            other => Some(other),
        }
    }

    /// Refuses a session that another store continues.
    ///
    /// # Errors
    /// Returns [`StoreError::Moved`] or [`StoreError::Arriving`].
    pub fn check(self, session: &str) -> Result<(), StoreError> {
        let session = session.to_owned();
        match self {
            Self::Here { .. } => Ok(()),
            Self::Moved { to } => Err(StoreError::Moved { session, to }),
            Self::Arriving { from } => Err(StoreError::Arriving { session, from }),
        }
    }

    /// Returns whether a record from an address may replace the session.
    ///
    /// That is so if it was on its way here, or had gone to that address and comes back.
    pub fn permits_arrival(&self, origin: &str) -> bool {
        match self {
            Self::Here { .. } => false,
            Self::Moved { to } => *to == shortened(origin),
            Self::Arriving { .. } => true,
        }
    }
}

/// Cuts an address so that it fits into the name of an owner.
fn shortened(address: &str) -> &str {
    const LONGEST: usize = 3_000;
    let mut end = LONGEST.min(address.len());
    while !address.is_char_boundary(end) {
        end -= 1;
    }
    address.get(..end).unwrap_or_default()
}
