//! Errors of starting, saving and running a session's run.

use logue_graph::EngineError;

use super::migration::MigrationError;
use super::record::SessionStoreError;

/// An error around or in a run.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The session could not be read, so the run did not begin.
    #[error("the session `{session_id}` could not be loaded: {cause}")]
    LoadFailed {
        /// The session.
        session_id: String,
        /// The cause of the failure.
        cause: String,
    },
    /// The run reached its end or a save, and the session could not be saved.
    #[error("the session `{session_id}` could not be saved: {source}")]
    SaveFailed {
        /// The session.
        session_id: String,
        /// The error of the store.
        source: SessionStoreError,
    },
    /// Another process saved the session meanwhile.
    #[error("session `{session_id}` was modified concurrently")]
    WriteConflict {
        /// The session.
        session_id: String,
    },
    /// The stored state could not be brought to the version of the graph.
    #[error(transparent)]
    Migration(#[from] MigrationError),
    /// The run suspended and could not be stored; it cannot be resumed.
    #[error("the suspended run could not be stored: {source}")]
    PersistenceFailed {
        /// The error of the store.
        source: SessionStoreError,
    },
    /// The suspended run is missing, unreadable or no longer suspended.
    #[error("the run `{invocation_id}` cannot be resumed: {reason}")]
    RecordInvalid {
        /// The run.
        invocation_id: String,
        /// The reason.
        reason: String,
    },
    /// The payload of the signal does not fit the state. The run still waits.
    #[error("cannot resume the run `{invocation_id}` with this payload: {reason}")]
    PayloadInvalid {
        /// The run.
        invocation_id: String,
        /// The mismatch.
        reason: String,
    },
    /// The run itself failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl SessionError {
    /// The name of the error in the contract.
    ///
    /// For a failed run, it is the category that a caller acts on.
    pub fn category(&self) -> &str {
        match self {
            Self::LoadFailed { .. } => "session_load_failed",
            Self::SaveFailed { .. } => "session_save_failed",
            Self::WriteConflict { .. } => "session_write_conflict",
            Self::Migration(error) => error.category(),
            Self::PersistenceFailed { .. } => "suspension_persistence_failed",
            Self::RecordInvalid { .. } => "suspension_record_invalid",
            Self::PayloadInvalid { .. } => "suspension_resume_payload_invalid",
            Self::Engine(error) => error.derived_category(),
        }
    }

    /// A description of the error for the party that can act on it.
    pub fn diagnostic(&self) -> String {
        match self {
            Self::Engine(error) => error.diagnostic(),
            other => other.to_string(),
        }
    }

    pub(super) fn loading(session_id: &str, cause: impl std::fmt::Display) -> Self {
        Self::LoadFailed {
            session_id: session_id.to_owned(),
            cause: cause.to_string(),
        }
    }

    pub(super) fn saving(session_id: &str, source: SessionStoreError) -> Self {
        let session_id = session_id.to_owned();
        match source {
            SessionStoreError::Conflict { .. } => Self::WriteConflict { session_id },
            source => Self::SaveFailed { session_id, source },
        }
    }
}
