//! `[redact]` of `logue.toml`: the patterns of text that a run does not write.

use logue_agent::{Redaction, RedactionError};
use logue_source::Span;
use serde::Deserialize;
use toml::Spanned;

/// The patterns of one file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Redact {
    #[serde(default)]
    patterns: Vec<Spanned<String>>,
    #[serde(default)]
    rule: Vec<Rule>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    name: Spanned<String>,
    pattern: Spanned<String>,
}

impl Redact {
    /// Adds the patterns; those without a name are numbered.
    ///
    /// # Errors
    /// Returns an error and its position for the first invalid pattern or name.
    pub(crate) fn add_to(&self, redaction: &mut Redaction) -> Result<(), (Span, RedactionError)> {
        for rule in &self.rule {
            redaction
                .add(rule.name.get_ref(), rule.pattern.get_ref())
                .map_err(|error| match error {
                    RedactionError::Name(_) => (Span::from(rule.name.span()), error),
                    _ => (Span::from(rule.pattern.span()), error),
                })?;
        }
        for (index, pattern) in self.patterns.iter().enumerate() {
            redaction
                .add(&format!("pattern-{}", index + 1), pattern.get_ref())
                .map_err(|error| (Span::from(pattern.span()), error))?;
        }
        Ok(())
    }
}
