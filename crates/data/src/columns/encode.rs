//! Columns from rows of JSON lines.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{
    BooleanBuilder, Float64Builder, Int32Builder, Int64Builder, ListBuilder, StringBuilder,
};
use arrow_schema::{DataType, Field, Fields, Schema};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::kinds::{Column, Columns, Kind, Scalar};

/// The extension of JSON texts, by which readers recognize them.
const EXTENSION: (&str, &str) = ("ARROW:extension:name", "arrow.json");
/// The metadata of that extension, which has none.
const NO_METADATA: (&str, &str) = ("ARROW:extension:metadata", "");

/// Returns the schema of the columns, with the types of the `datasets` library.
pub(super) fn schema(columns: &Columns) -> Schema {
    let fields: Fields = columns.0.iter().map(field).collect();
    let features = columns
        .0
        .iter()
        .map(|column| (column.name.clone(), feature(column.kind)));
    let features: Map<String, Value> = features.collect();
    let info = json!({"info": {"features": features}});
    Schema::new_with_metadata(fields, [("huggingface", info.to_string())])
}

fn field(column: &Column) -> Field {
    match column.kind {
        Kind::One(scalar) => scalar_field(&column.name, of_column(scalar)),
        Kind::List(scalar) => Field::new(
            &column.name,
            DataType::List(Arc::new(scalar_field("element", scalar))),
            true,
        ),
    }
}

/// Returns the type of a column: one with nulls only is JSON, which has a null.
const fn of_column(scalar: Scalar) -> Scalar {
    match scalar {
        Scalar::Null => Scalar::Json,
        other => other,
    }
}

fn scalar_field(name: &str, scalar: Scalar) -> Field {
    let data_type = match scalar {
        Scalar::Null => DataType::Null,
        Scalar::Bool => DataType::Boolean,
        Scalar::Int32 => DataType::Int32,
        Scalar::Int53 | Scalar::Int64 => DataType::Int64,
        Scalar::Float64 => DataType::Float64,
        Scalar::Text | Scalar::Json => DataType::Utf8,
    };
    let field = Field::new(name, data_type, true);
    if scalar == Scalar::Json {
        field.with_metadata([EXTENSION, NO_METADATA])
    } else {
        field
    }
}

/// Returns the feature of a column, as the `datasets` library names it.
fn feature(kind: Kind) -> Value {
    let value = |name: &str| json!({"dtype": name, "_type": "Value"});
    let scalar = |scalar| match scalar {
        Scalar::Null => value("null"),
        Scalar::Bool => value("bool"),
        Scalar::Int32 => value("int32"),
        Scalar::Int53 | Scalar::Int64 => value("int64"),
        Scalar::Float64 => value("float64"),
        Scalar::Text => value("string"),
        Scalar::Json => json!({"_type": "Json"}),
    };
    match kind {
        Kind::One(one) => scalar(of_column(one)),
        Kind::List(one) => json!({"feature": scalar(one), "_type": "List"}),
    }
}

/// The values of a column while rows are added.
pub(super) enum Values {
    Bool(BooleanBuilder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    Float64(Float64Builder),
    Text(StringBuilder),
    Json(StringBuilder),
    List(Box<ListValues>),
}

pub(super) enum ListValues {
    Null(ListBuilder<arrow_array::builder::NullBuilder>),
    Bool(ListBuilder<BooleanBuilder>),
    Int32(ListBuilder<Int32Builder>),
    Int64(ListBuilder<Int64Builder>),
    Float64(ListBuilder<Float64Builder>),
    Text(ListBuilder<StringBuilder>),
    Json(ListBuilder<StringBuilder>),
}

impl Values {
    pub(super) fn new(column: &Column) -> Self {
        match column.kind {
            Kind::One(scalar) => match scalar {
                Scalar::Bool => Self::Bool(BooleanBuilder::new()),
                Scalar::Int32 => Self::Int32(Int32Builder::new()),
                Scalar::Int53 | Scalar::Int64 => Self::Int64(Int64Builder::new()),
                Scalar::Float64 => Self::Float64(Float64Builder::new()),
                Scalar::Text => Self::Text(StringBuilder::new()),
                Scalar::Null | Scalar::Json => Self::Json(StringBuilder::new()),
            },
            Kind::List(scalar) => {
                let item = Arc::new(scalar_field("element", scalar));
                Self::List(Box::new(ListValues::new(scalar, &item)))
            }
        }
    }

