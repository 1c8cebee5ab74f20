//! Rows of JSON lines from Parquet files.

use std::fs::File;
use std::io;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use serde_json::Value;

use crate::batch::{BATCH_BYTES, BatchRow, Position, RowBatch};
use crate::row::Place;

/// The most rows of a batch; large rows are fewer.
const BATCH_ROWS: usize = 512;

/// A reader of batches of a Parquet file.
pub(crate) struct Rows {
    read: ParquetRecordBatchReader,
    /// The top-level columns, with the JSON texts among them.
    columns: Vec<Shape>,
    next: Position,
}

/// The form of a column.
#[derive(Clone, Debug)]
struct Shape {
    name: String,
    /// Whether its texts, or those of its lists, are JSON.
    is_json: bool,
}

impl Rows {
    /// Reads from `next`, whose offset counts rows.
    pub(crate) fn new(file: File, next: Position) -> io::Result<Self> {
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(io::Error::other)?;
        let schema = builder.schema();
        let features = schema
            .metadata()
            .get("huggingface")
            .and_then(|text| serde_json::from_str::<Value>(text).ok());
        let columns = schema.fields().iter().map(|field| Shape {
            name: field.name().clone(),
            is_json: is_json(field)
                || features.as_ref().is_some_and(|features| {
                    let feature = &features["info"]["features"][field.name()];
                    feature["_type"] == "Json" || feature["feature"]["_type"] == "Json"
                }),
        });
        let columns = columns.collect();
        let largest = builder.metadata().row_groups().iter().map(|group| {
            let rows = group.num_rows().max(1);
            usize::try_from(group.total_byte_size() / rows).unwrap_or(BATCH_BYTES)
        });
        let rows = BATCH_BYTES / largest.max().unwrap_or(1).max(1);
        let skipped = usize::try_from(next.offset).map_err(io::Error::other)?;
        let read = builder
            .with_batch_size(rows.clamp(1, BATCH_ROWS))
            .with_offset(skipped)
            .build()
            .map_err(io::Error::other)?;
        Ok(Self {
            read,
            columns,
            next,
        })
    }

    /// Returns the next batch; `None` at the end.
    pub(crate) fn batch(&mut self) -> io::Result<Option<RowBatch>> {
        loop {
            let Some(rows) = self.read.next().transpose().map_err(io::Error::other)? else {
                return Ok(None);
            };
            if rows.num_rows() > 0 {
                return self.lines(&rows).map(Some);
            }
        }
    }

    fn lines(&mut self, rows: &RecordBatch) -> io::Result<RowBatch> {
        let mut batch = RowBatch::default();
        for row in 0..rows.num_rows() {
            let start = batch.bytes.len();
            batch.bytes.push(b'{');
            for (shape, column) in self.columns.iter().zip(rows.columns()) {
                // A file of columns has every key in every row; `null` is an absent one.
                if column.is_null(row) || matches!(column.data_type(), DataType::Null) {
                    continue;
                }
                if batch.bytes.len() > start + 1 {
                    batch.bytes.push(b',');
                }
                string(&shape.name, &mut batch.bytes)?;
                batch.bytes.push(b':');
                value(column.as_ref(), row, shape.is_json, &mut batch.bytes)?;
            }
            batch.bytes.push(b'}');
            batch.rows.push(BatchRow {
                range: start..batch.bytes.len(),
                place: Place {
                    row: self.next.row,
                    file: self.next.file,
                    line: self.next.line + 1,
                    column: 1,
                },
                is_too_long: false,
                broken: None,
            });
            batch.bytes.push(b'\n');
            self.next.row += 1;
            self.next.line += 1;
            self.next.offset += 1;
        }
        batch.end = self.next;
        Ok(batch)
    }
}

/// Returns whether the texts of a field, or those of its lists, are JSON.
fn is_json(field: &Field) -> bool {
    let extension = field.metadata().get("ARROW:extension:name");
    let is_extension = extension.is_some_and(|name| name == "arrow.json");
    is_extension
        || match field.data_type() {
            DataType::List(item) | DataType::LargeList(item) => is_json(item),
            _ => false,
        }
}

fn string(text: &str, output: &mut Vec<u8>) -> io::Result<()> {
    serde_json::to_writer(output, text).map_err(io::Error::from)
}

/// Appends a value as JSON. Members of structures that are null are left out.
fn value(array: &dyn Array, row: usize, is_json: bool, output: &mut Vec<u8>) -> io::Result<()> {
    if array.is_null(row) {
        output.extend_from_slice(b"null");
        return Ok(());
    }
    macro_rules! number {
        ($type:ty) => {{
            let number = array.as_primitive::<$type>().value(row);
            serde_json::to_writer(output, &number)?;
        }};
    }
    match array.data_type() {
        DataType::Boolean => serde_json::to_writer(output, &array.as_boolean().value(row))?,
        DataType::Int8 => number!(Int8Type),
        DataType::Int16 => number!(Int16Type),
        DataType::Int32 => number!(Int32Type),
        DataType::Int64 => number!(Int64Type),
        DataType::UInt8 => number!(UInt8Type),
        DataType::UInt16 => number!(UInt16Type),
        DataType::UInt32 => number!(UInt32Type),
        DataType::UInt64 => number!(UInt64Type),
        DataType::Float16 => {
            let number = array.as_primitive::<Float16Type>().value(row).to_f32();
            serde_json::to_writer(output, &number)?;
        }
        DataType::Float32 => number!(Float32Type),
        DataType::Float64 => number!(Float64Type),
        DataType::Utf8 => text(array.as_string::<i32>().value(row), is_json, output)?,
        DataType::LargeUtf8 => text(array.as_string::<i64>().value(row), is_json, output)?,
        DataType::Utf8View => text(array.as_string_view().value(row), is_json, output)?,
        DataType::List(_) => list(&array.as_list::<i32>().value(row), is_json, output)?,
        DataType::LargeList(_) => list(&array.as_list::<i64>().value(row), is_json, output)?,
        DataType::FixedSizeList(..) => {
            list(&array.as_fixed_size_list().value(row), is_json, output)?;
        }
        DataType::Struct(fields) => {
            output.push(b'{');
            let start = output.len();
            for (field, column) in fields.iter().zip(array.as_struct().columns()) {
                if column.is_null(row) || matches!(column.data_type(), DataType::Null) {
                    continue;
                }
                if output.len() > start {
                    output.push(b',');
                }
                string(field.name(), output)?;
                output.push(b':');
                value(column.as_ref(), row, self::is_json(field), output)?;
            }
            output.push(b'}');
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let key = dictionary.normalized_keys().get(row).copied();
            value(
                dictionary.values().as_ref(),
                key.unwrap_or_default(),
                is_json,
                output,
            )?;
        }
        other => {
            return Err(io::Error::other(format!(
                "a column has the type {other}, which JSON lacks; leave it out or store it as text"
            )));
        }
    }
    Ok(())
}

/// Appends a text as a string, or as the JSON that it contains.
fn text(text: &str, is_json: bool, output: &mut Vec<u8>) -> io::Result<()> {
    if is_json && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() {
        let text = text.bytes().map(|byte| {
            if byte == b'\n' || byte == b'\r' {
                b' '
            } else {
                byte
            }
        });
        output.extend(text);
        return Ok(());
    }
    string(text, output)
}

fn list(items: &dyn Array, is_json: bool, output: &mut Vec<u8>) -> io::Result<()> {
    output.push(b'[');
    for item in 0..items.len() {
        if item > 0 {
            output.push(b',');
        }
        value(items, item, is_json, output)?;
    }
    output.push(b']');
    Ok(())
}
