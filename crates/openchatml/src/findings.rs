//! Where the reader puts what it finds, bounded.

use logue_source::Diagnostic;

use crate::limits::MAX_DIAGNOSTICS;

/// Findings of one document. The first [`MAX_DIAGNOSTICS`] are kept, later ones only count, so
/// that a text made of mistakes does not cost many times its size.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    kept: Vec<Diagnostic>,
    dropped: usize,
    errors: bool,
}

impl Findings {
    /// Adds one.
    pub(crate) fn add(&mut self, diagnostic: Diagnostic) {
        self.errors |= diagnostic.is_error();
        if self.kept.len() < MAX_DIAGNOSTICS {
            self.kept.push(diagnostic);
        } else {
            self.dropped += 1;
        }
    }

    /// Hands over what was kept.
    pub(crate) fn take(&mut self) -> std::vec::Drain<'_, Diagnostic> {
        self.kept.drain(..)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    pub(crate) fn kept(&self) -> &[Diagnostic] {
        &self.kept
    }

    pub(crate) const fn dropped(&self) -> usize {
        self.dropped
    }

    pub(crate) const fn has_errors(&self) -> bool {
        self.errors
    }
}
