//! Many texts at once, as Arrow arrays in and out.

use std::sync::Arc;

use arrow_array::builder::{
    BooleanBuilder, LargeListBuilder, LargeStringBuilder, ListBuilder, StringBuilder,
    StructBuilder, UInt32Builder, UInt64Builder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, StructArray};
use arrow_schema::{DataType, Field, Fields};
use logue_o200k::SpecialSet;
use openchatml::Dialect;
use openchatml::harmony::HarmonyReadOptions;
use openchatml_arrow::ColumnChoice;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyString};

use crate::convert::convert_text;
use crate::document::read_contents;
use crate::encoding::{count_text, encode_text, parallel, threads};
use crate::error;
use crate::input;
use crate::items::Items;
use crate::special::Kind;

/// An Arrow array, for any package that has the Arrow C interface.
#[pyclass(frozen, module = "openchatml", name = "ArrowArray")]
pub(crate) struct Exported(pub(crate) ArrayRef);

#[pymethods]
impl Exported {
    /// The capsules of the array. A requested schema is not honoured, as the interface allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        is_capsule(requested_schema)?;
        openchatml_arrow::export(py, &*self.0)
    }

    /// The capsule of a stream of one batch; only for arrays with columns.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        is_capsule(requested_schema)?;
        let Some(columns) = self.0.as_struct_opt() else {
            return Err(PyTypeError::new_err("only an array of structs is a table"));
        };
        openchatml_arrow::export_stream(py, columns.clone())
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __repr__(&self) -> String {
        format!("<ArrowArray {}: {} rows>", self.0.data_type(), self.0.len())
    }
}

/// A requested schema is a capsule or absent.
fn is_capsule(requested_schema: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    if let Some(schema) = requested_schema {
        schema.cast::<PyCapsule>()?;
    }
    Ok(())
}

const TEXTS: ColumnChoice<'_> = ColumnChoice {
    names: &["text"],
    fits: is_text,
    takes_first: false,
    content: "texts or ids",
};

const IDS: ColumnChoice<'_> = ColumnChoice {
    names: &["input_ids", "ids"],
    fits: is_list,
    takes_first: false,
    content: "texts or ids",
};

/// The arrays of texts: an array, or the only column or the column `text` of a table.
struct Texts(Vec<ArrayRef>);

impl Texts {
    fn import(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Some(arrays) = openchatml_arrow::import(object, &TEXTS)? {
            return Ok(Self(arrays));
        }
        let items: Items<Option<Bound<'_, PyString>>> =
            object.extract().map_err(|error: PyErr| {
                if !error.is_instance_of::<PyTypeError>(object.py()) {
                    return error;
                }
                PyTypeError::new_err("expected an Arrow array of strings, or a list of str")
            })?;
        let mut texts = LargeStringBuilder::new();
        for item in &items.0 {
            match item {
                Some(text) => texts.append_value(input::utf8(text)?),
                None => texts.append_null(),
            }
        }
        let array = texts.finish();
        Ok(Self(vec![Arc::new(array)]))
    }

    /// Every text; a null is `None`.
    fn all(&self) -> Vec<Option<&str>> {
        let mut out = Vec::new();
        for array in &self.0 {
            match array.data_type() {
                DataType::Utf8 => out.extend(array.as_string::<i32>().iter()),
                DataType::LargeUtf8 => out.extend(array.as_string::<i64>().iter()),
                _ => out.extend(array.as_string_view().iter()),
            }
        }
        out
    }
}

