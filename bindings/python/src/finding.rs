//! Findings of the readers and checks.

use logue_source::{Diagnostic, Span};
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};

use crate::offsets::Offsets;

/// A finding about a text: the violation, its place and the remedy.
#[pyclass(frozen, get_all, eq, module = "openchatml", name = "Diagnostic")]
#[derive(PartialEq)]
pub(crate) struct Finding {
    /// The stable code.
    code: String,
    /// `error`, `warning` or `note`.
    severity: String,
    /// The violation, in one sentence.
    message: String,
    /// The place, in code points.
    span: (usize, usize),
    /// The place, in bytes of UTF-8.
    byte_span: (usize, usize),
    /// The expected text, as a noun.
    expected: Option<String>,
    /// Remedies.
    help: Vec<String>,
}

impl Finding {
    pub(crate) fn new(diagnostic: &Diagnostic, offsets: &Offsets<'_>) -> Self {
        Self::at(diagnostic, offsets.span(diagnostic.primary))
    }

    pub(crate) fn at(diagnostic: &Diagnostic, span: (usize, usize)) -> Self {
        Self {
            code: diagnostic.code.as_str().to_owned(),
            severity: diagnostic.severity.as_str().to_owned(),
            message: diagnostic.message.clone(),
            span,
            byte_span: pair(diagnostic.primary),
            expected: diagnostic.expected.clone(),
            help: diagnostic.help.clone(),
        }
    }
}

/// A span as Python has it.
pub(crate) const fn pair(span: Span) -> (usize, usize) {
    (span.start, span.end)
}

/// Findings as a tuple of `Diagnostic`.
pub(crate) fn tuple<'py>(
    py: Python<'py>,
    found: &[Diagnostic],
    text: &[u8],
) -> PyResult<Bound<'py, PyTuple>> {
    if found.is_empty() {
        return Ok(PyTuple::empty(py));
    }
    let offsets = Offsets::new(text);
    PyTuple::new(
        py,
        found
            .iter()
            .map(|found| Finding::new(found, &offsets))
            .collect::<Vec<_>>(),
    )
}

#[pymethods]
impl Finding {
    #[new]
    #[pyo3(signature = (code, severity, message, span, byte_span, expected=None, help=Vec::new()))]
    const fn construct(
        code: String,
        severity: String,
        message: String,
        span: (usize, usize),
        byte_span: (usize, usize),
        expected: Option<String>,
        help: Vec<String>,
    ) -> Self {
        Self {
            code,
            severity,
            message,
            span,
            byte_span,
            expected,
            help,
        }
    }

    #[classattr]
    const fn __match_args__() -> (&'static str, &'static str) {
        ("code", "message")
    }

    fn __repr__(&self) -> String {
        let (start, end) = self.span;
        format!(
            "<Diagnostic {} {} at {start}..{end}: {}>",
            self.severity, self.code, self.message
        )
    }

    fn __str__(&self) -> String {
        format!("{}[{}]: {}", self.severity, self.code, self.message)
    }

    #[expect(clippy::type_complexity, reason = "the arguments of the constructor")]
    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> (
        Bound<'py, PyType>,
        (
            &str,
            &str,
            &str,
            (usize, usize),
            (usize, usize),
            Option<&str>,
            &[String],
        ),
    ) {
        (
            py.get_type::<Self>(),
            (
                &self.code,
                &self.severity,
                &self.message,
                self.span,
                self.byte_span,
                self.expected.as_deref(),
                &self.help,
            ),
        )
    }
}