    /// Appends the value of a row; `None` if the row has no such member.
    pub(super) fn append(&mut self, raw: Option<&RawValue>) -> Result<(), serde_json::Error> {
        let written = raw.map(RawValue::get);
        let raw = written.filter(|raw| *raw != "null");
        match self {
            Self::Bool(values) => values.append_option(parsed(raw)?),
            Self::Int32(values) => values.append_option(parsed(raw)?),
            Self::Int64(values) => values.append_option(parsed(raw)?),
            Self::Float64(values) => values.append_option(parsed(raw)?),
            Self::Text(values) => values.append_option(parsed::<Cow<'_, str>>(raw)?),
            // A null that is written stays apart from an absent one.
            Self::Json(values) => values.append_option(written),
            Self::List(values) => values.append(raw)?,
        }
        Ok(())
    }

    pub(super) fn finish(self) -> ArrayRef {
        match self {
            Self::Bool(mut values) => Arc::new(values.finish()),
            Self::Int32(mut values) => Arc::new(values.finish()),
            Self::Int64(mut values) => Arc::new(values.finish()),
            Self::Float64(mut values) => Arc::new(values.finish()),
            Self::Text(mut values) | Self::Json(mut values) => Arc::new(values.finish()),
            Self::List(values) => values.finish(),
        }
    }
}

impl ListValues {
    fn new(scalar: Scalar, item: &Arc<Field>) -> Self {
        let item = Arc::clone(item);
        match scalar {
            Scalar::Null => Self::Null(
                ListBuilder::new(arrow_array::builder::NullBuilder::new()).with_field(item),
            ),
            Scalar::Bool => Self::Bool(ListBuilder::new(BooleanBuilder::new()).with_field(item)),
            Scalar::Int32 => Self::Int32(ListBuilder::new(Int32Builder::new()).with_field(item)),
            Scalar::Int53 | Scalar::Int64 => {
                Self::Int64(ListBuilder::new(Int64Builder::new()).with_field(item))
            }
            Scalar::Float64 => {
                Self::Float64(ListBuilder::new(Float64Builder::new()).with_field(item))
            }
            Scalar::Text => Self::Text(ListBuilder::new(StringBuilder::new()).with_field(item)),
            Scalar::Json => Self::Json(ListBuilder::new(StringBuilder::new()).with_field(item)),
        }
    }

    fn append(&mut self, raw: Option<&str>) -> Result<(), serde_json::Error> {
        let is_some = raw.is_some();
        match self {
            Self::Null(list) => {
                for _ in items::<Value>(raw)? {
                    list.values().append_null();
                }
                list.append(is_some);
            }
            Self::Bool(list) => {
                list.values().extend(items(raw)?);
                list.append(is_some);
            }
            Self::Int32(list) => {
                list.values().extend(items(raw)?);
                list.append(is_some);
            }
            Self::Int64(list) => {
                list.values().extend(items(raw)?);
                list.append(is_some);
            }
            Self::Float64(list) => {
                list.values().extend(items(raw)?);
                list.append(is_some);
            }
            Self::Text(list) => {
                list.values().extend(items::<Cow<'_, str>>(raw)?);
                list.append(is_some);
            }
            Self::Json(list) => {
                for item in items::<&RawValue>(raw)? {
                    let item = item.map(RawValue::get).filter(|raw| *raw != "null");
                    list.values().append_option(item);
                }
                list.append(is_some);
            }
        }
        Ok(())
    }

    fn finish(self) -> ArrayRef {
        match self {
            Self::Null(mut list) => Arc::new(list.finish()),
            Self::Bool(mut list) => Arc::new(list.finish()),
            Self::Int32(mut list) => Arc::new(list.finish()),
            Self::Int64(mut list) => Arc::new(list.finish()),
            Self::Float64(mut list) => Arc::new(list.finish()),
            Self::Text(mut list) | Self::Json(mut list) => Arc::new(list.finish()),
        }
    }
}

fn parsed<'r, T: serde::Deserialize<'r>>(
    raw: Option<&'r str>,
) -> Result<Option<T>, serde_json::Error> {
    raw.map(serde_json::from_str).transpose()
}

/// Returns the items of a list; an absent list has none.
fn items<'r, T: serde::Deserialize<'r>>(
    raw: Option<&'r str>,
) -> Result<Vec<Option<T>>, serde_json::Error> {
    raw.map_or_else(|| Ok(Vec::new()), serde_json::from_str)
}
