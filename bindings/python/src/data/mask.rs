//! Masks of rows.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::ArrayRef;
use arrow_array::builder::{
    BooleanBuilder, Int8Builder, Int32Builder, Int64Builder, ListBuilder, StringBuilder,
    StructBuilder,
};
use arrow_schema::{DataType, Field, Fields};
use logue_data::mask::{Columns, MaskSpan, Masked, Masker, write_masked};
use logue_data::{Refusal, Tokenizer};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::mask_options::{MaskArguments, refused};
use super::results::{Results, refusals, require_countable};
use super::rows::{self, Rows};
use crate::batch::{Exported, table};
use crate::error;

/// The label of a token that is not trained.
const UNTRAINED: i32 = -100;

/// A row with its token ids and mask.
#[pyclass(frozen, module = "openchatml.data", name = "Masked")]
pub(crate) struct MaskedRow {
    ids: Vec<u32>,
    trained: Vec<bool>,
    text: String,
    spans: Vec<MaskSpan>,
    trained_texts: Vec<String>,
}

impl MaskedRow {
    fn new(masked: Masked<'_>) -> Self {
        Self {
            ids: masked.ids.to_vec(),
            trained: masked.trained.to_vec(),
            text: masked.text.to_owned(),
            spans: masked.spans.to_vec(),
            trained_texts: masked.trained_texts().map(str::to_owned).collect(),
        }
    }
}

#[pymethods]
impl MaskedRow {
    /// The token ids.
    #[getter]
    fn input_ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, &self.ids)
    }

    /// The ids, and -100 for tokens that are not trained.
    #[getter]
    fn labels<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, labels(&self.ids, &self.trained))
    }

    /// 1 for each token.
    #[getter]
    fn attention_mask<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, vec![1; self.ids.len()])
    }

    /// 1 for each trained token, else 0.
    #[getter]
    fn assistant_masks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, flags(&self.trained))
    }

    /// The rendered text of the whole row.
    #[getter]
    fn text(&self) -> &str {
        &self.text
    }

    /// The texts of consecutive trained tokens.
    #[getter]
    fn trained_texts(&self) -> Vec<String> {
        self.trained_texts.clone()
    }

    /// The spans of the text, in bytes.
    #[getter]
    fn spans<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for span in &self.spans {
            let dict = PyDict::new(py);
            dict.set_item("start", span.start)?;
            dict.set_item("end", span.end)?;
            dict.set_item("class", span.class.as_str())?;
            dict.set_item("message", span.message)?;
            dict.set_item("trained", span.trained)?;
            list.append(dict)?;
        }
        Ok(list)
    }

    fn __len__(&self) -> usize {
        self.ids.len()
    }

    fn __repr__(&self) -> String {
        let trained = self.trained.iter().filter(|trained| **trained).count();
        format!("<Masked {} tokens, {trained} trained>", self.ids.len())
    }
}

fn labels(ids: &[u32], trained: &[bool]) -> impl ExactSizeIterator<Item = i32> {
    let pairs = ids.iter().zip(trained);
    pairs.map(|(&id, &trained)| if trained { signed(id) } else { UNTRAINED })
}

fn flags(trained: &[bool]) -> impl ExactSizeIterator<Item = i8> {
    trained.iter().map(|trained| i8::from(*trained))
}

/// An id as a column has it; vocabularies are far smaller.
fn signed(id: u32) -> i32 {
    i32::try_from(id).unwrap_or(i32::MAX)
}

/// Renders rows and marks the trained tokens, as `logue data mask` does.
#[pyclass(frozen, module = "openchatml.data", name = "Masker")]
pub(crate) struct RowMasker {
    form: String,
    named: Py<PyDict>,
    arguments: MaskArguments,
    /// The tokenizer that those of threads are duplicates of.
    tokenizer: Mutex<Box<dyn Tokenizer>>,
    /// Maskers that no thread uses, with their caches.
    free: Mutex<Vec<Masker>>,
}

impl RowMasker {
    fn take(&self) -> Masker {
        let free = self
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        free.unwrap_or_else(|| {
            let tokenizer = self
                .tokenizer
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let masker = Masker::new(self.arguments.options.clone(), tokenizer.duplicate());
            match &self.arguments.template {
                Some(template) => masker.with_template(Arc::clone(template)),
                None => masker,
            }
        })
    }

