//! One finding about a text, with its position and what to do about it.

use crate::{DiagnosticCode, Span};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing; nothing is wrong.
    Note,
    /// The text is usable, but something in it is probably not meant so.
    Warning,
    /// The text breaks a rule of its language.
    Error,
}

impl Severity {
    /// The word that reports and JSON use: `error`, `warning` or `note`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// A second place that explains a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Where.
    pub span: Span,
    /// What is there.
    pub text: String,
}

/// One finding: what is wrong, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The stable code; its page is `docs/errors/CODE.md`.
    pub code: DiagnosticCode,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// The offending text.
    pub primary: Span,
    /// What should have stood there, as a noun: reports print it under the text, behind "expected".
    pub expected: Option<String>,
    /// Other places that explain it.
    pub labels: Vec<Label>,
    /// What to do, each in one sentence.
    pub help: Vec<String>,
}

impl Diagnostic {
    /// A finding of the given severity.
    pub fn new(
        severity: Severity,
        code: DiagnosticCode,
        message: impl Into<String>,
        primary: Span,
    ) -> Self {
        Self {
            code,
            severity,
            message: message.into(),
            primary,
            expected: None,
            labels: Vec::new(),
            help: Vec::new(),
        }
    }

    /// An error.
    pub fn error(code: DiagnosticCode, message: impl Into<String>, primary: Span) -> Self {
        Self::new(Severity::Error, code, message, primary)
    }

    /// A warning.
    pub fn warning(code: DiagnosticCode, message: impl Into<String>, primary: Span) -> Self {
        Self::new(Severity::Warning, code, message, primary)
    }

    /// The same with what was expected at the offending text, as a noun: "a closing quote".
    #[must_use]
    pub fn with_expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(expected.into());
        self
    }

    /// The same with a second place.
    #[must_use]
    pub fn with_label(mut self, span: Span, text: impl Into<String>) -> Self {
        self.labels.push(Label {
            span,
            text: text.into(),
        });
        self
    }

    /// The same with one more piece of advice.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    /// Whether this is an error.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}
