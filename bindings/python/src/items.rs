//! Lists that callers pass.

use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

/// The most items of a list.
const MAX_ITEMS: usize = 1 << 28;

/// The items of a sequence. Its length is the number of items that it gives, not the one it claims.
pub(crate) struct Items<T>(pub(crate) Vec<T>);

impl<T> Default for Items<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Items<T> {
    fn push(&mut self, item: T) -> PyResult<()> {
        if self.0.len() >= MAX_ITEMS {
            return Err(too_many());
        }
        let is_full = self.0.len() == self.0.capacity();
        if is_full && self.0.try_reserve(1).is_err() {
            return Err(PyMemoryError::new_err("no memory for the items of a list"));
        }
        self.0.push(item);
        Ok(())
    }
}

fn too_many() -> PyErr {
    PyValueError::new_err(format!("the list has more than {MAX_ITEMS} items"))
}

impl<'py, T: FromPyObjectOwned<'py>> FromPyObject<'_, 'py> for Items<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let mut items = Self::default();
        if let Ok(list) = object.cast::<PyList>() {
            // The list's own length, whatever a subclass claims.
            for item in list.iter() {
                items.push(item.extract::<T>().map_err(Into::into)?)?;
            }
            return Ok(items);
        }
        let is_sequence = object.hasattr("__getitem__")?
            && !object.is_instance_of::<PyDict>()
            && !object.is_instance_of::<PyString>();
        if !is_sequence {
            let name = object.get_type().name()?;
            return Err(PyTypeError::new_err(format!("expected a list, not {name}")));
        }
        if object.len().is_ok_and(|length| length > MAX_ITEMS) {
            return Err(too_many());
        }
        for item in object.try_iter()? {
            items.push(item?.extract::<T>().map_err(Into::into)?)?;
        }
        Ok(items)
    }
}
