//! Rows that are read and worked on together.

use std::ops::Range;

use logue_source::{DiagnosticCode, Span};
use serde::{Deserialize, Serialize};

use crate::refusal::Refusal;
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
    /// The reason for which the reader found no end of the row.
    pub(crate) broken: Option<Box<BrokenRow>>,
}

/// An error in the structure of a row.
#[derive(Clone, Debug)]
pub(crate) struct BrokenRow {
    /// The offset of the error in the row.
    pub(crate) at: usize,
    pub(crate) message: String,
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
    /// The hash of the last value's first key, which finds the next one after damage.
    pub first_key: Option<u64>,
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

    /// Returns the reason for which the row with this number cannot be used.
    pub fn refusal(&self, row: usize) -> Option<Refusal> {
        let row = self.rows.get(row)?;
        let length = row.range.len();
        if row.is_too_long {
            return Some(Refusal::too_long(length));
        }
        let broken = row.broken.as_ref()?;
        let span = Span::new(broken.at.min(length), (broken.at + 1).min(length));
        let refusal = Refusal::new(DiagnosticCode::JsonSyntax, broken.message.as_str(), span);
        Some(refusal.with_help("correct the file"))
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the number of usual batches that a batch is as large as.
    pub(crate) fn size<E>(batch: &Result<Self, E>) -> usize {
        batch
            .as_ref()
            .map_or(1, |batch| batch.len().div_ceil(BATCH_BYTES))
    }

    /// Returns whether the batch has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}
