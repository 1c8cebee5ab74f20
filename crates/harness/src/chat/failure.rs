//! What fails in a chat besides its graph, by the names of the contract.

use logue_message::{ChatMessage, ShapeError};

use crate::bucket::{Classifier, ErrorBucket};
use crate::error::EngineError;
use crate::store::StoreError;

use super::options::Replies;
use super::outcome::{ChatTurnOutcome, ErroredTurn};

/// An error of a turn before it has a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) category: String,
    pub(super) diagnostic: String,
}

impl Failure {
    pub(super) fn new(category: &str, diagnostic: impl Into<String>) -> Self {
        Self {
            category: category.to_owned(),
            diagnostic: diagnostic.into(),
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

    /// The store failed while a session was read.
    pub(super) fn load(error: &StoreError) -> Self {
        Self::new("session_load_failed", error.to_string())
    }

    /// The store failed while something was written.
    pub(super) fn save(error: &StoreError, otherwise: &str) -> Self {
        let category = if error.is_conflict() {
            "session_write_conflict"
        } else {
            otherwise
        };
        Self::new(category, error.to_string())
    }

    /// The graph failed.
    pub(super) fn engine(error: &EngineError) -> Self {
        Self::new(error.derived_category(), error.diagnostic())
    }

    /// The outcome that it is.
    pub(super) fn outcome(
        self,
        classifier: &dyn Classifier,
        replies: &dyn Replies,
        invocation_id: Option<String>,
    ) -> ChatTurnOutcome {
        let bucket: ErrorBucket = classifier.classify(&self.category);
        let words = replies.reply(bucket, &self.category, &self.diagnostic);
        ChatTurnOutcome::Errored(ErroredTurn {
            error_bucket: bucket,
            reply: ChatMessage::system(words),
            error_category: self.category,
            diagnostic: self.diagnostic,
            invocation_id,
        })
    }
}
