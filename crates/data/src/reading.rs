//! Readings of all rows without output, for decisions that need every row.

use std::ops::ControlFlow;

use crate::batch::RowBatch;
use crate::error::DataError;
use crate::in_order::in_order_by_size;
use crate::input::Inputs;
use crate::refusal::Refusal;
use crate::row::{Place, Row};

/// The result of a row at its place.
type Placed<R> = (Place, Result<R, Refusal>);

/// Passes each row to `work` in several threads, and the results to `take` in order.
///
/// # Errors
/// Returns [`DataError`] if an input cannot be read, or that of `take`.
pub fn read_rows<R: Send + 'static>(
    mut inputs: Inputs,
    threads: usize,
    work: impl Fn(Row<'_>) -> Result<R, Refusal> + Sync,
    mut take: impl FnMut(Place, Result<R, Refusal>) -> Result<(), DataError>,
) -> Result<(), DataError> {
    let work = |batch: Result<RowBatch, DataError>| {
        let batch = batch?;
        let one = |(number, row): (usize, Row<'_>)| {
            let result = match batch.refusal(number) {
                Some(refusal) => Err(refusal),
                None => work(row),
            };
            (row.place, result)
        };
        let results: Vec<_> = batch.rows().enumerate().map(one).collect();
        Ok(results)
    };
    let take = |results: Result<Vec<Placed<R>>, DataError>| {
        for (place, result) in results? {
            take(place, result)?;
        }
        Ok(ControlFlow::Continue(()))
    };
    in_order_by_size(threads, RowBatch::size, move || inputs.batch(), work, take)
}
