//! Keys of rows, by which an engine finds candidates, and their verification.

use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder};
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array};
use logue_data::FieldPath;
use logue_data::duplicates::{
    DEFAULT_SHINGLE, DEFAULT_THRESHOLD, DuplicateKeys, DuplicateRules, RowComparison,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::results::{refusals, require_countable};
use super::rows::{self, Rows};
use crate::batch::{Exported, table};
use crate::encoding::{parallel, threads};
use crate::error;
use crate::items::Items;

/// The keys of a row.
#[pyclass(
    frozen,
    get_all,
    eq,
    module = "openchatml.data",
    name = "DuplicateKeys"
)]
#[derive(PartialEq)]
pub(crate) struct Keys {
    /// The hash of the folded text; `None` for a row without text.
    text: Option<i64>,
    /// The keys of near duplicates.
    bands: Vec<i64>,
}

impl From<DuplicateKeys> for Keys {
    fn from(keys: DuplicateKeys) -> Self {
        Self {
            text: keys.text.map(u64::cast_signed),
            bands: keys.bands.into_iter().map(u64::cast_signed).collect(),
        }
    }
}

#[pymethods]
impl Keys {
    fn __repr__(&self) -> String {
        let text = self.text.map_or_else(
            || "no text".to_owned(),
            |text| format!("{:016x}", text.cast_unsigned()),
        );
        format!("<DuplicateKeys {text}, {} bands>", self.bands.len())
    }
}

/// The comparison of two rows.
#[pyclass(
    frozen,
    get_all,
    eq,
    module = "openchatml.data",
    name = "RowComparison"
)]
#[derive(PartialEq)]
pub(crate) struct Comparison {
    /// Whether the folded texts are equal.
    is_exact: bool,
    /// Whether one row is a duplicate of the other by the rules.
    is_duplicate: bool,
    /// The shingles in both rows.
    shared: u32,
    /// The shingles in at least one row.
    united: u32,
    /// The Jaccard index.
    jaccard: f64,
}

impl Comparison {
    fn new(rules: &DuplicateRules, compared: RowComparison) -> Self {
        Self {
            is_exact: compared.is_exact,
            is_duplicate: rules.is_duplicate(compared),
            shared: compared.overlap.shared,
            united: compared.overlap.united,
            jaccard: compared.overlap.jaccard(),
        }
    }
}

#[pymethods]
impl Comparison {
    fn __repr__(&self) -> String {
        let (shared, united) = (self.shared, self.united);
        format!("<RowComparison {:.3} ({shared} of {united})>", self.jaccard)
    }
}

/// The rules by which rows are duplicates, as those of `logue data dedup`.
#[pyclass(frozen, module = "openchatml.data", name = "DuplicateRules")]
pub(crate) struct Rules {
    inner: DuplicateRules,
    threshold: f64,
    shingle: usize,
    exact_only: bool,
    fields: Vec<String>,
}

