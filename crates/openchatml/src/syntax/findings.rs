//! A bounded buffer for findings of a reader.

use logue_source::Diagnostic;

use crate::limits::MAX_DIAGNOSTICS;

/// Findings of one document. The first [`MAX_DIAGNOSTICS`] are kept, later ones only count, so
/// that a text made of mistakes does not cost many times its size.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    kept: Vec<Diagnostic>,
    dropped: usize,
    errors: bool,
}

impl Findings {
    /// Adds one. The first error is kept in any case: it is the one that strict reading names.
    pub(crate) fn add(&mut self, diagnostic: Diagnostic) {
        let first_error = diagnostic.is_error() && !self.errors;
        self.errors |= first_error;
        if self.kept.len() >= MAX_DIAGNOSTICS {
            self.dropped += 1;
            if !first_error {
                return;
            }
            self.kept.pop();
        }
        self.kept.push(diagnostic);
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
