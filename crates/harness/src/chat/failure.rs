//! Failures of a chat outside its graph, under the names of the contract.

use std::error::Error;
use std::time::Duration;

use logue_message::{ChatMessage, ShapeError};

use crate::classification::{Classifier, ErrorBucket};
use crate::store::StoreError;
use logue_graph::EngineError;

use super::options::ErrorMessages;
use super::outcome::{ChatTurnOutcome, ErroredTurn};
use super::unrecorded::SignalUnrecorded;

/// The category of a turn that was asked to end.
pub(super) const TURN_CANCELLED: &str = "turn_cancelled";

/// The category of a write to a store that is only read.
const READ_ONLY: &str = "store_read_only";

/// The remedy for damage to the store.
const REPAIR: &str =
    "verify the store (`logue sessions verify`); then repair it or restore a backup";

/// An error of a turn before it has a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) category: String,
    pub(super) diagnostic: String,
    /// The remedy and the time to wait before it, if known.
    pub(super) help: Option<String>,
    pub(super) retry_after: Option<Duration>,
    /// Whether the store was away or damaged, so that nothing is decided about the turn.
    pub(super) transient: bool,
    /// Whether a stored record is damaged, so that the session waits for a repair.
    pub(super) damaged: bool,
}

impl Failure {
    pub(super) fn new(category: &str, diagnostic: impl Into<String>) -> Self {
        Self {
            category: category.to_owned(),
            diagnostic: diagnostic.into(),
            help: None,
            retry_after: None,
            transient: false,
            damaged: false,
        }
    }

    /// A record of the session is damaged, so that its turn can never run.
    pub(super) fn damaged(diagnostic: &str) -> Self {
        Self {
            help: Some(REPAIR.to_owned()),
            ..Self::new("session_load_failed", diagnostic)
        }
    }

    /// A failure of the store.
    fn from_store(category: &str, error: &StoreError) -> Self {
        let (category, help) = match error {
            StoreError::Damaged(_) => (category, Some(REPAIR)),
            StoreError::ReadOnly(_) => (READ_ONLY, Some(StoreError::READ_ONLY_HELP)),
            StoreError::Moved { .. } => ("session_moved", Some(StoreError::MOVED_HELP)),
            StoreError::Arriving { .. } => ("session_arriving", Some(StoreError::ARRIVING_HELP)),
            _ => (category, None),
        };
        let damaged = matches!(error, StoreError::Damaged(_));
        Self {
            transient: damaged || error.is_transient(),
            damaged,
            help: help.map(str::to_owned),
            ..Self::new(category, error.to_string())
        }
    }

    /// The session's id names nothing.
    pub(super) fn unresolved() -> Self {
        Self::new("harness_session_id_unresolved", "the session id is empty")
    }

    /// The message has a shape that no conversation may hold.
    pub(super) fn shape(error: &ShapeError) -> Self {
        Self::new(ShapeError::CATEGORY, error.to_string())
    }

    /// The store did not accept a message, so that nothing has happened.
    pub(super) fn accept(error: &StoreError) -> Self {
        match error {
            StoreError::Unavailable { .. } => Self::from_store("store_unavailable", error),
            StoreError::IdTooLong { .. } => {
                Self::from_store("harness_session_id_unresolved", error)
            }
            _ => Self::load(error),
        }
    }

    /// The store failed while a session was read.
    pub(super) fn load(error: &StoreError) -> Self {
        Self::from_store("session_load_failed", error)
    }

    /// The store failed while something was written.
    pub(super) fn save(error: &StoreError, fallback: &str) -> Self {
        let category = match error {
            error if error.is_conflict() => "session_write_conflict",
            StoreError::Damaged(_) => "session_load_failed",
            _ => fallback,
        };
        Self::from_store(category, error)
    }

    /// The graph failed.
    pub(super) fn engine(error: &EngineError) -> Self {
        Self {
            help: error.help().map(str::to_owned),
            retry_after: error.retry_after(),
            transient: is_of_absent_store(error) || SignalUnrecorded::is_cause_of(error),
            ..Self::new(error.derived_category(), error.diagnostic())
        }
    }

    /// The outcome that it is.
    pub(super) fn outcome(
        self,
        classifier: &dyn Classifier,
        replies: &dyn ErrorMessages,
        invocation_id: Option<String>,
    ) -> ChatTurnOutcome {
        let bucket: ErrorBucket = classifier.classify(&self.category);
        let words = replies.reply(bucket, &self.category, &self.diagnostic);
        ChatTurnOutcome::Errored(ErroredTurn {
            error_bucket: bucket,
            reply: ChatMessage::system(words),
            error_category: self.category,
            diagnostic: self.diagnostic,
            help: self.help,
            retry_after: self.retry_after,
            resumable: false,
            transient: self.transient && !self.damaged,
            damaged: self.damaged,
            invocation_id,
            path: None,
        })
    }
}

/// Returns whether the graph failed because the store was unavailable for a journal note.
fn is_of_absent_store(error: &EngineError) -> bool {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(link) = next {
        if let Some(error) = link.downcast_ref::<StoreError>() {
            return error.is_transient();
        }
        next = link.source();
    }
    false
}
