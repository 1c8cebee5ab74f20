//! Parquet files from rows of JSON lines.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use serde_json::value::RawValue;

use super::encode::{Values, schema};
use super::kinds::Columns;
use crate::batch::{Position, RowBatch};
use crate::error::DataError;
use crate::in_order::in_order_by_size;
use crate::input::Lines;

/// The bytes of JSON lines in a group of rows.
const GROUP_BYTES: usize = 8 << 20;
/// The level of compression.
const LEVEL: i32 = 3;

/// Writes the rows of an open file of JSON lines as Parquet.
///
/// `columns` are those of all its rows.
/// Groups of rows are encoded in several threads and written in order, so that the bytes depend
/// only on the rows.
pub(crate) fn write(
    (file, rows): (File, &Path),
    columns: &Columns,
    output: impl Write + Send,
    target: &Path,
    threads: usize,
    mut progress: impl FnMut(u64),
) -> Result<(), DataError> {
    let failed = |error: ParquetError| DataError::write(target)(io::Error::other(error));
    let schema = Arc::new(schema(columns));
    let level = ZstdLevel::try_new(LEVEL).map_err(failed)?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_created_by(concat!("logue ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(key_values(&schema)))
        .build();
    let writer = ArrowWriter::try_new(output, Arc::clone(&schema), Some(properties));
    let opened = writer.and_then(ArrowWriter::into_serialized_writer);
    let (mut writer, factory) = opened.map_err(failed)?;
    let mut groups = Groups {
        lines: Lines::new(BufReader::new(file), Position::default()),
        failure: None,
    };
    let encoder = Encoder {
        columns,
        schema: &schema,
        factory: &factory,
    };
    let size = |group: &io::Result<Vec<RowBatch>>| {
        let bytes = |group: &Vec<RowBatch>| group.iter().map(RowBatch::len).sum::<usize>();
        group
            .as_ref()
            .map_or(1, |group| bytes(group).div_ceil(GROUP_BYTES))
    };
    in_order_by_size(
        threads,
        size,
        move || groups.next(),
        |group| {
            let group = group.map_err(DataError::read(rows))?;
            let bytes: usize = group.iter().map(RowBatch::len).sum();
            let chunks = encoder.encode(&group).map_err(DataError::write(target))?;
            Ok::<_, DataError>((bytes as u64, chunks))
        },
        |encoded| {
            let (bytes, chunks) = encoded?;
            let mut group = writer.next_row_group().map_err(failed)?;
            for chunk in chunks {
                chunk.append_to_row_group(&mut group).map_err(failed)?;
            }
            group.close().map_err(failed)?;
            progress(bytes);
            Ok::<_, DataError>(ControlFlow::Continue(()))
        },
    )?;
    writer.close().map_err(failed)?;
    Ok(())
}

/// Returns the metadata of the schema, which names the types for the `datasets` library.
fn key_values(schema: &Schema) -> Vec<KeyValue> {
    let pairs = schema.metadata().iter();
    pairs
        .map(|(key, value)| KeyValue::new(key.clone(), value.clone()))
        .collect()
}

/// Batches that become one group of rows.
struct Groups {
    lines: Lines<BufReader<File>>,
    failure: Option<io::Error>,
}

impl Groups {
    fn next(&mut self) -> Option<io::Result<Vec<RowBatch>>> {
        if let Some(error) = self.failure.take() {
            return Some(Err(error));
        }
        let mut group = Vec::new();
        let mut bytes = 0;
        while bytes < GROUP_BYTES {
            match self.lines.batch() {
                Ok(Some(batch)) => {
                    bytes += batch.len();
                    group.push(batch);
                }
                Ok(None) => break,
                Err(error) if group.is_empty() => return Some(Err(error)),
                Err(error) => {
                    self.failure = Some(error);
                    break;
                }
            }
        }
        (!group.is_empty()).then_some(Ok(group))
    }
}

struct Encoder<'e> {
    columns: &'e Columns,
    schema: &'e Arc<Schema>,
    factory: &'e ArrowRowGroupWriterFactory,
}

impl Encoder<'_> {
    /// Encodes a group of rows, column by column.
    fn encode(&self, group: &[RowBatch]) -> io::Result<Vec<ArrowColumnChunk>> {
        let mut values: Vec<Values> = self.columns.0.iter().map(Values::new).collect();
        for row in group.iter().flat_map(RowBatch::rows) {
            let members: HashMap<String, &RawValue> = serde_json::from_slice(row.bytes)?;
            for (column, values) in self.columns.0.iter().zip(&mut values) {
                values.append(members.get(&column.name).copied())?;
            }
        }
        let arrays = values.into_iter().map(Values::finish).collect();
        let rows = RecordBatch::try_new(Arc::clone(self.schema), arrays);
        let rows = rows.map_err(io::Error::other)?;
        self.chunks(&rows).map_err(io::Error::other)
    }

    fn chunks(&self, rows: &RecordBatch) -> Result<Vec<ArrowColumnChunk>, ParquetError> {
        let mut writers = self.factory.create_column_writers(0)?;
        let mut open = writers.iter_mut();
        for (field, array) in self.schema.fields().iter().zip(rows.columns()) {
            for leaf in compute_leaves(field, array)? {
                if let Some(writer) = open.next() {
                    writer.write(&leaf)?;
                }
            }
        }
        writers.into_iter().map(ArrowColumnWriter::close).collect()
    }
}