const fn is_text(kind: &DataType) -> bool {
    matches!(
        kind,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

fn kind(py: Python<'_>, name: &str) -> PyResult<Kind> {
    Kind::parse(name).ok_or_else(|| {
        let message = format!("unknown encoding `{name}`; known are o200k_base, o200k_harmony");
        error::invalid(py, &message)
    })
}

/// The encoding of a name, and the specials that texts may hold.
fn kind_and_specials(
    py: Python<'_>,
    name: &str,
    allow_specials: bool,
) -> PyResult<(Kind, SpecialSet)> {
    let kind = kind(py, name)?;
    let allowed = if allow_specials {
        kind.specials()
    } else {
        SpecialSet::NONE
    };
    Ok((kind, allowed))
}

/// Encodes texts to a list of ids for each.
#[pyfunction]
#[pyo3(signature = (texts, encoding="o200k_harmony", *, allow_specials=false, num_threads=None))]
pub(crate) fn encode_array(
    py: Python<'_>,
    texts: &Bound<'_, PyAny>,
    encoding: &str,
    allow_specials: bool,
    num_threads: Option<usize>,
) -> PyResult<Exported> {
    let (kind, allowed) = kind_and_specials(py, encoding, allow_specials)?;
    let texts = Texts::import(texts)?;
    Ok(py.detach(|| {
        let ids = parallel(&texts.all(), threads(num_threads), |text| {
            text.map(|text| encode_text(kind, text, &allowed))
        });
        let mut out = LargeListBuilder::new(UInt32Builder::new())
            .with_field(Field::new_list_field(DataType::UInt32, false));
        for ids in &ids {
            if let Some(ids) = ids {
                out.values().append_slice(ids);
            }
            out.append(ids.is_some());
        }
        Exported(Arc::new(out.finish()))
    }))
}

/// Counts the tokens of each text.
#[pyfunction]
#[pyo3(signature = (texts, encoding="o200k_harmony", *, allow_specials=false, num_threads=None))]
pub(crate) fn count_array(
    py: Python<'_>,
    texts: &Bound<'_, PyAny>,
    encoding: &str,
    allow_specials: bool,
    num_threads: Option<usize>,
) -> PyResult<Exported> {
    let (kind, allowed) = kind_and_specials(py, encoding, allow_specials)?;
    let texts = Texts::import(texts)?;
    Ok(py.detach(|| {
        let counts = parallel(&texts.all(), threads(num_threads), |text| {
            text.map(|text| count_text(kind, text, &allowed) as u64)
        });
        Exported(Arc::new(arrow_array::UInt64Array::from(counts)))
    }))
}

const fn is_list(kind: &DataType) -> bool {
    matches!(kind, DataType::List(_) | DataType::LargeList(_))
}

/// The ids of an array; a null or a number out of range is `u32::MAX`, which is not in the
/// vocabulary.
fn ids_of(array: &dyn Array) -> Vec<u32> {
    match array.data_type() {
        DataType::UInt32 => numbers::<UInt32Type>(array),
        DataType::Int32 => numbers::<Int32Type>(array),
        DataType::Int64 => numbers::<Int64Type>(array),
        _ => numbers::<UInt64Type>(array),
    }
}

fn numbers<T: ArrowPrimitiveType<Native: TryInto<u32>>>(array: &dyn Array) -> Vec<u32> {
    let ids = array.as_primitive::<T>().iter();
    ids.map(|id| id.and_then(|id| id.try_into().ok()).unwrap_or(u32::MAX))
        .collect()
}

/// Decodes lists of ids; invalid UTF-8 and unknown ids are U+FFFD.
#[pyfunction]
#[pyo3(signature = (ids, encoding="o200k_harmony", *, num_threads=None))]
pub(crate) fn decode_array(
    py: Python<'_>,
    ids: &Bound<'_, PyAny>,
    encoding: &str,
    num_threads: Option<usize>,
) -> PyResult<Exported> {
    let kind = kind(py, encoding)?;
    let arrays = openchatml_arrow::import(ids, &IDS)?
        .ok_or_else(|| PyTypeError::new_err("expected an Arrow array of lists of ids"))?;
    Ok(py.detach(|| {
        let mut rows: Vec<Option<ArrayRef>> = Vec::new();
        for array in &arrays {
            match array.data_type() {
                DataType::List(_) => rows.extend(array.as_list::<i32>().iter()),
                _ => rows.extend(array.as_list::<i64>().iter()),
            }
        }
        let texts = parallel(&rows, threads(num_threads), |row| {
            row.as_ref().map(|row| {
                let mut bytes = Vec::new();
                for id in ids_of(row) {
                    let token = kind.bytes(id).unwrap_or("\u{FFFD}".as_bytes());
                    bytes.extend_from_slice(token);
                }
                String::from_utf8_lossy(&bytes).into_owned()
            })
        });
        Exported(Arc::new(arrow_array::LargeStringArray::from(texts)))
    }))
}

/// The fields of a message.
fn message_fields() -> Fields {
    let text = |name: &str, nullable| Field::new(name, DataType::LargeUtf8, nullable);
    let word = |name: &str| Field::new(name, DataType::Utf8, true);
    Fields::from(vec![
        word("role"),
        word("name"),
        word("channel"),
        word("recipient"),
        word("content_type"),
        word("call_id"),
        text("text", false),
        word("end"),
        Field::new("complete", DataType::Boolean, false),
        Field::new("visible", DataType::Boolean, false),
    ])
}

/// Reads conversations to the columns `messages` and `diagnostics`.
#[pyfunction]
#[pyo3(signature = (texts, dialect=None, *, start_role=None, tools=Items::default(), num_threads=None),
    text_signature = "(texts, dialect=None, *, start_role=None, tools=(), num_threads=None)")]
