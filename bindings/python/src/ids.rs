//! Lists of ids, and the texts of ids, as Python objects.
//!
//! Both tables hold objects that are made when they are first needed, so that a text that repeats
//! its tokens allocates nothing for them. A process that sees the whole vocabulary holds 9 MB of
//! numbers and 16 MB of texts, and never more.

use std::sync::OnceLock;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyInt, PyList, PyString};

/// An object for each id of the vocabulary. Neither numbers nor strings are known to the garbage
/// collector, so that making one runs no code of the caller.
type Table<T> = PyOnceLock<Vec<OnceLock<Py<T>>>>;

static INTS: Table<PyInt> = PyOnceLock::new();
static TEXTS: Table<PyString> = PyOnceLock::new();

#[inline]
fn table<T>(py: Python<'_>, table: &'static Table<T>) -> &'static [OnceLock<Py<T>>] {
    table.get_or_init(py, || {
        let slots = std::iter::repeat_with(OnceLock::new);
        slots.take(logue_o200k::VOCABULARY_SIZE).collect()
    })
}

#[inline]
fn slot<T>(table: &[OnceLock<Py<T>>], id: u32) -> Option<&OnceLock<Py<T>>> {
    usize::try_from(id).ok().and_then(|id| table.get(id))
}

/// The ids as a list.
pub(crate) fn list<'py>(py: Python<'py>, ids: &[u32]) -> PyResult<Bound<'py, PyList>> {
    let ints = table(py, &INTS);
    let ids = ids.iter().map(|id| match slot(ints, *id) {
        Some(slot) => slot.get_or_init(|| int(py, *id).unbind()).bind(py).clone(),
        None => int(py, *id),
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

/// Returns whether the text of an id was already asked for, and is there.
#[inline]
pub(crate) fn is_text(py: Python<'_>, id: u32) -> bool {
    slot(table(py, &TEXTS), id).is_some_and(|slot| slot.get().is_some())
}

/// The text of an id; `None` for an id that is unknown or part of a character.
#[inline]
pub(crate) fn text(py: Python<'_>, id: u32) -> Option<Bound<'_, PyString>> {
    let slot = slot(table(py, &TEXTS), id)?;
    if let Some(text) = slot.get() {
        return Some(text.bind(py).clone());
    }
    let text = std::str::from_utf8(logue_o200k::token_bytes(id)?).ok()?;
    let text = slot.get_or_init(|| PyString::new(py, text).unbind());
    Some(text.bind(py).clone())
}
