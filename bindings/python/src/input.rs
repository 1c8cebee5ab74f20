//! Text that callers pass: `str`, or bytes of UTF-8.

use std::borrow::Cow;

use logue_source::{DiagnosticCode, Span};
use openchatml::{Dialect, FrameRole};
use pyo3::exceptions::{PyTypeError, PyUnicodeEncodeError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString};

use crate::error;

/// Inputs of at least this many bytes are read without the interpreter lock. Reading them takes
/// about 10 µs, which is more than releasing and taking the lock costs.
pub(crate) const RELEASE_READING: usize = 16 * 1024;
/// Texts of at least this many bytes are encoded, rendered or checked without the interpreter lock.
pub(crate) const RELEASE_ENCODING: usize = 1024;

/// The bytes of a text.
pub(crate) type Bytes<'a> = Cow<'a, [u8]>;

/// The UTF-8 of a `str`, or the bytes of a bytes-like object.
pub(crate) fn bytes<'a>(text: &'a Bound<'_, PyAny>) -> PyResult<Bytes<'a>> {
    if let Ok(text) = text.cast::<PyString>() {
        return Ok(Cow::Borrowed(utf8(text)?.as_bytes()));
    }
    if let Ok(bytes) = text.cast::<PyBytes>() {
        return Ok(Cow::Borrowed(bytes.as_bytes()));
    }
    if let Ok(bytes) = text.cast::<PyByteArray>() {
        return Ok(Cow::Owned(bytes.to_vec()));
    }
    if text.is_instance_of::<PyMemoryView>() {
        let copy = text.call_method0("tobytes")?;
        return Ok(Cow::Owned(copy.cast::<PyBytes>()?.as_bytes().to_vec()));
    }
    Err(PyTypeError::new_err(format!(
        "expected str or bytes, not {}",
        text.get_type().name()?
    )))
}

/// The text of a `str`.
pub(crate) fn utf8<'a>(text: &'a Bound<'_, PyString>) -> PyResult<&'a str> {
    text.to_str().map_err(|error| {
        // There may also be no memory for the UTF-8.
        if error.is_instance_of::<PyUnicodeEncodeError>(text.py()) {
            surrogate(text)
        } else {
            error
        }
    })
}

/// The error of a `str` with a lone surrogate.
fn surrogate(text: &Bound<'_, PyString>) -> PyErr {
    let py = text.py();
    let place = (|| -> PyResult<usize> {
        let failed = text.call_method1("encode", ("utf-8",));
        match failed {
            Ok(_) => Ok(0),
            Err(error) => error.value(py).getattr("start")?.extract(),
        }
    })();
    let at = place.unwrap_or_default();
    let before = text
        .call_method1("encode", ("utf-8", "surrogatepass"))
        .ok()
        .and_then(|_| {
            let head = text
                .get_item(pyo3::types::PySlice::new(py, 0, at.cast_signed(), 1))
                .ok()?;
            head.call_method0("encode").ok()?.len().ok()
        })
        .unwrap_or_default();
    error::error(
        py,
        DiagnosticCode::SourceNotUtf8.as_str(),
        "the text holds a lone surrogate, which is not a character",
        Some(((at, at + 1), Span::new(before, before + 3))),
    )
}

/// The dialect of a name, such as `harmony`.
pub(crate) fn dialect(py: Python<'_>, name: Option<&str>) -> PyResult<Option<Dialect>> {
    let Some(name) = name else { return Ok(None) };
    if let Some(dialect) = Dialect::parse(name) {
        return Ok(Some(dialect));
    }
    let names = Dialect::ALL.map(Dialect::as_str).join(", ");
    let message = format!("unknown dialect `{name}`; known are {names}");
    Err(error::invalid(py, &message))
}

/// The role of a name, or of a member of an enumeration whose value it is.
pub(crate) fn role(role: Option<&Bound<'_, PyAny>>) -> PyResult<Option<FrameRole>> {
    let Some(role) = role else { return Ok(None) };
    let value = if role.is_instance_of::<PyString>() {
        role.clone()
    } else {
        role.getattr("value")
            .map_err(|_| PyTypeError::new_err("a role is a string, such as `assistant`"))?
    };
    let name: String = value.extract()?;
    match FrameRole::parse(name.as_bytes()) {
        FrameRole::Other => {
            let message = format!("unknown role `{name}`");
            Err(error::invalid(role.py(), &message))
        }
        known => Ok(Some(known)),
    }
}
