//! Errors of ports.

use logue_harness::ErrorBucket;

/// An error of a port that the host program implements.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct HostError {
    /// The stable category.
    pub category: String,
    /// The party that can correct it.
    pub bucket: ErrorBucket,
    /// The description.
    pub message: String,
    /// Remedies.
    pub help: Vec<String>,
}

impl HostError {
    /// An error that the user can correct.
    pub fn new(category: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            category: category.into(),
            bucket: ErrorBucket::UserCorrectable,
            message: message.into(),
            help: Vec::new(),
        }
    }

    /// Sets the party that can correct the error.
    #[must_use]
    pub fn with_bucket(mut self, bucket: ErrorBucket) -> Self {
        self.bucket = bucket;
        self
    }

    /// Adds a remedy.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }
}
