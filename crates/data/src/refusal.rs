//! Refused rows.

use logue_source::{Diagnostic, DiagnosticCode, Span};

/// The reason why a row is not in the output.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The finding; its span refers to the bytes of the row.
    pub finding: Box<Diagnostic>,
}

impl Refusal {
    /// Refuses a row for a reason at `span` of its bytes.
    pub fn new(code: DiagnosticCode, message: impl Into<String>, span: Span) -> Self {
        Self {
            finding: Box::new(Diagnostic::error(code, message, span)),
        }
    }

    /// Adds the next step for the user.
    #[must_use]
    pub fn with_help(self, help: impl Into<String>) -> Self {
        Self {
            finding: Box::new(self.finding.with_help(help)),
        }
    }
}

impl From<Diagnostic> for Refusal {
    fn from(finding: Diagnostic) -> Self {
        Self {
            finding: Box::new(finding),
        }
    }
}
