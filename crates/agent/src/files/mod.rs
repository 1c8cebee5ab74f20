//! Writes files atomically and detects their changes.

pub(crate) mod atomic_file;
pub(crate) mod file_stamp;
pub(crate) mod replace;
