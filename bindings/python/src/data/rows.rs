//! Rows that callers pass.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::builder::LargeBinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use logue_data::{MAX_ROW_BYTES, Refusal};
use logue_source::{DiagnosticCode, Span};
use openchatml_arrow::ColumnChoice;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::encoding::{parallel, threads};
use crate::input::Bytes;
use crate::items::Items;
use crate::{error, input, json};

const ROWS: ColumnChoice<'_> = ColumnChoice {
    names: &["row", "value", "text"],
    fits: is_row,
    takes_first: true,
    content: "texts or bytes",
};

const fn is_row(kind: &DataType) -> bool {
    matches!(
        kind,
        DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
    )
}

/// The bytes of a row: `str`, bytes, or a `dict` as JSON.
pub(super) fn row<'a>(row: &'a Bound<'_, PyAny>) -> PyResult<Bytes<'a>> {
    if row.is_instance_of::<PyDict>() {
        let value = json::from_python(row)?;
        return Ok(Cow::Owned(value.to_string().into_bytes()));
    }
    input::bytes(row)
}

/// Works on one row without the interpreter lock. A refusal is an exception.
pub(super) fn one<R: Send>(
    py: Python<'_>,
    object: &Bound<'_, PyAny>,
    work: impl FnOnce(&[u8]) -> Result<R, Refusal> + Send,
) -> PyResult<R> {
    let bytes = row(object)?;
    let result = py.detach(|| bounded(&bytes, work));
    result.map_err(|refusal| error::found(py, &refusal.finding, &bytes))
}

/// Works on a row that is not too long.
pub(super) fn bounded<R>(
    row: &[u8],
    work: impl FnOnce(&[u8]) -> Result<R, Refusal>,
) -> Result<R, Refusal> {
    if row.len() > MAX_ROW_BYTES {
        return Err(Refusal::too_long(row.len()));
    }
    work(row)
}

/// The arrays of rows.
pub(super) struct Rows(Vec<ArrayRef>);

impl Rows {
    pub(super) fn import(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Some(arrays) = openchatml_arrow::import(object, &ROWS)? {
            return Ok(Self(arrays));
        }
        if object.is_instance_of::<PyString>() {
            return Err(expected());
        }
        let items: Items<Option<Bound<'_, PyAny>>> = object.extract().map_err(|error: PyErr| {
            if error.is_instance_of::<PyTypeError>(object.py()) {
                expected()
            } else {
                error
            }
        })?;
        let mut rows = LargeBinaryBuilder::new();
        for item in &items.0 {
            match item {
                Some(item) => rows.append_value(row(item)?),
                None => rows.append_null(),
            }
        }
        let array: ArrayRef = Arc::new(rows.finish());
        Ok(Self(vec![array]))
    }

    /// Every row; a null is `None`.
    pub(super) fn all(&self) -> Vec<Option<&[u8]>> {
        fn text(text: Option<&str>) -> Option<&[u8]> {
            text.map(str::as_bytes)
        }
        let mut out = Vec::with_capacity(self.0.iter().map(Array::len).sum());
        for array in &self.0 {
            match array.data_type() {
                DataType::Utf8 => out.extend(array.as_string::<i32>().iter().map(text)),
                DataType::LargeUtf8 => out.extend(array.as_string::<i64>().iter().map(text)),
                DataType::Utf8View => out.extend(array.as_string_view().iter().map(text)),
                DataType::Binary => out.extend(array.as_binary::<i32>().iter()),
                DataType::LargeBinary => out.extend(array.as_binary::<i64>().iter()),
                _ => out.extend(array.as_binary_view().iter()),
            }
        }
        out
    }

    /// Works on every row in several threads, in order.
    pub(super) fn each<R: Send>(
        &self,
        number: Option<usize>,
        work: impl Fn(&[u8]) -> Result<R, Refusal> + Sync,
    ) -> Vec<Result<R, Refusal>> {
        parallel(&self.all(), threads(number), |row| match row {
            Some(row) => bounded(row, &work),
            None => Err(null()),
        })
    }
}

/// The refusal of a null.
pub(super) fn null() -> Refusal {
    Refusal::new(
        DiagnosticCode::JsonShape,
        "the row is null",
        Span::new(0, 0),
    )
}

fn expected() -> PyErr {
    PyTypeError::new_err("expected an Arrow array of texts or bytes, or a list of rows")
}
