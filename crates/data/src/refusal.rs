//! Refused rows.

use logue_source::{Diagnostic, DiagnosticCode, Span};

use crate::batch::MAX_ROW_BYTES;
use crate::row::{Place, Row};

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

    /// Refuses a row of more than [`MAX_ROW_BYTES`], of which `bytes` are kept.
    pub fn too_long(bytes: usize) -> Self {
        let message = format!("the row has more than {MAX_ROW_BYTES} bytes");
        Self::new(DiagnosticCode::SourceTooLarge, message, Span::new(0, bytes))
            .with_help("split the conversation into several rows")
    }

    /// Returns the place of the finding; its column counts characters.
    pub fn place_in(&self, row: Row<'_>) -> Place {
        let before = row
            .bytes
            .get(..self.finding.primary.start)
            .unwrap_or(row.bytes);
        let lines = memchr::memchr_iter(b'\n', before).count() as u64;
        let last = before
            .rsplit(|byte| *byte == b'\n')
            .next()
            .unwrap_or_default();
        let column = String::from_utf8_lossy(last).chars().count() as u64;
        Place {
            line: row.place.line + lines,
            column: if lines == 0 {
                row.place.column + column
            } else {
                column + 1
            },
            ..row.place
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
