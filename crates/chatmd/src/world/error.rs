//! Errors of a world.

use std::fmt;

use logue_source::DiagnosticCode;

/// The reason why requested data is not available.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorldError {
    /// Kind of the reason.
    pub kind: WorldErrorKind,
    /// Reason in one sentence without a period.
    pub message: String,
    /// Remedies, each in one sentence.
    pub help: Vec<String>,
    /// Whether a later attempt may succeed without a change.
    pub is_transient: bool,
}

impl WorldError {
    /// Creates an error of that kind.
    pub fn new(kind: WorldErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            help: Vec::new(),
            is_transient: false,
        }
    }

    /// Sets whether a later attempt may succeed without a change.
    #[must_use]
    pub fn with_transience(mut self, is_transient: bool) -> Self {
        self.is_transient = is_transient;
        self
    }

    /// Adds a remedy.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }
}

impl fmt::Display for WorldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for WorldError {}

/// The kind of a [`WorldError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WorldErrorKind {
    /// The document was not found.
    NotFound,
    /// The path leads out of the roots.
    OutsideRoots,
    /// The document is not UTF-8 text.
    NotUtf8,
    /// The document exceeds the size limit.
    TooLarge,
    /// The world does not support such requests.
    Unsupported,
    /// Access to the host is not permitted.
    Denied,
    /// The agent cannot run, or failed.
    Agent,
    /// A payload file of the transcript (ChatMD §7.3) is missing.
    PayloadMissing,
    /// The content of a payload file does not match the hash in its name.
    PayloadChanged,
    /// The place of the payload files is not a directory beside the transcript.
    PayloadFolder,
    /// Any other reason.
    Other,
}

impl WorldErrorKind {
    /// Returns the code of diagnostics with this reason.
    pub const fn code(self) -> DiagnosticCode {
        match self {
            Self::NotFound | Self::Other => DiagnosticCode::MdDocumentUnreadable,
            Self::OutsideRoots => DiagnosticCode::OutsideRoots,
            Self::NotUtf8 => DiagnosticCode::SourceNotUtf8,
            Self::TooLarge => DiagnosticCode::SourceTooLarge,
            Self::Unsupported => DiagnosticCode::MdUnsupported,
            Self::Denied => DiagnosticCode::NetworkDenied,
            Self::Agent => DiagnosticCode::MdAgentFailed,
            Self::PayloadMissing => DiagnosticCode::MdPayloadMissing,
            Self::PayloadChanged => DiagnosticCode::MdPayloadChanged,
            Self::PayloadFolder => DiagnosticCode::MdPayloadFolder,
        }
    }
}

pub(super) fn unsupported(message: &str) -> WorldError {
    WorldError::new(WorldErrorKind::Unsupported, message)
}
