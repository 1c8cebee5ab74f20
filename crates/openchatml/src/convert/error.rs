//! Errors of a conversion.

use logue_source::DiagnosticCode;

use crate::harmony::RenderError;
use crate::loss::Loss;
use crate::write::frame::WriteError;

/// An error of a conversion (`E-WRITE-REFUSED`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConvertError {
    /// A frame cannot be written.
    Frame {
        /// Its index.
        index: usize,
        /// The rule that it breaks.
        reason: WriteError,
    },
    /// The document header cannot be written.
    Header {
        /// The rule that it breaks.
        reason: WriteError,
    },
    /// A body spells a control token of a dialect that has no escape for it.
    Body {
        /// The frame's index.
        index: usize,
        /// The token.
        token: &'static str,
    },
    /// A message of Harmony cannot be written.
    Message {
        /// The rule that it breaks.
        reason: RenderError,
    },
    /// The form is only read.
    ReadOnly {
        /// The name of the form.
        form: &'static str,
    },
    /// Something would be lost, and [`ConvertOptions::strict`](super::ConvertOptions::strict) forbids it.
    Losses(Vec<Loss>),
}

impl ConvertError {
    /// The stable code.
    pub const CODE: DiagnosticCode = DiagnosticCode::WriteRefused;

    /// The losses that were forbidden; none for other reasons.
    pub fn losses(&self) -> &[Loss] {
        match self {
            Self::Losses(losses) => losses,
            _ => &[],
        }
    }
}

impl std::fmt::Display for ConvertError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Frame { index, reason } => write!(f, "frame {}: {reason}", index + 1),
            Self::Header { reason } => reason.fmt(f),
            Self::Message { reason } => reason.fmt(f),
            Self::ReadOnly { form } => write!(f, "the form {form} is only read"),
            Self::Body { index, token } => write!(
                f,
                "frame {}: the body spells `{token}`, and this dialect has no escape for it",
                index + 1
            ),
            Self::Losses(losses) => {
                f.write_str("something would be lost")?;
                losses.iter().try_for_each(|loss| write!(f, "; {loss}"))
            }
        }
    }
}

impl std::error::Error for ConvertError {}