pub(crate) fn parse_array(
    py: Python<'_>,
    texts: &Bound<'_, PyAny>,
    dialect: Option<&str>,
    start_role: Option<&Bound<'_, PyAny>>,
    tools: Items<String>,
    num_threads: Option<usize>,
) -> PyResult<Exported> {
    let dialect: Option<Dialect> = input::dialect(py, dialect)?;
    let options = HarmonyReadOptions::default()
        .with_start_role(input::role(start_role)?)
        .with_tools(tools.0);
    let texts = Texts::import(texts)?;
    Ok(py.detach(|| {
        let read = parallel(&texts.all(), threads(num_threads), |text| {
            text.map(|text| read_contents(text.as_bytes(), dialect, &options))
        });
        let messages = StructBuilder::from_fields(message_fields(), 0);
        let mut messages = LargeListBuilder::new(messages);
        let mut codes = ListBuilder::new(StringBuilder::new());
        for row in &read {
            for message in row.iter().flat_map(|(messages, _)| messages) {
                let row = messages.values();
                for (index, word) in message.words().into_iter().enumerate() {
                    // The text is the seventh field.
                    let index = if index < 6 { index } else { index + 1 };
                    if let Some(field) = row.field_builder::<StringBuilder>(index) {
                        field.append_option(word);
                    }
                }
                if let Some(field) = row.field_builder::<LargeStringBuilder>(6) {
                    field.append_value(message.body());
                }
                if let Some(field) = row.field_builder::<BooleanBuilder>(8) {
                    field.append_value(message.is_complete());
                }
                if let Some(field) = row.field_builder::<BooleanBuilder>(9) {
                    field.append_value(!message.is_hidden());
                }
                row.append(true);
            }
            for code in row.iter().flat_map(|(_, codes)| codes) {
                codes.values().append_value(code.as_str());
            }
            messages.append(row.is_some());
            codes.append(row.is_some());
        }
        table(vec![
            ("messages", Arc::new(messages.finish())),
            ("diagnostics", Arc::new(codes.finish())),
        ])
    }))
}

/// Converts conversations to the columns `text`, `losses` and `error`.
#[pyfunction]
#[pyo3(signature = (texts, to, *, dialect=None, thinking=false, num_threads=None))]
pub(crate) fn convert_array(
    py: Python<'_>,
    texts: &Bound<'_, PyAny>,
    to: &str,
    dialect: Option<&str>,
    thinking: bool,
    num_threads: Option<usize>,
) -> PyResult<Exported> {
    let how = crate::convert::How::new(py, to, dialect, None, thinking, true)?;
    let texts = Texts::import(texts)?;
    Ok(py.detach(|| {
        let written = parallel(&texts.all(), threads(num_threads), |text| {
            text.map(|text| convert_text(text.as_bytes(), &how))
        });
        let mut text = LargeStringBuilder::new();
        let mut errors = StringBuilder::new();
        let mut losses = ListBuilder::new(StringBuilder::new());
        let mut count = UInt64Builder::new();
        for row in &written {
            match row {
                None => {
                    text.append_null();
                    errors.append_null();
                    losses.append(false);
                    count.append_null();
                }
                Some(Ok(row)) => {
                    text.append_value(&row.text);
                    errors.append_null();
                    for loss in &row.losses {
                        losses.values().append_value(loss.kind.as_str());
                    }
                    losses.append(true);
                    count.append_value(row.diagnostics as u64);
                }
                Some(Err(error)) => {
                    text.append_null();
                    errors.append_value(error);
                    losses.append(true);
                    count.append_null();
                }
            }
        }
        table(vec![
            ("text", Arc::new(text.finish())),
            ("losses", Arc::new(losses.finish())),
            ("diagnostics", Arc::new(count.finish())),
            ("error", Arc::new(errors.finish())),
        ])
    }))
}

/// A table of columns.
pub(crate) fn table(columns: Vec<(&str, ArrayRef)>) -> Exported {
    let columns = columns.into_iter().map(|(name, column)| {
        let field = Field::new(name, column.data_type().clone(), true);
        (Arc::new(field), column)
    });
    Exported(Arc::new(StructArray::from(columns.collect::<Vec<_>>())))
}
