//! Columns of results.

use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, StringArray};
use logue_data::Refusal;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A result of each row.
pub(super) type Results<R> = Vec<Result<R, Refusal>>;

/// Raises if a column would have more bytes or items than its offsets can count.
///
/// Engines such as Spark read lists with offsets of 32 bits only.
pub(super) fn require_countable(sizes: impl Iterator<Item = usize>) -> PyResult<()> {
    let total: usize = sizes.sum();
    if i32::try_from(total).is_ok() {
        return Ok(());
    }
    let message = "the results have more than 2,147,483,647 bytes or items; pass smaller batches";
    Err(PyValueError::new_err(message))
}

/// The columns `code` and `message`: null for a row that is not refused.
pub(super) fn refusals<R>(results: &Results<R>) -> [(&'static str, ArrayRef); 2] {
    let findings = || {
        let refused = results.iter().map(|result| result.as_ref().err());
        refused.map(|refusal| refusal.map(|refusal| &refusal.finding))
    };
    let codes = findings().map(|finding| finding.map(|finding| finding.code.as_str()));
    let mut messages = StringBuilder::new();
    let mut room = i32::MAX as usize;
    for finding in findings() {
        match finding {
            None => messages.append_null(),
            Some(finding) => {
                // A message quotes a part of its row at most.
                let message = finding.message.get(..room.min(finding.message.len()));
                let message = message.unwrap_or_default();
                room -= message.len();
                messages.append_value(message);
            }
        }
    }
    [
        ("code", Arc::new(codes.collect::<StringArray>())),
        ("message", Arc::new(messages.finish())),
    ]
}
