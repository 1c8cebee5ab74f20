//! Errors of a store.

use std::error::Error;
use std::sync::Arc;

/// An operation of a store that did not happen.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The lease no longer holds the session: another owner took it, or it was given back.
    #[error(
        "the session `{session}` is no longer this owner's (epoch {current}, this one is {epoch})"
    )]
    Fenced {
        /// The session.
        session: String,
        /// The epoch of the lease that was used.
        epoch: u64,
        /// The current epoch.
        current: u64,
    },
    /// The history is not as long as was expected.
    #[error("the history of `{session}` has {found} messages, not {expected}")]
    Conflict {
        /// The session.
        session: String,
        /// The length that the caller knew.
        expected: u64,
        /// The length that it has.
        found: u64,
    },
    /// There is no such session, entry or suspension.
    #[error("there is no {what}")]
    NotFound {
        /// The missing item, with its name.
        what: String,
    },
    /// The id of a new session is longer than a store accepts.
    #[error(
        "the session id has {bytes} bytes, at most {} are possible",
        super::MAX_SESSION_ID_BYTES
    )]
    IdTooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// There is one already.
    #[error("there is already {what}")]
    Exists {
        /// The existing item, with its name.
        what: String,
    },
    /// The session was moved to another store, which continues it.
    #[error("the session `{session}` was moved to {to}")]
    Moved {
        /// The session.
        session: String,
        /// The address of the other store, without a password.
        to: String,
    },
    /// The session is being moved here from another store.
    #[error("the session `{session}` is being moved here from {from} and cannot be used yet")]
    Arriving {
        /// The session.
        session: String,
        /// The address of the other store, without a password.
        from: String,
    },
    /// The stored data cannot be the data that was written.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// The address names no store.
    #[error("invalid store address `{0}`")]
    InvalidAddress(String),
    /// The file at the address is not a store, and is unchanged.
    #[error("{0}")]
    NotAStore(String),
    /// The store was written by a later version of the program.
    #[error("the store has the format {found}, and this program knows up to {known}")]
    Newer {
        /// The format of the store.
        found: u64,
        /// The latest one that is known here.
        known: u64,
    },
    /// The store is only read: nothing was changed, and nothing can be.
    #[error("{0}")]
    ReadOnly(String),
    /// The medium failed: nothing was changed, or the effect is unknown. Retrying may help.
    #[error("{message}")]
    Unavailable {
        /// A description of the failure.
        message: String,
        /// The error of the medium.
        #[source]
        source: Option<Arc<dyn Error + Send + Sync>>,
    },
}

/// The cause of an [unavailable](StoreError::Unavailable) store that has no space.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct DiskFull(Box<dyn Error + Send + Sync>);

impl StoreError {
    /// The remedy of a store that is only read.
    pub const READ_ONLY_HELP: &str = "make the file and its directory writable, or copy it to a directory that is, and name that \
         with --store";

    /// The remedy of a session that another store continues.
    pub const MOVED_HELP: &str = "name the store that has it now: --store ADDRESS";

    /// The remedy of a session that has not arrived.
    pub const ARRIVING_HELP: &str =
        "run `logue sessions migrate` with the same addresses again to end the move";

    /// A failure of the medium.
    pub fn unavailable(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Unavailable {
            message: error.to_string(),
            source: Some(Arc::new(error)),
        }
    }

    /// A failure of a medium without space, or of a used-up quota.
    pub fn full(message: impl Into<String>, error: impl Error + Send + Sync + 'static) -> Self {
        Self::Unavailable {
            message: message.into(),
            source: Some(Arc::new(DiskFull(Box::new(error)))),
        }
    }

    /// Returns whether the medium has no space.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Unavailable { source: Some(source), .. } if source.is::<DiskFull>())
    }

    /// Returns whether another writer came first, so that the caller's view is old.
    pub const fn is_conflict(&self) -> bool {
        matches!(self, Self::Fenced { .. } | Self::Conflict { .. })
    }

    /// Returns whether only the medium failed, so that a retry may succeed.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}
