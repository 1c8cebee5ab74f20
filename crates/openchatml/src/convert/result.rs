//! Results of a conversion.

use logue_source::Diagnostic;

use crate::dialect::Dialect;
use crate::document::owned::Transcript;
use crate::loss::Loss;

/// A conversation that was read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReadResult {
    /// The conversation.
    pub transcript: Transcript,
    /// The dialect that it was read in.
    pub dialect: Dialect,
    /// Whether the caller or the text named the dialect, rather than only allowing it.
    pub certain: bool,
    /// Findings of the reader.
    pub diagnostics: Vec<Diagnostic>,
    /// Losses, and values that were added.
    pub losses: Vec<Loss>,
}

/// A conversation that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteResult {
    /// The text.
    pub text: String,
    /// Content that the text does not hold.
    pub losses: Vec<Loss>,
}
