//! From one dialect to another, through the [`Transcript`] that all of them share.
//!
//! ```text
//! bytes ─ read ─▶ Transcript ─ write ─▶ text
//! ```
//!
//! What a dialect cannot hold is listed as a [`Loss`], each with the frame that it is about; with
//! [`ConvertOptions::strict`] any loss refuses the whole. Nothing is made up: ids that 2.0, Harmony and
//! the 1.x line do not have are given in order and listed as given, and no text becomes more
//! visible or of a higher rank than it was.
//!
//! What stands in a frame can never become a frame of its own: 2.2 escapes it, the dialects without
//! an escape refuse it.
//!
//! ```
//! use openchatml::{Dialect, convert};
//!
//! let options = convert::ConvertOptions::default();
//! let read = convert::read(b"version: 2.2
//! <|start|>assistant to=functions.f call_id=a<|channel|>commentary<|message|>{}<|call|>
//! ", None, &options);
//! assert_eq!(read.dialect, Dialect::V2_2);
//!
//! let written = convert::write(&read.transcript, Dialect::V2_0, &options)?;
//! assert_eq!(written.text, "version: 2.0
//! <|start|>assistant to=functions.f<|channel|>commentary<|message|>{}<|call|>
//! ");
//! assert_eq!(written.losses[0].to_string(), "frame 1: call_id dropped");
//! # Ok::<(), convert::ConvertError>(())
//! ```

mod harmony;
mod ids;
mod reading;
mod v2_0;
mod v2_2;
mod writing;

use logue_source::{Diagnostic, DiagnosticCode};

pub use ids::assign_ids;
pub(crate) use writing::{Writing, note_terminators};

use crate::dialect::Dialect;
use crate::harmony::RenderError;
use crate::loss::Loss;
use crate::owned::{FrameBuf, HeaderBuf, Transcript};
use crate::v0_1::{self, WriteOptions};
use crate::write::WriteError;

/// How to convert.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConvertOptions {
    /// Refuse whatever would lose something.
    pub strict: bool,
    /// Private reasoning stands in the message that it led to, in a field of its own, where the
    /// form has one: `thinking` in the JSON of 2.2, `reasoning_content` in Chat Completions. Without
    /// this option the first has a message of its own for it, and the second has none.
    pub thinking: bool,
    /// A projection is written on one line, as an object, the way data sets are kept.
    pub line: bool,
}

/// A conversation that was read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReadResult {
    /// What it says.
    pub transcript: Transcript,
    /// The dialect that it was read in.
    pub dialect: Dialect,
    /// Whether the caller or the text said so, rather than only allowing it.
    pub certain: bool,
    /// What was wrong with the text.
    pub diagnostics: Vec<Diagnostic>,
    /// What the transcript does not hold of it, and what it was given in addition.
    pub losses: Vec<Loss>,
}

/// A conversation that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteResult {
    /// The text.
    pub text: String,
    /// What it does not hold.
    pub losses: Vec<Loss>,
}

/// Why a conversation cannot be written (`E-WRITE-REFUSED`).
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
    /// Something would be lost, and [`ConvertOptions::strict`] forbids it.
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

/// Reads a conversation in the dialect `from`, or in the one that [`detect`](crate::detect) finds.
/// Never fails: what is wrong is a diagnostic. Linear in the text.
///
/// A version in a document header counts over `from` as far as 2.0 and 2.2 are concerned, because
/// each reads as control tokens what the other may have as text. Where nothing is detected the text
/// is read as 2.2, and what stands outside every frame is reported.
pub fn read(bytes: &[u8], from: Option<Dialect>, _options: &ConvertOptions) -> ReadResult {
    reading::read(bytes, from)
}

/// Writes a conversation in the dialect `to`. Linear in the transcript.
///
/// # Errors
/// A frame or header that the dialect cannot hold safely: a header value that would end its value
/// or forge a frame, a body that spells a token of a dialect without escapes, a part that a frame
/// must have and has not. With [`ConvertOptions::strict`], any loss. Then nothing is written.
pub fn write(
    transcript: &Transcript,
    to: Dialect,
    options: &ConvertOptions,
) -> Result<WriteResult, ConvertError> {
    let writing = match to {
        Dialect::V2_2 => v2_2::write(transcript)?,
        Dialect::V2_0 => v2_0::write(transcript)?,
        Dialect::Harmony => harmony::write(transcript)?,
        Dialect::V0_1 | Dialect::ChatMl => {
            let layout = if to == Dialect::ChatMl {
                WriteOptions::plain()
            } else {
                WriteOptions::default()
            };
            let strict = options.strict;
            return v0_1::write(transcript, &WriteOptions { strict, ..layout });
        }
    };
    finish(writing, options)
}

/// The result of a writer, unless it lost something and must not.
pub(crate) fn finish(
    writing: Writing,
    options: &ConvertOptions,
) -> Result<WriteResult, ConvertError> {
    let Writing { text, losses, .. } = writing;
    if options.strict && !losses.is_empty() {
        return Err(ConvertError::Losses(losses));
    }
    Ok(WriteResult { text, losses })
}

/// A frame as a line of 2.0, which must lose nothing.
pub(crate) fn frame_of_2_0(frame: &FrameBuf) -> Result<String, WriteError> {
    let options = ConvertOptions {
        strict: true,
        ..ConvertOptions::default()
    };
    let one = v2_0::write_one(frame).and_then(|writing| finish(writing, &options));
    one.map(|written| written.text)
        .map_err(|error| match error {
            ConvertError::Frame { reason, .. } => reason,
            ConvertError::Losses(losses) => WriteError::Version {
                reason: losses
                    .first()
                    .map_or_else(String::new, |loss| loss.message.clone()),
            },
            other => WriteError::Version {
                reason: other.to_string(),
            },
        })
}

/// The document header for `version`.
fn header_for(transcript: &Transcript, version: &str, writing: &mut Writing) -> HeaderBuf {
    let mut header = transcript.header.clone().unwrap_or_default();
    let older = ["", "2.0", "2.2"].contains(&header.version.as_str());
    if !older {
        writing.note_whole(&format!("version {} becomes {version}", header.version));
    }
    version.clone_into(&mut header.version);
    header
}
