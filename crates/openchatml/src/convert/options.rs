//! Options of a conversion.

use crate::loss::{Loss, LossSeverity};

/// Options of a conversion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConvertOptions {
    /// The least severity of losses that refuse the conversion; `None` refuses none.
    pub strict: Option<LossSeverity>,
    /// Whether private reasoning is a field of the message that it led to.
    ///
    /// This applies where the form has one: `thinking` in the JSON of 2.2, `reasoning_content` in
    /// Chat Completions. Without this option the first has a message of its own for it, and the
    /// second has none.
    pub thinking: bool,
    /// Writes a projection as an object on one line, as in data sets.
    pub line: bool,
}

impl ConvertOptions {
    /// Sets the least severity of losses that refuse the conversion.
    #[must_use]
    pub fn with_strict(mut self, strict: impl Into<Option<LossSeverity>>) -> Self {
        self.strict = strict.into();
        self
    }

    /// Returns whether these losses refuse the conversion.
    pub fn refuses(&self, losses: &[Loss]) -> bool {
        self.strict
            .is_some_and(|strict| losses.iter().any(|loss| loss.is_at_least(strict)))
    }

    /// Sets whether private reasoning is a field of the message that it led to.
    #[must_use]
    pub const fn with_thinking(mut self, thinking: bool) -> Self {
        self.thinking = thinking;
        self
    }

    /// Sets whether a projection is an object on one line.
    #[must_use]
    pub const fn with_line(mut self, line: bool) -> Self {
        self.line = line;
        self
    }
}
