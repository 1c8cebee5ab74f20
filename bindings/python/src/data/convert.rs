//! Conversion of rows.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{ListBuilder, StringBuilder};
use logue_data::convert::{ConvertedRow, RowConverter, RowForm};
use openchatml::project::JsonFormat;
use openchatml::{Dialect, LossSeverity};
use pyo3::prelude::*;

use super::results::{refusals, require_countable};
use super::rows::{self, Rows};
use crate::batch::{Exported, table};
use crate::convert::Converted;
use crate::error;

/// The form of a name.
fn named_form(py: Python<'_>, name: &str) -> PyResult<RowForm> {
    RowForm::parse(name).ok_or_else(|| {
        let dialects = Dialect::ALL.map(Dialect::as_str).join(", ");
        let formats = JsonFormat::ALL.map(JsonFormat::as_str).join(", ");
        let message = format!("unknown form `{name}`; known are {dialects}, {formats}");
        error::invalid(py, &message)
    })
}

fn converter(
    py: Python<'_>,
    to: &str,
    from: Option<&str>,
    strict: Option<&str>,
    keep_reasoning: bool,
) -> PyResult<RowConverter> {
    let from = from.map(|name| named_form(py, name)).transpose()?;
    let severity = |name: &str| {
        LossSeverity::parse(name).ok_or_else(|| {
            let message =
                format!("unknown severity `{name}`; known are content, structure, identity");
            error::invalid(py, &message)
        })
    };
    Ok(RowConverter::new(named_form(py, to)?)
        .with_from(from)
        .with_strict(strict.map(severity).transpose()?)
        .with_reasoning(keep_reasoning))
}

/// The lines of a row without the last line end.
fn lines(row: &ConvertedRow) -> &str {
    row.lines.strip_suffix('\n').unwrap_or(&row.lines)
}

/// Converts a row to the lines of `logue data convert`.
#[pyfunction]
#[pyo3(name = "convert_row", signature = (row, to, *, form=None, strict=None, keep_reasoning=false))]
pub(crate) fn convert_row(
    py: Python<'_>,
    row: &Bound<'_, PyAny>,
    to: &str,
    form: Option<&str>,
    strict: Option<&str>,
    keep_reasoning: bool,
) -> PyResult<Converted> {
    let converter = converter(py, to, form, strict, keep_reasoning)?;
    let bytes = rows::row(row)?;
    let result = py.detach(|| rows::bounded(&bytes, |row| converter.convert(row)));
    let done = result.map_err(|refusal| error::found(py, &refusal.finding, &bytes))?;
    Converted::new(
        py,
        lines(&done).to_owned(),
        [done.form.as_str(), named_form(py, to)?.as_str()],
        &done.losses,
        (&done.diagnostics, &bytes),
    )
}

/// Converts rows to the columns `row`, `losses`, `code` and `message`.
#[pyfunction]
#[pyo3(signature = (rows, to, *, form=None, strict=None, keep_reasoning=false, num_threads=None))]
pub(crate) fn convert_rows(
    py: Python<'_>,
    rows: &Bound<'_, PyAny>,
    to: &str,
    form: Option<&str>,
    strict: Option<&str>,
    keep_reasoning: bool,
    num_threads: Option<usize>,
) -> PyResult<Exported> {
    let converter = converter(py, to, form, strict, keep_reasoning)?;
    let rows = Rows::import(rows)?;
    py.detach(|| {
        let results = rows.each(num_threads, |row| converter.convert(row));
        let done = || results.iter().flatten();
        require_countable(done().map(|row| row.lines.len()))?;
        require_countable(done().map(|row| row.losses.len() * 32))?;
        let mut text = StringBuilder::new();
        let mut losses = ListBuilder::new(StringBuilder::new());
        for result in &results {
            let row = result.as_ref().ok();
            text.append_option(row.map(lines));
            for loss in row.iter().flat_map(|row| &row.losses) {
                losses.values().append_value(loss.kind.as_str());
            }
            losses.append(row.is_some());
        }
        let mut columns: Vec<(&str, ArrayRef)> = vec![
            ("row", Arc::new(text.finish())),
            ("losses", Arc::new(losses.finish())),
        ];
        columns.extend(refusals(&results));
        Ok(table(columns))
    })
}
