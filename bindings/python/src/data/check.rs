//! Findings of rows.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::ArrayRef;
use arrow_array::builder::{Int64Builder, ListBuilder, StringBuilder, StructBuilder};
use arrow_array::{Int64Array, StringArray};
use arrow_schema::{DataType, Field, Fields};
use logue_data::examine::{Examined, examine};
use logue_data::{O200k, Refusal};
use logue_source::Diagnostic;
use openchatml::project::JsonFormat;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::results::{Results, refusals, require_countable};
use super::rows::{self, Rows};
use crate::batch::{Exported, table};
use crate::{error, finding};

/// Tokenizers that no call uses, with their caches.
static TOKENIZERS: Mutex<Vec<O200k>> = Mutex::new(Vec::new());

fn examined(row: &[u8], form: Option<JsonFormat>) -> Examined {
    let free = || TOKENIZERS.lock().unwrap_or_else(PoisonError::into_inner);
    let taken = free().pop();
    let mut tokenizer = taken.unwrap_or_default();
    let examined = examine(row, form, &mut tokenizer);
    free().push(tokenizer);
    examined
}

fn json_form(py: Python<'_>, name: Option<&str>) -> PyResult<Option<JsonFormat>> {
    let Some(name) = name else { return Ok(None) };
    JsonFormat::parse(name).map(Some).ok_or_else(|| {
        let formats = JsonFormat::ALL.map(JsonFormat::as_str).join(", ");
        let message = format!("unknown form of rows `{name}`; known are {formats}");
        error::invalid(py, &message)
    })
}

/// Returns the findings of a row, as `logue data check` reports them.
#[pyfunction]
#[pyo3(signature = (row, form=None))]
pub(crate) fn check_row<'py>(
    py: Python<'py>,
    row: &Bound<'py, PyAny>,
    form: Option<&str>,
) -> PyResult<Bound<'py, PyTuple>> {
    let form = json_form(py, form)?;
    let bytes = rows::row(row)?;
    let findings = py.detach(|| {
        rows::bounded(&bytes, |row| Ok(examined(row, form).findings))
            .unwrap_or_else(|refusal| vec![*refusal.finding])
    });
    finding::tuple(py, &findings, &bytes)
}

/// Examines rows to the columns `findings`, `form`, the numbers of tokens, `code` and `message`.
#[pyfunction]
#[pyo3(signature = (rows, form=None, *, num_threads=None))]
pub(crate) fn check_rows(
    py: Python<'_>,
    rows: &Bound<'_, PyAny>,
    form: Option<&str>,
    num_threads: Option<usize>,
) -> PyResult<Exported> {
    let form = json_form(py, form)?;
    let rows = Rows::import(rows)?;
    py.detach(|| {
        let all = rows.each(num_threads, |row| Ok(examined(row, form)));
        let all: Vec<Examined> = all
            .into_iter()
            .map(|examined| {
                examined.unwrap_or_else(|refusal| Examined {
                    findings: vec![*refusal.finding],
                    ..Examined::default()
                })
            })
            .collect();
        let lengths = all.iter().flat_map(|row| &row.findings);
        require_countable(lengths.map(|found| found.message.len() + found.code.as_str().len()))?;
        // A row is refused for its first error.
        let refused: Results<()> = all
            .iter()
            .map(
                |row| match row.findings.iter().find(|found| found.is_error()) {
                    Some(found) => Err(Refusal::from(found.clone())),
                    None => Ok(()),
                },
            )
            .collect();
        let measures = || all.iter().map(|row| row.measures.as_ref());
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let forms = measures().map(|row| row.map(|row| row.form));
        let tokens = measures().map(|row| row.map(|row| number(row.tokens)));
        let assistant = measures().map(|row| row.map(|row| number(row.assistant_tokens)));
        let reasoning = measures().map(|row| row.map(|row| number(row.reasoning_tokens)));
        let mut columns: Vec<(&str, ArrayRef)> = vec![
            ("findings", findings(&all)),
            ("form", Arc::new(forms.collect::<StringArray>())),
            ("tokens", Arc::new(tokens.collect::<Int64Array>())),
            (
                "assistant_tokens",
                Arc::new(assistant.collect::<Int64Array>()),
            ),
            (
                "reasoning_tokens",
                Arc::new(reasoning.collect::<Int64Array>()),
            ),
        ];
        columns.extend(refusals(&refused));
        Ok(table(columns))
    })
}

fn findings(all: &[Examined]) -> ArrayRef {
    let field = |name: &str, kind| Field::new(name, kind, false);
    let fields = Fields::from(vec![
        field("code", DataType::Utf8),
        field("severity", DataType::Utf8),
        field("message", DataType::Utf8),
        field("start", DataType::Int64),
        field("end", DataType::Int64),
    ]);
    let mut lists = ListBuilder::new(StructBuilder::from_fields(fields, 0));
    for row in all {
        for found in &row.findings {
            append(lists.values(), found);
        }
        lists.append(true);
    }
    Arc::new(lists.finish())
}

fn append(row: &mut StructBuilder, found: &Diagnostic) {
    let words = [
        found.code.as_str(),
        found.severity.as_str(),
        found.message.as_str(),
    ];
    for (index, word) in words.into_iter().enumerate() {
        if let Some(field) = row.field_builder::<StringBuilder>(index) {
            field.append_value(word);
        }
    }
    for (index, place) in [(3, found.primary.start), (4, found.primary.end)] {
        if let Some(field) = row.field_builder::<Int64Builder>(index) {
            field.append_value(i64::try_from(place).unwrap_or(i64::MAX));
        }
    }
    row.append(true);
}
