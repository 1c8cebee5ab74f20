//! Error buckets: the reply to the user, and the chance of a retry.

use std::fmt;

/// The three kinds of failure that a chat distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorBucket {
    /// The conversation cannot continue.
    SessionTerminating,
    /// An unchanged message may succeed later.
    RetryableTransient,
    /// The user or the sender of the message must change something.
    UserCorrectable,
}

impl ErrorBucket {
    /// The stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SessionTerminating => "session_terminating",
            Self::RetryableTransient => "retryable_transient",
            Self::UserCorrectable => "user_correctable",
        }
    }

    /// The bucket of that name.
    pub fn parse(name: &str) -> Option<Self> {
        [
            Self::SessionTerminating,
            Self::RetryableTransient,
            Self::UserCorrectable,
        ]
        .into_iter()
        .find(|bucket| bucket.as_str() == name)
    }

    /// The reply to the user, unless the application has its own text.
    ///
    /// Only a user-correctable error repeats the diagnostic, because only there it helps.
    pub fn default_reply(self, diagnostic: &str) -> String {
        match self {
            Self::SessionTerminating => {
                "This conversation can't continue. Please start a new one.".to_owned()
            }
            Self::RetryableTransient => {
                "I had trouble responding. Try again in a moment.".to_owned()
            }
            Self::UserCorrectable => format!(
                "That request couldn't be processed: {diagnostic}. \
                 Please adjust your message and try again."
            ),
        }
    }
}

impl fmt::Display for ErrorBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Chooses the bucket of an error by its category. Any `Fn(&str) -> ErrorBucket` is one.
pub trait Classifier: Send + Sync {
    /// Returns the bucket of a category from [`EngineError::derived_category`].
    ///
    /// [`EngineError::derived_category`]: logue_graph::EngineError::derived_category
    fn classify(&self, category: &str) -> ErrorBucket;
}

impl<F: Fn(&str) -> ErrorBucket + Send + Sync> Classifier for F {
    fn classify(&self, category: &str) -> ErrorBucket {
        self(category)
    }
}

/// The buckets that the harness contract names, and those of the chat's own categories.
///
/// Only categories that are known to pass are transient. An unknown one is permanent: the same
/// message would fail again, and the conversation can continue with another one.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultClassifier;

impl Classifier for DefaultClassifier {
    fn classify(&self, category: &str) -> ErrorBucket {
        match category {
            "session_load_failed"
            | "session_save_failed"
            | "session_state_migration_chain_ambiguous"
            | "session_state_migration_missing"
            | "session_state_migration_failed"
            | "suspension_persistence_failed"
            | "harness_session_id_unresolved"
            | "state_validation_error" => ErrorBucket::SessionTerminating,
            "provider_unavailable"
            | "provider_rate_limit"
            | "provider_model_not_loaded"
            | "provider_timeout"
            | "provider_rate_limited"
            | "harness_signal_subscription_failed"
            | "harness_signal_correlation_failed"
            | "harness_path_classification_ambiguous"
            | "session_write_conflict"
            | "session_arriving"
            | "session_busy"
            | "store_unavailable"
            | "audit_write_failed"
            | "turn_interrupted" => ErrorBucket::RetryableTransient,
            // chat_message_shape_invalid, provider_invalid_request, provider_invalid_response,
            // provider_authentication, provider_invalid_model, structured_output_invalid,
            // turn_cancelled, others of the contract; and the unknown.
            _ => ErrorBucket::UserCorrectable,
        }
    }
}
