//! Session records and the port that their stores implement.

use std::error::Error;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::clock::Timestamp;
use logue_graph::BoxFuture;

/// The state of a session as it is stored.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SessionRecord {
    /// The session.
    pub session_id: String,
    /// The fields that sessions of this graph keep.
    pub state: Map<String, Value>,
    /// The version of the schema that they are in.
    pub schema_version: Option<String>,
    /// Other data that the store requires to be returned.
    ///
    /// The runtime passes it on from a load to the next save.
    pub metadata: Map<String, Value>,
}

impl SessionRecord {
    /// A record without metadata.
    pub fn new(session_id: impl Into<String>, state: Map<String, Value>) -> Self {
        Self {
            session_id: session_id.into(),
            state,
            schema_version: None,
            metadata: Map::new(),
        }
    }

    /// Says in which version of the schema the state is.
    #[must_use]
    pub fn with_schema_version(mut self, version: impl Into<String>) -> Self {
        self.schema_version = Some(version.into());
        self
    }
}

/// A record, and which write of it that was.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedSession {
    /// The record.
    pub record: SessionRecord,
    /// Grows with every save of the session.
    pub version: u64,
}

/// The summary of a session in a list, without its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSummary {
    /// The session.
    pub session_id: String,
    /// The version of the schema that its state is in.
    pub schema_version: Option<String>,
    /// The time of the last save.
    pub updated_at: Timestamp,
}

/// A filter for the sessions to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SummaryFilter {
    /// Those whose id begins so.
    pub prefix: Option<String>,
}

/// The errors of a store of sessions.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionStoreError {
    /// Another process saved the session since it was loaded.
    #[error("session `{session_id}` was modified concurrently")]
    Conflict {
        /// The session.
        session_id: String,
    },
    /// The medium failed.
    #[error("{message}")]
    Failed {
        /// A description of the failure.
        message: String,
        /// The error of the medium.
        #[source]
        source: Option<Arc<dyn Error + Send + Sync>>,
    },
}

impl SessionStoreError {
    /// A failure that is known by its message only.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed {
            message: message.into(),
            source: None,
        }
    }
}

/// The future that every method of a store of sessions returns.
pub type SessionResult<'a, T> = BoxFuture<'a, Result<T, SessionStoreError>>;

/// Keeps the records of sessions: the protocol of the sessions contract, for stores of one's own.
///
/// Each call is a transaction. A save that fails must have changed nothing.
pub trait SessionStore: Send + Sync {
    /// The record of a session; `None` if there is none.
    ///
    /// # Errors
    /// It could not be read.
    fn load<'a>(&'a self, session_id: &'a str) -> SessionResult<'a, Option<LoadedSession>>;

    /// Replaces the record of a session, and gives the version that it has now. If a version is
    /// expected, a record of another one is not replaced; 0 is the version of no record.
    ///
    /// # Errors
    /// It could not be written, or has another version.
    fn save(&self, record: SessionRecord, expected_version: Option<u64>) -> SessionResult<'_, u64>;

    /// Removes a record; one that does not exist is removed already.
    ///
    /// # Errors
    /// It could not be removed.
    fn delete<'a>(&'a self, session_id: &'a str) -> SessionResult<'a, ()>;

    /// The sessions that fit, in the order of their ids.
    ///
    /// # Errors
    /// They could not be read.
    fn list(&self, filter: SummaryFilter) -> SessionResult<'_, Vec<SessionSummary>>;
}

impl<S: SessionStore + ?Sized> SessionStore for Arc<S> {
    fn load<'a>(&'a self, session_id: &'a str) -> SessionResult<'a, Option<LoadedSession>> {
        (**self).load(session_id)
    }

    fn save(&self, record: SessionRecord, expected_version: Option<u64>) -> SessionResult<'_, u64> {
        (**self).save(record, expected_version)
    }

    fn delete<'a>(&'a self, session_id: &'a str) -> SessionResult<'a, ()> {
        (**self).delete(session_id)
    }

    fn list(&self, filter: SummaryFilter) -> SessionResult<'_, Vec<SessionSummary>> {
        (**self).list(filter)
    }
}
