//! Provider errors and their stable categories.

use std::time::Duration;

use logue_message::ChatMessage;

/// The kind of a provider failure.
///
/// The text of each category is stable and has a page under `docs/errors`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Category {
    /// The API key is missing, invalid or lacks permission.
    Authentication,
    /// The server is unreachable, fails or ends the connection early.
    Unavailable,
    /// The server does not have the model.
    InvalidModel,
    /// The server has the model but has not loaded it yet.
    ModelNotLoaded,
    /// The account has sent too many requests or has no quota left.
    RateLimit,
    /// The server sent something other than a valid response.
    InvalidResponse,
    /// The request is invalid or the server rejects it.
    InvalidRequest,
    /// A message contains content that the provider does not support.
    UnsupportedContentBlock,
    /// The response violates the response schema.
    StructuredOutputInvalid,
    /// A request differs from the recorded one.
    ReplayMismatch,
    /// The recording has no response left for the request.
    ReplayExhausted,
    /// The recording cannot be read.
    RecordingInvalid,
    /// The recording cannot be written.
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

    /// Returns the stable text of the category.
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

    /// Returns whether an unchanged request may succeed later.
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

/// A failed model request, with its category, cause and remedy.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[error("{message}")]
pub struct ProviderError {
    /// The stable category.
    pub category: Category,
    /// The cause, including the server's own error text if there is one.
    pub message: String,
    /// The cause without texts and addresses of the server, if it is known.
    ///
    /// A server may repeat the conversation in its error text.
    pub public_message: Option<String>,
    /// The suggested remedy.
    pub help: Option<String>,
    /// Whether an unchanged request may succeed later.
    ///
    /// The default follows the category; a server may report that waiting does not help.
    pub transient: bool,
    /// The wait that the server requests.
    pub retry_after: Option<Duration>,
    /// The HTTP status of the server's answer, if it is the failure.
    pub status: Option<u16>,
    /// The response, if the model gave one and a later step failed.
    pub answer: Option<Box<ChatMessage>>,
}

impl ProviderError {
    /// Creates an error of `category`.
    pub fn new(category: Category, message: impl Into<String>) -> Self {
        Self {
            category,
            message: message.into(),
            public_message: None,
            help: None,
            transient: category.is_transient(),
            retry_after: None,
            status: None,
            answer: None,
        }
    }

    /// Sets the suggested remedy.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Sets the cause without texts and addresses of the server.
    #[must_use]
    pub(crate) fn with_public(mut self, cause: impl Into<String>) -> Self {
        self.public_message = Some(cause.into());
        self
    }

    /// Declares that the message has no texts and addresses of the server.
    #[must_use]
    pub(crate) fn without_quotes(self) -> Self {
        let cause = self.message.clone();
        self.with_public(cause)
    }
}