#[pymethods]
impl Rules {
    #[new]
    #[pyo3(signature = (threshold=DEFAULT_THRESHOLD, *, shingle=DEFAULT_SHINGLE, exact_only=false, fields=Items::default()),
        text_signature = "(threshold=0.8, *, shingle=5, exact_only=False, fields=())")]
    fn construct(
        py: Python<'_>,
        threshold: f64,
        shingle: usize,
        exact_only: bool,
        fields: Items<String>,
    ) -> PyResult<Self> {
        if !(threshold > 0.0 && threshold <= 1.0) {
            let message = format!("the threshold {threshold} is not above 0 and at most 1");
            return Err(error::invalid(py, &message));
        }
        if shingle == 0 {
            return Err(error::invalid(py, "a shingle has at least one word"));
        }
        let fields = fields.0;
        Ok(Self {
            inner: DuplicateRules::new(threshold)
                .with_shingle(shingle)
                .with_exact_only(exact_only)
                .with_fields(fields.iter().map(FieldPath::new).collect()),
            threshold,
            shingle,
            exact_only,
            fields,
        })
    }

    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<((f64,), Bound<'py, PyDict>)> {
        let named = PyDict::new(py);
        named.set_item("shingle", self.shingle)?;
        named.set_item("exact_only", self.exact_only)?;
        named.set_item("fields", &self.fields)?;
        Ok(((self.threshold,), named))
    }

    /// Returns the keys of a row.
    fn keys(&self, py: Python<'_>, row: &Bound<'_, PyAny>) -> PyResult<Keys> {
        rows::one(py, row, |row| self.inner.keys(row)).map(Keys::from)
    }

    /// Returns the columns `text`, `bands`, `code` and `message`.
    #[pyo3(signature = (rows, *, num_threads=None))]
    fn keys_batch(
        &self,
        py: Python<'_>,
        rows: &Bound<'_, PyAny>,
        num_threads: Option<usize>,
    ) -> PyResult<Exported> {
        let rows = Rows::import(rows)?;
        py.detach(|| {
            let results = rows.each(num_threads, |row| self.inner.keys(row).map(Keys::from));
            require_countable(results.iter().flatten().map(|keys| keys.bands.len()))?;
            let texts = results.iter().map(|row| row.as_ref().ok()?.text);
            let texts: Int64Array = texts.collect();
            let mut bands = ListBuilder::new(Int64Builder::new());
            for result in &results {
                if let Ok(keys) = result {
                    bands.values().append_slice(&keys.bands);
                }
                bands.append(result.is_ok());
            }
            let mut columns: Vec<(&str, ArrayRef)> = vec![
                ("text", Arc::new(texts)),
                ("bands", Arc::new(bands.finish())),
            ];
            columns.extend(refusals(&results));
            Ok(table(columns))
        })
    }

    /// Compares two rows.
    fn compare(
        &self,
        py: Python<'_>,
        row: &Bound<'_, PyAny>,
        other: &Bound<'_, PyAny>,
    ) -> PyResult<Comparison> {
        let second = rows::row(other)?;
        let result = rows::one(py, row, |row| {
            rows::bounded(&second, |second| self.inner.compare(row, second))
        })?;
        Ok(Comparison::new(&self.inner, result))
    }

    /// Compares each row with the other at its place.
    ///
    /// Returns the columns `is_duplicate`, `is_exact`, `shared`, `united`, `jaccard`, `code` and
    /// `message`.
    #[pyo3(signature = (rows, others, *, num_threads=None))]
    fn compare_batch(
        &self,
        py: Python<'_>,
        rows: &Bound<'_, PyAny>,
        others: &Bound<'_, PyAny>,
        num_threads: Option<usize>,
    ) -> PyResult<Exported> {
        let (rows, others) = (Rows::import(rows)?, Rows::import(others)?);
        let (rows, others) = (rows.all(), others.all());
        if rows.len() != others.len() {
            let message = format!("{} rows and {} others", rows.len(), others.len());
            return Err(PyValueError::new_err(message));
        }
        let pairs: Vec<_> = rows.into_iter().zip(others).collect();
        py.detach(|| {
            let results = parallel(&pairs, threads(num_threads), |(row, other)| {
                let (Some(row), Some(other)) = (row, other) else {
                    return Err(rows::null());
                };
                let compared = rows::bounded(row, |row| {
                    rows::bounded(other, |other| self.inner.compare(row, other))
                });
                compared.map(|compared| Comparison::new(&self.inner, compared))
            });
            let done = || results.iter().map(|result| result.as_ref().ok());
            let flag = |of: fn(&Comparison) -> bool| -> ArrayRef {
                Arc::new(done().map(|row| row.map(of)).collect::<BooleanArray>())
            };
            let number = |of: fn(&Comparison) -> u32| -> ArrayRef {
                let numbers = done().map(|row| row.map(|row| i64::from(of(row))));
                Arc::new(numbers.collect::<Int64Array>())
            };
            let jaccard = done().map(|row| row.map(|row| row.jaccard));
            let mut columns: Vec<(&str, ArrayRef)> = vec![
                ("is_duplicate", flag(|row| row.is_duplicate)),
                ("is_exact", flag(|row| row.is_exact)),
                ("shared", number(|row| row.shared)),
                ("united", number(|row| row.united)),
                ("jaccard", Arc::new(jaccard.collect::<Float64Array>())),
            ];
            columns.extend(refusals(&results));
            Ok(table(columns))
        })
    }
}
