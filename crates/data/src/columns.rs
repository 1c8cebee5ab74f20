//! Data sets in columns: Parquet files as the `datasets` library writes and reads them.
//!
//! Objects, lists of objects and columns with values of several types are JSON texts (`Json()` of
//! that library), so that no row gets keys of another row, and mixed types keep their values.

#[cfg(feature = "parquet")]
mod encode;
mod kinds;
#[cfg(feature = "parquet")]
mod read;
#[cfg(feature = "parquet")]
mod write;

pub(crate) use kinds::Columns;
#[cfg(feature = "parquet")]
pub(crate) use read::Rows;
#[cfg(feature = "parquet")]
pub(crate) use write::write;
