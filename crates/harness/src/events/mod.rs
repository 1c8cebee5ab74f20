//! The log of the events of sessions, as clients receive them.
//!
//! A server appends what happens in a session before it sends it, and numbers it. A client that was
//! away names the last number that it received and gets what follows, also from a server that was
//! started again. The log repeats what the [store](crate::store) decides and decides nothing itself:
//! a session whose log is lost continues, and its clients read its history anew.
//!
//! The numbers of a session count up from 1. An acceptance and an outcome are logged once, whatever
//! happens between the commit in the store and the append: [`LogPosition`] contains how far the
//! inbox and the outcomes of the session are logged, and changes with the events in one step.

mod memory;

use std::collections::BTreeSet;
use std::sync::Arc;

pub use memory::MemoryEventLog;

use crate::clock::Timestamp;
use crate::store::{Lease, StoreResult};

/// The progress of the log of a session. A log that has not begun has the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogPosition {
    /// The generation of the numbers; 0 if the log has not begun.
    ///
    /// Numbers of events of different generations cannot be compared.
    pub generation: u64,
    /// The number of the last event.
    pub seq: u64,
    /// The last entry of the inbox whose acceptance is logged.
    pub accepted: u64,
    /// The last entry of the inbox whose outcome is logged.
    pub settled: u64,
    /// The cursor of the last outcome that is logged.
    pub cursor: u64,
}

impl LogPosition {
    /// Returns whether the log has begun.
    pub const fn has_begun(&self) -> bool {
        self.generation > 0
    }

    /// Returns whether both have logged the same acceptances and outcomes.
    pub const fn is_level_with(&self, other: &Self) -> bool {
        self.accepted == other.accepted && self.cursor == other.cursor
    }

    /// Sets the last entry whose acceptance is logged.
    #[must_use]
    pub const fn with_accepted(mut self, entry: u64) -> Self {
        self.accepted = entry;
        self
    }

    /// Sets the last outcome that is logged, with its entry.
    #[must_use]
    pub const fn with_outcome(mut self, cursor: u64, entry: u64) -> Self {
        self.cursor = cursor;
        self.settled = entry;
        self
    }
}

/// Events to append to the log of a session, in one step.
#[derive(Clone, Debug, PartialEq)]
pub struct EventBatch {
    /// The position from which the batch was built, and the one after it.
    ///
    /// Nothing is appended if the log is not [level](LogPosition::is_level_with) with the first; a
    /// log that has not begun is level with the default, and begins. `None` appends at any position
    /// of a log that has begun, and changes only the number of the last event.
    pub progress: Option<(LogPosition, LogPosition)>,
    /// The lease of the turn whose events these are.
    ///
    /// `None` for events that repeat what the store contains. With a lease, nothing is appended for an owner that lost the session, or after the outcome of the entry.
    pub lease: Option<Lease>,
    /// The events as JSON texts of clients, each with its inbox entry.
    pub events: Vec<(u64, Arc<str>)>,
    /// The time of the append.
    pub now: Timestamp,
}

/// A numbered event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedEvent {
    /// Its number in the session, from 1.
    pub seq: u64,
    /// The entry of the inbox that it belongs to.
    pub entry: u64,
    /// The event as JSON.
    pub text: Arc<str>,
}

/// A part of the log of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventPage {
    /// The generation of the numbers; 0 if the log has not begun.
    pub generation: u64,
    /// The events, in order.
    pub events: Vec<LoggedEvent>,
    /// The number of the last event that was removed; 0 if none was.
    ///
    /// A reader that has received fewer events has missed some.
    pub removed: u64,
}

/// The state of the notifications that a log receives from other nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListenState {
    /// They arrive.
    Up,
    /// They do not arrive, for this reason; changes are found by polling.
    Down(Arc<str>),
}

/// Stores the events of sessions.
///
/// Each method is one step: it happens as a whole, or not at all.
pub trait EventLog: Send + Sync {
    /// Returns the progress of the log of a session.
    fn position<'a>(&'a self, session: &'a str) -> StoreResult<'a, LogPosition>;

    /// Appends events and returns the new position, or `None` if the log has moved.
    ///
    /// When it returns, the events survive the process. After an append under a lease, also one
    /// without events, earlier owners of the session append nothing any more.
    ///
    /// # Errors
    /// Returns [`StoreError::Fenced`](crate::store::StoreError::Fenced) if the events are of a turn
    /// that another owner has taken over, or whose outcome is logged. A log that does not share the
    /// store refuses an owner after the first append of a later one.
    fn append<'a>(
        &'a self,
        session: &'a str,
        batch: EventBatch,
    ) -> StoreResult<'a, Option<LogPosition>>;

    /// Returns at most `limit` events after a number, fewer if they are large.
    fn since<'a>(
        &'a self,
        session: &'a str,
        after: u64,
        limit: usize,
    ) -> StoreResult<'a, EventPage>;

    /// Returns the last `limit` events whose texts begin with one of these, in order.
    fn latest<'a>(
        &'a self,
        session: &'a str,
        beginnings: &'a [&'a str],
        limit: usize,
    ) -> StoreResult<'a, Vec<LoggedEvent>>;

    /// Returns the number of the first event of the entries after `entry`.
    fn first_after_entry<'a>(
        &'a self,
        session: &'a str,
        entry: u64,
    ) -> StoreResult<'a, Option<u64>>;

    /// Removes events before a time that belong to settled entries, and returns their number.
    ///
    /// One call removes a limited number of events; 0 means that none are left.
    fn trim(&self, before: Timestamp) -> StoreResult<'_, u64>;

    /// Removes the log of a session. A later log of that session has another generation.
    fn delete<'a>(&'a self, session: &'a str) -> StoreResult<'a, ()>;

    /// Returns the sessions whose logs have begun.
    fn sessions(&self) -> StoreResult<'_, Vec<String>>;

    /// Returns a number that differs after another process has changed the log.
    fn foreign_changes(&self) -> StoreResult<'_, u64>;

    /// Waits until followed sessions may have changed, in their logs or in the store.
    ///
    /// `None` if the log cannot wait: its users then compare
    /// [`foreign_changes`](Self::foreign_changes) and
    /// [`Store::version`](crate::store::Store::version). A wait ends after at most about a second.
    /// Its result may name sessions that have not changed; a change is missed by no more than one
    /// wait.
    fn changes<'a>(&'a self, _followed: &'a [String]) -> Option<StoreResult<'a, SessionChanges>> {
        None
    }

    /// Returns the state of the notifications that shorten these waits.
    ///
    /// `None` if there is no address for them, or no attempt to reach it has ended yet.
    fn listening(&self) -> Option<ListenState> {
        None
    }
}

/// The sessions that may have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionChanges {
    /// These.
    Sessions(BTreeSet<String>),
    /// Any.
    Unknown,
}
