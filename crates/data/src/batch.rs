//! Rows that are read and worked on together.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::row::{Place, Row};

/// The bytes of a batch, unless one row is longer.
pub(crate) const BATCH_BYTES: usize = 1 << 20;

/// The most bytes of a row. A longer row is refused.
pub const MAX_ROW_BYTES: usize = 64 << 20;

/// The bytes that are kept of a row that is too long.
pub(crate) const KEPT_OF_LONG_ROW: usize = 256;

/// Consecutive rows of one file.
///
/// The borders of batches depend only on the content of the file, never on the timing or the
/// number of threads.
#[derive(Debug, Default)]
pub struct RowBatch {
    pub(crate) bytes: Vec<u8>,
    pub(crate) rows: Vec<BatchRow>,
    /// The position after the last row.
    pub(crate) end: Position,
}

/// A row in the bytes of its batch.
#[derive(Clone, Debug)]
pub(crate) struct BatchRow {
    pub(crate) range: Range<usize>,
    pub(crate) place: Place,
    /// Whether the row exceeds [`MAX_ROW_BYTES`]; then only its first bytes are here.
    pub(crate) is_too_long: bool,
}

/// A position between two batches, from which reading can continue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The number of the file in the list of inputs, from 0.
    pub file: u32,
    /// The bytes before the position after decompression; in Parquet, the rows.
    pub offset: u64,
    /// The rows before the position over all files.
    pub row: u64,
    /// The lines before the position in this file.
    pub line: u64,
    /// Whether the position is inside a JSON array.
    pub is_in_array: bool,
}

impl RowBatch {
    /// Returns the rows, in their order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = Row<'_>> {
        self.rows.iter().map(|row| Row {
            bytes: self.bytes.get(row.range.clone()).unwrap_or_default(),
            place: row.place,
        })
    }

    /// Returns whether the row with this number in the batch is too long.
    pub fn is_too_long(&self, row: usize) -> bool {
        self.rows.get(row).is_some_and(|row| row.is_too_long)
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether the batch has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}
