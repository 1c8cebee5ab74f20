//! Exceptions. Their classes are written in Python, so that they can be pickled.

use logue_source::{Diagnostic, Span};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};

use crate::finding::Finding;
use crate::offsets::Offsets;

static ERROR: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static UNKNOWN_TOKEN: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// The code of a call of a stream that has ended.
pub(crate) const STREAM_FINISHED: &str = "stream-finished";
/// The code of a call of a strict stream after its error.
pub(crate) const STREAM_STOPPED: &str = "stream-stopped";
/// The code of text that spells a special token that is not allowed.
pub(crate) const SPECIAL_TOKEN: &str = "special-token";
/// The code of an id that is not in the vocabulary.
pub(crate) const UNKNOWN_TOKEN_ID: &str = "unknown-token";
/// The code of an argument with an unknown value.
pub(crate) const INVALID_ARGUMENT: &str = "invalid-argument";

fn class<'py>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<PyType>>,
    name: &str,
) -> PyResult<&'py Bound<'py, PyType>> {
    cell.import(py, "openchatml._errors", name)
}

/// An `OpenChatMLError`; spans are in code points and in bytes.
pub(crate) fn error(
    py: Python<'_>,
    code: &str,
    message: &str,
    spans: Option<((usize, usize), Span)>,
) -> PyErr {
    let result = class(py, &ERROR, "OpenChatMLError").and_then(|class| {
        let named = PyDict::new(py);
        named.set_item("code", code)?;
        if let Some((span, bytes)) = spans {
            named.set_item("span", span)?;
            named.set_item("byte_span", (bytes.start, bytes.end))?;
        }
        class.call((message,), Some(&named))
    });
    result.map_or_else(|error| error, PyErr::from_value)
}

/// An argument with an unknown value.
pub(crate) fn invalid(py: Python<'_>, message: &str) -> PyErr {
    error(py, INVALID_ARGUMENT, message, None)
}

/// An id outside of the vocabulary: an `UnknownTokenError`, which is a `KeyError` too.
pub(crate) fn unknown_token(py: Python<'_>, id: u32) -> PyErr {
    let message = format!("Invalid token for decoding: {id}");
    let result = class(py, &UNKNOWN_TOKEN, "UnknownTokenError").and_then(|class| {
        let named = PyDict::new(py);
        named.set_item("code", UNKNOWN_TOKEN_ID)?;
        class.call((message,), Some(&named))
    });
    result.map_or_else(|error| error, PyErr::from_value)
}

/// The exception of a finding in `text`.
pub(crate) fn found(py: Python<'_>, diagnostic: &Diagnostic, text: &[u8]) -> PyErr {
    let span = Offsets::new(text).span(diagnostic.primary);
    found_at(py, diagnostic, span)
}

/// The exception of a finding at a span of code points.
pub(crate) fn found_at(py: Python<'_>, diagnostic: &Diagnostic, span: (usize, usize)) -> PyErr {
    let error = error(
        py,
        diagnostic.code.as_str(),
        &diagnostic.message,
        Some((span, diagnostic.primary)),
    );
    let finding = Py::new(py, Finding::at(diagnostic, span));
    if let Ok(finding) = finding {
        // An exception without its finding is still the exception.
        let _ignored = error.value(py).setattr("diagnostic", finding);
    }
    error
}
