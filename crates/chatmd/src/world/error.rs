//! Errors of a world.

use std::fmt;

use logue_source::DiagnosticCode;

/// Why something cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldError {
    /// The kind of reason.
    pub kind: WorldErrorKind,
    /// The reason in one sentence without a full stop.
    pub message: String,
    /// What to do, each in one sentence.
    pub help: Vec<String>,
}

impl WorldError {
    /// An error of that kind.
    pub fn new(kind: WorldErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            help: Vec::new(),
        }
    }

    /// The same with one more piece of advice.
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

/// Kinds of reasons why something cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WorldErrorKind {
    /// There is no such document.
    NotFound,
    /// The path leads out of the roots.
    OutsideRoots,
    /// The document is not UTF-8 text.
    NotUtf8,
    /// The document is larger than allowed.
    TooLarge,
    /// This world does not give anything of that kind.
    Unsupported,
    /// Nobody allowed this world to ask that host.
    Denied,
    /// An agent cannot be run, or failed.
    Agent,
    /// A payload file of the transcript (ChatMD §7.3) is not there.
    PayloadMissing,
    /// A payload file is named by what it holds, and holds something else.
    PayloadChanged,
    /// Anything else.
    Other,
}

impl WorldErrorKind {
    /// The code that a diagnostic about it carries.
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
        }
    }
}

pub(super) fn unsupported(message: &str) -> WorldError {
    WorldError::new(WorldErrorKind::Unsupported, message)
}