    /// Masks a row in any thread.
    fn with_masked<R>(&self, row: &[u8], take: impl FnOnce(Masked<'_>) -> R) -> Result<R, Refusal> {
        let mut masker = self.take();
        let result = masker.mask(row).map(take);
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.push(masker);
        result
    }
}

#[pymethods]
impl RowMasker {
    #[new]
    #[pyo3(
        signature = (form, **options),
        text_signature = "(form, *, tokenizer=None, template=None, tokenizer_config=None, \
            variables=None, stops=(), allow_dropped=False, shape='auto', classes=None, \
            roles=('assistant',), marks=('weight',), reasoning='finished', \
            train_without_reasoning=False, drop_trailing=False, allow_untrained_stop=False, \
            max_tokens=None, truncation='refuse', effort='medium', date=None, columns=None)"
    )]
    fn construct(
        py: Python<'_>,
        form: String,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let named = match options {
            Some(options) => options.copy()?,
            None => PyDict::new(py),
        };
        let (arguments, tokenizer) = MaskArguments::new(py, &form, &named)?;
        let created = Self {
            form,
            named: named.unbind(),
            arguments,
            tokenizer: Mutex::new(tokenizer),
            free: Mutex::new(Vec::new()),
        };
        let masker = created.take();
        let checked = masker.check_tokenizer();
        checked.map_err(|refusal| refused(py, &refusal))?;
        created
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(masker);
        Ok(created)
    }

    fn __getnewargs_ex__<'py>(&'py self, py: Python<'py>) -> ((&'py str,), Bound<'py, PyDict>) {
        ((&self.form,), self.named.bind(py).clone())
    }

    /// Masks a row.
    fn mask(&self, py: Python<'_>, row: &Bound<'_, PyAny>) -> PyResult<MaskedRow> {
        rows::one(py, row, |row| self.with_masked(row, MaskedRow::new))
    }

    /// Returns the line of `logue data mask` for a row, without its end.
    fn line(&self, py: Python<'_>, row: &Bound<'_, PyAny>) -> PyResult<String> {
        let columns = self.arguments.columns;
        let line = rows::one(py, row, |row| {
            self.with_masked(row, |masked| {
                let mut line = Vec::new();
                write_masked(masked, columns, &mut line);
                line.pop();
                line
            })
        })?;
        String::from_utf8(line).map_err(|_| error::invalid(py, "the line is not UTF-8"))
    }

    /// Masks rows to the chosen columns, `code` and `message`.
    #[pyo3(signature = (rows, *, num_threads=None))]
    fn mask_batch(
        &self,
        py: Python<'_>,
        rows: &Bound<'_, PyAny>,
        num_threads: Option<usize>,
    ) -> PyResult<Exported> {
        let rows = Rows::import(rows)?;
        py.detach(|| {
            let columns = self.arguments.columns;
            let results = rows.each(num_threads, |row| {
                self.with_masked(row, |masked| Copied::new(masked, columns))
            });
            columns_of(&results, columns)
        })
    }
}

/// The parts of a masked row that its columns need.
struct Copied {
    ids: Vec<u32>,
    trained: Vec<bool>,
    text: String,
    spans: Vec<MaskSpan>,
}

impl Copied {
    fn new(masked: Masked<'_>, columns: Columns) -> Self {
        Self {
            ids: masked.ids.to_vec(),
            trained: masked.trained.to_vec(),
            text: if columns.text {
                masked.text.to_owned()
            } else {
                String::new()
            },
            spans: if columns.spans {
                masked.spans.to_vec()
            } else {
                Vec::new()
            },
        }
    }
}

fn columns_of(results: &Results<Copied>, columns: Columns) -> PyResult<Exported> {
    let done = || results.iter().flatten();
    require_countable(done().map(|row| row.ids.len()))?;
    require_countable(done().map(|row| row.text.len()))?;
    require_countable(done().map(|row| row.spans.len() * 16))?;
    let mut out: Vec<(&str, ArrayRef)> = Vec::new();
    if columns.input_ids {
        let ids = |row: &Copied, list: &mut Int32Builder| {
            list.extend(row.ids.iter().map(|id| Some(signed(*id))));
        };
        out.push(("input_ids", lists(results, Int32Builder::new(), ids)));
    }
    if columns.labels {
        let ids = |row: &Copied, list: &mut Int32Builder| {
            list.extend(labels(&row.ids, &row.trained).map(Some));
        };
        out.push(("labels", lists(results, Int32Builder::new(), ids)));
    }
    if columns.attention_mask {
        let ones = |row: &Copied, list: &mut Int8Builder| {
            list.append_value_n(1, row.ids.len());
        };
        out.push(("attention_mask", lists(results, Int8Builder::new(), ones)));
    }
    if columns.assistant_masks {
        let marks = |row: &Copied, list: &mut Int8Builder| {
            list.extend(flags(&row.trained).map(Some));
        };
        out.push(("assistant_masks", lists(results, Int8Builder::new(), marks)));
    }
    if columns.text {
        let mut text = StringBuilder::new();
        for result in results {
            text.append_option(result.as_ref().ok().map(|row| &row.text));
        }
        out.push(("text", Arc::new(text.finish())));
    }
    if columns.spans {
        let spans = StructBuilder::from_fields(span_fields(), 0);
        out.push(("spans", lists(results, spans, append_spans)));
    }
    out.extend(refusals(results));
    Ok(table(out))
}

/// A list for each row, null for a refused one.
fn lists<B: arrow_array::builder::ArrayBuilder>(
    results: &Results<Copied>,
    values: B,
    append: impl Fn(&Copied, &mut B),
) -> ArrayRef {
    let mut lists = ListBuilder::new(values);
    for result in results {
        if let Ok(row) = result {
            append(row, lists.values());
        }
        lists.append(result.is_ok());
    }
    Arc::new(lists.finish())
}

fn span_fields() -> Fields {
    let number = |name: &str| Field::new(name, DataType::Int64, false);
    Fields::from(vec![
        number("start"),
        number("end"),
        Field::new("class", DataType::Utf8, false),
        number("message"),
        Field::new("trained", DataType::Boolean, false),
    ])
}

fn append_spans(row: &Copied, list: &mut StructBuilder) {
    let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    for span in &row.spans {
        for (index, value) in [(0, span.start), (1, span.end), (3, span.message)] {
            if let Some(field) = list.field_builder::<Int64Builder>(index) {
                field.append_value(number(value));
            }
        }
        if let Some(field) = list.field_builder::<StringBuilder>(2) {
            field.append_value(span.class.as_str());
        }
        if let Some(field) = list.field_builder::<BooleanBuilder>(4) {
            field.append_value(span.trained);
        }
        list.append(true);
    }
}
