//! Training data: functions of rows, each also for batches of Arrow.
//!
//! A row is `str`, bytes or a `dict`. A batch is an array of texts or bytes, or the column `row`,
//! `value` or `text` of a table, or its first such column. A refused row is an exception with a
//! code; in a batch it keeps its place, with `code` and `message`.

mod check;
mod contamination;
mod convert;
mod duplicates;
mod mask;
mod mask_options;
mod results;
mod rows;

pub(crate) use check::{check_row, check_rows};
pub(crate) use contamination::{BenchmarkWords, CommonWords};
pub(crate) use convert::{convert_row, convert_rows};
pub(crate) use duplicates::{Comparison, Keys, Rules};
pub(crate) use mask::{MaskedRow, RowMasker};
