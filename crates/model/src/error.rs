//! What can go wrong with a model, in categories that never change.

use std::time::Duration;

use logue_message::ChatMessage;

/// The kind of a failure; its text is stable and each has a page under `docs/errors`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Category {
    /// The key is missing, wrong or not allowed to do this.
    Authentication,
    /// The server cannot be reached, fails, or breaks off.
    Unavailable,
    /// The server does not know the model.
    InvalidModel,
    /// The server knows the model but has not loaded it yet.
    ModelNotLoaded,
    /// Too many requests, or no quota left.
    RateLimit,
    /// The server answers something that is no answer.
    InvalidResponse,
    /// The server refuses the request as malformed.
    InvalidRequest,
    /// The message holds a kind of content that the provider cannot take.
    UnsupportedContentBlock,
    /// The answer is not what the response schema asks for.
    StructuredOutputInvalid,
    /// A request differs from the recorded one.
    ReplayMismatch,
    /// The recording holds no answer to a further request.
    ReplayExhausted,
    /// The recording itself cannot be read.
    RecordingInvalid,
    /// The recording of a live run cannot be written.
    RecordingWriteFailed,
}

impl Category {
    /// Every category.
    pub const ALL: &'static [Self] = &[
        Self::Authentication,
        Self::Unavailable,
        Self::InvalidModel,
        Self::ModelNotLoaded,
        Self::RateLimit,
        Self::InvalidResponse,
        Self::InvalidRequest,
        Self::UnsupportedContentBlock,
        Self::StructuredOutputInvalid,
        Self::ReplayMismatch,
        Self::ReplayExhausted,
        Self::RecordingInvalid,
        Self::RecordingWriteFailed,
    ];

    /// The stable text of the category.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Authentication => "provider_authentication",
            Self::Unavailable => "provider_unavailable",
            Self::InvalidModel => "provider_invalid_model",
            Self::ModelNotLoaded => "provider_model_not_loaded",
            Self::RateLimit => "provider_rate_limit",
            Self::InvalidResponse => "provider_invalid_response",
            Self::InvalidRequest => "provider_invalid_request",
            Self::UnsupportedContentBlock => "provider_unsupported_content_block",
            Self::StructuredOutputInvalid => "structured_output_invalid",
            Self::ReplayMismatch => "replay_mismatch",
            Self::ReplayExhausted => "replay_exhausted",
            Self::RecordingInvalid => "recording_invalid",
            Self::RecordingWriteFailed => "recording_write_failed",
        }
    }

    /// Whether the same request may succeed later without a change.
    pub const fn is_transient(self) -> bool {
        matches!(
            self,
            Self::Unavailable | Self::ModelNotLoaded | Self::RateLimit
        )
    }
}

impl std::fmt::Display for Category {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A failed request: its category, what happened, and what to do about it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    /// The stable kind.
    pub category: Category,
    /// What happened, with the server's own words where it gave any.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
    /// Whether the same request may succeed later without a change: as the category says, unless the
    /// server says that waiting does not help.
    pub transient: bool,
    /// How long the server asks to wait.
    pub retry_after: Option<Duration>,
    /// The answer, where the model gave one and only what came behind it failed.
    pub answer: Option<Box<ChatMessage>>,
}

impl ProviderError {
    /// An error of `category`.
    pub fn new(category: Category, message: impl Into<String>) -> Self {
        Self {
            category,
            message: message.into(),
            help: None,
            transient: category.is_transient(),
            retry_after: None,
            answer: None,
        }
    }

    /// The same with what to do.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}
