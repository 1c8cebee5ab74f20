//! Lists of ids as Python objects.

use std::sync::OnceLock;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyInt, PyList};

/// An `int` for each id of the vocabulary, made when it is first needed: 32 bytes each. Making and
/// freeing one for each token of a text would cost more than encoding it, with the interpreter lock.
static INTS: PyOnceLock<Vec<OnceLock<Py<PyInt>>>> = PyOnceLock::new();

/// The ids as a list.
pub(crate) fn list<'py>(py: Python<'py>, ids: &[u32]) -> PyResult<Bound<'py, PyList>> {
    let ints = INTS.get_or_init(py, || {
        let slots = std::iter::repeat_with(OnceLock::new);
        slots.take(logue_o200k::VOCABULARY_SIZE).collect()
    });
    let ids = ids.iter().map(|id| {
        let slot = usize::try_from(*id).ok().and_then(|id| ints.get(id));
        match slot {
            Some(slot) => slot.get_or_init(|| int(py, *id).unbind()).bind(py).clone(),
            None => int(py, *id),
        }
    });
    PyList::new(py, ids)
}

fn int(py: Python<'_>, id: u32) -> Bound<'_, PyInt> {
    match id.into_pyobject(py) {
        Ok(int) => int,
        Err(never) => match never {},
    }
}

/// Several lists of ids as a list.
pub(crate) fn lists<'py>(py: Python<'py>, lists: &[Vec<u32>]) -> PyResult<Bound<'py, PyList>> {
    let outer = PyList::empty(py);
    for ids in lists {
        outer.append(list(py, ids)?)?;
    }
    Ok(outer)
}
