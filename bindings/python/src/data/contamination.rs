//! Texts of benchmarks in rows.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{Int64Builder, ListBuilder, StringBuilder, StructBuilder};
use arrow_schema::{DataType, Field, Fields};
use logue_data::contamination::{BenchmarkIndex, BenchmarkRow, DEFAULT_RUN, benchmark_texts};
use logue_data::{FieldPath, Refusal, turns};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::results::{refusals, require_countable};
use super::rows::{self, Rows};
use crate::batch::{Exported, table};
use crate::error;
use crate::items::Items;

/// Words of a message that a benchmark has too.
#[pyclass(
    frozen,
    get_all,
    eq,
    module = "openchatml.data",
    name = "ContaminatedSpan"
)]
#[derive(PartialEq)]
pub(crate) struct CommonWords {
    /// The number of the turn, from 0.
    turn: usize,
    /// The role of the turn.
    speaker: String,
    /// The first byte in the text of the turn.
    start: usize,
    /// The byte after the last one.
    end: usize,
    /// The number of words.
    words: usize,
    /// The words as the turn has them.
    text: String,
    /// The index of the row of the benchmarks.
    benchmark: u64,
    /// The number of words of the text of the benchmark.
    benchmark_words: usize,
}

#[pymethods]
impl CommonWords {
    fn __repr__(&self) -> String {
        let (turn, words, row) = (self.turn, self.words, self.benchmark);
        format!("<ContaminatedSpan turn {turn}: {words} words of benchmark {row}>")
    }
}

/// The words of benchmarks, as `logue data decontaminate` searches them.
#[pyclass(frozen, module = "openchatml.data", name = "BenchmarkIndex")]
pub(crate) struct BenchmarkWords {
    index: BenchmarkIndex,
    fields: Vec<FieldPath>,
    words: usize,
    /// The rows, from which a copy in another process is built.
    benchmarks: Vec<Vec<u8>>,
}

impl BenchmarkWords {
    fn found(&self, row: &[u8]) -> Result<Vec<CommonWords>, Refusal> {
        let turns = turns(row, &self.fields)?;
        let spans = self.index.spans(&turns).into_iter();
        let found = spans.filter_map(|span| {
            let turn = turns.get(span.turn)?;
            Some(CommonWords {
                turn: span.turn,
                speaker: turn.speaker.clone().into_owned(),
                start: span.start,
                end: span.end,
                words: span.words,
                text: turn.text.get(span.start..span.end)?.to_owned(),
                benchmark: span.benchmark.line,
                benchmark_words: span.benchmark_words,
            })
        });
        Ok(found.collect())
    }
}

#[pymethods]
impl BenchmarkWords {
    #[new]
    #[pyo3(signature = (benchmarks, *, words=DEFAULT_RUN, fields=Items::default()),
        text_signature = "(benchmarks, *, words=13, fields=())")]
    fn construct(
        py: Python<'_>,
        benchmarks: Items<Bound<'_, PyAny>>,
        words: usize,
        fields: Items<String>,
    ) -> PyResult<Self> {
        if words == 0 {
            return Err(error::invalid(py, "a run has at least one word"));
        }
        let benchmarks = benchmarks.0.iter();
        let benchmarks: Vec<Vec<u8>> = benchmarks
            .map(|row| rows::row(row).map(std::borrow::Cow::into_owned))
            .collect::<PyResult<_>>()?;
        let index = py.detach(|| {
            let mut index = BenchmarkIndex::new(words);
            for (line, row) in (0..).zip(&benchmarks) {
                index.add(BenchmarkRow { file: 0, line }, &benchmark_texts(row));
            }
            index.finished()
        });
        if index.texts() == 0 {
            let message = "the benchmarks have no text of enough words";
            return Err(error::invalid(py, message));
        }
        Ok(Self {
            index,
            fields: fields.0.into_iter().map(FieldPath::new).collect(),
            words,
            benchmarks,
        })
    }

    #[expect(clippy::type_complexity, reason = "the arguments of the constructor")]
    fn __getnewargs_ex__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<((Vec<Bound<'py, pyo3::types::PyBytes>>,), Bound<'py, PyDict>)> {
        let rows = self.benchmarks.iter();
        let rows = rows.map(|row| pyo3::types::PyBytes::new(py, row)).collect();
        let named = PyDict::new(py);
        named.set_item("words", self.words)?;
        let fields: Vec<String> = self.fields.iter().map(ToString::to_string).collect();
        named.set_item("fields", fields)?;
        Ok(((rows,), named))
    }

    /// The number of texts that can be found.
    #[getter]
    fn texts(&self) -> usize {
        self.index.texts()
    }

    /// The number of texts with too few words.
    #[getter]
    fn too_short(&self) -> u64 {
        self.index.too_short()
    }

    /// Returns the longest common runs of words of a row.
    fn spans<'py>(
        &self,
        py: Python<'py>,
        row: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let found = rows::one(py, row, |row| self.found(row))?;
        PyTuple::new(py, found)
    }

    /// Returns the columns `spans`, `code` and `message`.
    #[pyo3(signature = (rows, *, num_threads=None))]
    fn spans_batch(
        &self,
        py: Python<'_>,
        rows: &Bound<'_, PyAny>,
        num_threads: Option<usize>,
    ) -> PyResult<Exported> {
        let rows = Rows::import(rows)?;
        py.detach(|| {
            let results = rows.each(num_threads, |row| self.found(row));
            let found = results.iter().flatten().flatten();
            require_countable(found.map(|span| span.text.len() + span.speaker.len()))?;
            let mut spans = ListBuilder::new(StructBuilder::from_fields(fields(), 0));
            for result in &results {
                for span in result.iter().flatten() {
                    append(spans.values(), span);
                }
                spans.append(result.is_ok());
            }
            let mut columns: Vec<(&str, ArrayRef)> = vec![("spans", Arc::new(spans.finish()))];
            columns.extend(refusals(&results));
            Ok(table(columns))
        })
    }
}

fn fields() -> Fields {
    let number = |name: &str| Field::new(name, DataType::Int64, false);
    let text = |name: &str| Field::new(name, DataType::Utf8, false);
    Fields::from(vec![
        number("turn"),
        text("speaker"),
        number("start"),
        number("end"),
        number("words"),
        text("text"),
        number("benchmark"),
        number("benchmark_words"),
    ])
}

fn append(row: &mut StructBuilder, span: &CommonWords) {
    let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    for (index, value) in [
        (0, number(span.turn)),
        (2, number(span.start)),
        (3, number(span.end)),
        (4, number(span.words)),
        (6, i64::try_from(span.benchmark).unwrap_or(i64::MAX)),
        (7, number(span.benchmark_words)),
    ] {
        if let Some(field) = row.field_builder::<Int64Builder>(index) {
            field.append_value(value);
        }
    }
    for (index, text) in [(1, &span.speaker), (5, &span.text)] {
        if let Some(field) = row.field_builder::<StringBuilder>(index) {
            field.append_value(text);
        }
    }
    row.append(true);
}
