//! A finding about a text, with its position and its remedy.

use crate::{DiagnosticCode, Span};

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Information; the text breaks no rule.
    Note,
    /// The text is usable, but part of it is probably a mistake.
    Warning,
    /// The text breaks a rule of its language.
    Error,
}

impl Severity {
    /// Returns the word for reports and JSON: `error`, `warning` or `note`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// A second position that explains a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Label {
    /// The position.
    pub span: Span,
    /// The explanation.
    pub text: String,
}

impl Label {
    /// Creates a label.
    pub fn new(span: Span, text: impl Into<String>) -> Self {
        Self {
            span,
            text: text.into(),
        }
    }
}

/// A finding: the violation, its position and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// The stable code; its page is `docs/errors/CODE.md`.
    pub code: DiagnosticCode,
    /// The severity.
    pub severity: Severity,
    /// The violation, in one sentence without a full stop.
    pub message: String,
    /// The offending text.
    pub primary: Span,
    /// The expected text as a noun, printed under the source after "expected".
    pub expected: Option<String>,
    /// Other positions that explain the finding.
    pub labels: Vec<Label>,
    /// Remedies, each in one sentence.
    pub help: Vec<String>,
}

impl Diagnostic {
    /// Creates a finding of the given severity.
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

    /// Creates an error.
    pub fn error(code: DiagnosticCode, message: impl Into<String>, primary: Span) -> Self {
        Self::new(Severity::Error, code, message, primary)
    }

    /// Creates a warning.
    pub fn warning(code: DiagnosticCode, message: impl Into<String>, primary: Span) -> Self {
        Self::new(Severity::Warning, code, message, primary)
    }

    /// Sets the expected text, as a noun: "a closing quote".
    #[must_use]
    pub fn with_expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(expected.into());
        self
    }

    /// Adds a second position.
    #[must_use]
    pub fn with_label(mut self, span: Span, text: impl Into<String>) -> Self {
        self.labels.push(Label::new(span, text));
        self
    }

    /// Adds a remedy.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    /// Returns whether this is an error.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}
