//! Values of JSON from Python objects and back.

use openchatml::Header;
use pyo3::exceptions::{PyRecursionError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PySequence, PyString};
use serde_json::{Map, Number, Value};

use crate::input;

/// The most nested lists and dicts.
const MAX_DEPTH: usize = 128;

/// The keys of a document header.
pub(crate) fn header(header: &Header) -> Value {
    let mut map = Map::new();
    map.insert("version".to_owned(), header.version().into());
    if let Some(model) = header.model() {
        map.insert("model".to_owned(), model.into());
    }
    if !header.generation_settings().is_empty() {
        let settings = header.generation_settings().clone();
        map.insert("generation_settings".to_owned(), settings.into());
    }
    map.extend(header.extra().clone());
    map.into()
}

/// A value as Python objects.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(value) => PyBool::new(py, *value).to_owned().into_any(),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => number.into_pyobject(py)?.into_any(),
            (_, Some(number)) => number.into_pyobject(py)?.into_any(),
            _ => PyFloat::new(py, number.as_f64().unwrap_or(f64::NAN)).into_any(),
        },
        Value::String(text) => PyString::new(py, text).into_any(),
        Value::Array(values) => {
            let list = PyList::empty(py);
            for value in values {
                list.append(to_python(py, value)?)?;
            }
            list.into_any()
        }
        Value::Object(map) => {
            let dict = PyDict::new(py);
            for (key, value) in map {
                dict.set_item(key, to_python(py, value)?)?;
            }
            dict.into_any()
        }
    })
}

/// A Python object as a value of JSON.
///
/// # Errors
/// `TypeError` for other objects, `ValueError` for numbers that JSON does not have,
/// `RecursionError` for too many levels.
pub(crate) fn from_python(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    convert(value, 0)
}

fn convert(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    if depth > MAX_DEPTH {
        let message = format!("more than {MAX_DEPTH} nested levels");
        return Err(PyRecursionError::new_err(message));
    }
    if value.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(value) = value.cast::<PyBool>() {
        return Ok(value.is_true().into());
    }
    if let Ok(text) = value.cast::<PyString>() {
        // Raises for a lone surrogate.
        return Ok(input::utf8(text)?.into());
    }
    if value.is_instance_of::<PyInt>() {
        if let Ok(number) = value.extract::<i64>() {
            return Ok(number.into());
        }
        return Ok(value.extract::<u64>()?.into());
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        let number = Number::from_f64(number.value());
        let message = "JSON has no such number";
        let number = number.ok_or_else(|| pyo3::exceptions::PyValueError::new_err(message))?;
        return Ok(number.into());
    }
    if let Ok(map) = value.cast::<PyMapping>() {
        let mut out = Map::new();
        for pair in map.items()?.iter() {
            let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair.extract()?;
            let key = input::utf8(key.cast::<PyString>()?)?.to_owned();
            out.insert(key, convert(&value, depth + 1)?);
        }
        return Ok(out.into());
    }
    if let Ok(sequence) = value.cast::<PySequence>() {
        let mut out = Vec::new();
        for item in sequence.try_iter()? {
            out.push(convert(&item?, depth + 1)?);
        }
        return Ok(out.into());
    }
    let name = value.get_type().name()?;
    Err(PyTypeError::new_err(format!(
        "{name} is not a value of JSON"
    )))
}
