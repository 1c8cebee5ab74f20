//! Arrow data in and out of Python, by the Arrow C interface in capsules.
//!
//! A producer has `__arrow_c_array__` (two capsules: schema and array) or `__arrow_c_stream__` (one
//! capsule). No package of Python is needed. This crate is the only one of the bindings with
//! unsafe code: it reads the pointers of capsules.
#![warn(missing_docs)]

mod raw;

use std::ffi::CStr;
use std::ptr::NonNull;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, to_ffi};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::DataType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};

use raw::Refusal;

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const STREAM: &CStr = c"arrow_array_stream";

/// The array of an object that is read.
///
/// Of a table, that is the first column with one of the names, the only column, or where
/// `takes_first` is set, the first column whose type fits. Other columns are not read.
#[derive(Clone, Copy, Debug)]
pub struct ColumnChoice<'c> {
    /// The names, the preferred one first.
    pub names: &'c [&'c str],
    /// Whether a type fits.
    pub fits: fn(&DataType) -> bool,
    /// Whether a column without one of the names is taken.
    pub takes_first: bool,
    /// The content as a plural noun, for errors.
    pub content: &'c str,
}

/// Returns the arrays of an object with the Arrow C interface; `None` for other objects.
///
/// The arrays have a type that fits: text, bytes, or lists of 32 or 64 bit integers. A stream gives
/// an array for each batch.
///
/// # Errors
/// Raises the errors of the producer, `TypeError` for data of another type, and `ValueError` for
/// data that is not valid.
pub fn import(
    object: &Bound<'_, PyAny>,
    choice: &ColumnChoice<'_>,
) -> PyResult<Option<Vec<ArrayRef>>> {
    if object.hasattr("__arrow_c_array__")? {
        let capsules = object.call_method0("__arrow_c_array__")?;
        let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) = capsules.extract()?;
        return Ok(Some(vec![import_array(&schema, &array, choice)?]));
    }
    if object.hasattr("__arrow_c_stream__")? {
        let capsule = object.call_method0("__arrow_c_stream__")?;
        return import_stream(capsule.cast::<PyCapsule>()?, choice).map(Some);
    }
    Ok(None)
}

fn invalid(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(format!("invalid Arrow data: {error}"))
}

fn refused(refusal: Refusal) -> PyErr {
    match refusal {
        Refusal::Type(message) => PyTypeError::new_err(message),
        Refusal::Invalid(message) => invalid(message),
    }
}

/// The checked pointer of a capsule with this name.
fn pointer<T>(capsule: &Bound<'_, PyCapsule>, name: &CStr) -> PyResult<NonNull<T>> {
    // Raises for another name.
    Ok(capsule.pointer_checked(Some(name))?.cast())
}

#[expect(unsafe_code, reason = "capsules hold pointers")]
fn import_array(
    schema: &Bound<'_, PyCapsule>,
    array: &Bound<'_, PyCapsule>,
    choice: &ColumnChoice<'_>,
) -> PyResult<ArrayRef> {
    let schema = pointer::<FFI_ArrowSchema>(schema, SCHEMA)?;
    let array = pointer::<FFI_ArrowArray>(array, ARRAY)?;
    // SAFETY: the name of the capsule says what it points to.
    let column = raw::column(unsafe { schema.as_ref() }, choice).map_err(refused)?;
    // SAFETY: the interface says that the structure may be moved out once. `from_raw` leaves a
    // released one, which the capsule then does not release again.
    let array = unsafe { FFI_ArrowArray::from_raw(array.as_ptr()) };
    raw::array(array, &column).map_err(refused)
}

#[expect(unsafe_code, reason = "capsules hold pointers")]
fn import_stream(
    stream: &Bound<'_, PyCapsule>,
    choice: &ColumnChoice<'_>,
) -> PyResult<Vec<ArrayRef>> {
    let stream = pointer::<FFI_ArrowArrayStream>(stream, STREAM)?;
    // SAFETY: as above, for the structure of a stream.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(stream.as_ptr()) };
    raw::stream(stream, choice).map_err(refused)
}

/// Returns the capsules of an array: its schema and its data.
///
/// # Errors
/// Raises `ValueError` for a type without a form in the C interface.
pub fn export<'py>(
    py: Python<'py>,
    array: &dyn Array,
) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
    let (array, schema) = to_ffi(&array.to_data()).map_err(invalid)?;
    let schema = PyCapsule::new_with_value(py, schema, SCHEMA)?;
    let array = PyCapsule::new_with_value(py, array, ARRAY)?;
    Ok((schema, array))
}

/// Returns the capsule of a stream of one record batch, whose columns are the fields of `array`.
///
/// # Errors
/// Raises what making the capsule raises.
pub fn export_stream(py: Python<'_>, array: StructArray) -> PyResult<Bound<'_, PyCapsule>> {
    let batch = arrow_array::RecordBatch::from(array);
    let schema = batch.schema();
    let batches = arrow_array::RecordBatchIterator::new([Ok(batch)], schema);
    let stream = FFI_ArrowArrayStream::new(Box::new(batches));
    PyCapsule::new_with_value(py, stream, STREAM)
}
