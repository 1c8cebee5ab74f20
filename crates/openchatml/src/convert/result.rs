//! Results of a conversion.

use logue_source::Diagnostic;

use crate::dialect::Dialect;
use crate::document::owned::Transcript;
use crate::loss::Loss;

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
