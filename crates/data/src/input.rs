//! Inputs: files of JSON lines, JSON or Parquet, plain or compressed.
//!
//! The compression and Parquet are recognized by their first bytes, JSON lines and JSON by the
//! extension or the first value.

mod lines;
mod opened;
mod values;

#[cfg(feature = "parquet")]
pub(crate) use lines::Lines;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::batch::{Position, RowBatch};
use crate::error::DataError;

/// The form of an input after decompression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputForm {
    /// One row on each line.
    Lines,
    /// The elements of an array, or values that follow one another.
    Json,
    /// A Parquet file. Null columns, and null members of structures, are absent from the rows.
    #[cfg(feature = "parquet")]
    Parquet,
}

/// The rows of several files, in batches.
pub struct Inputs {
    files: Arc<[PathBuf]>,
    form: Option<InputForm>,
    current: Option<opened::Opened>,
    /// The position from which the next batch is read.
    next: Position,
    read: Arc<AtomicU64>,
}

impl Inputs {
    /// Reads files in their order; `-` is standard input. `form` applies to all of them, if set.
    pub fn new(files: impl Into<Arc<[PathBuf]>>, form: Option<InputForm>) -> Self {
        Self {
            files: files.into(),
            form,
            current: None,
            next: Position::default(),
            read: Arc::default(),
        }
    }

    /// Continues at a position that [`RowBatch`]es of the same files had.
    #[must_use]
    pub fn starting_at(mut self, position: Position) -> Self {
        self.next = position;
        self
    }

    /// Returns the files.
    pub fn files(&self) -> &Arc<[PathBuf]> {
        &self.files
    }

    /// Returns the size of all files; `None` if one is not a regular file.
    pub fn size(&self) -> Option<u64> {
        let size = |path: &PathBuf| {
            let metadata = std::fs::metadata(path).ok();
            metadata.filter(std::fs::Metadata::is_file)
        };
        let sizes = self.files.iter().map(|path| Some(size(path)?.len()));
        sizes.sum()
    }

    /// Returns the counter of the stored bytes that were read, which other threads may watch.
    pub fn bytes_read(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.read)
    }

    /// Returns the next batch; `None` at the end of the last file.
    ///
    /// # Errors
    /// Returns [`DataError`] if a file cannot be read, or if its structure is broken. No further
    /// batch follows.
    pub fn batch(&mut self) -> Option<Result<RowBatch, DataError>> {
        loop {
            let file = usize::try_from(self.next.file).ok()?;
            let path = self.files.get(file)?;
            let opened = match &mut self.current {
                Some(opened) => opened,
                none => match opened::open(path, self.form, self.next, &self.read) {
                    Ok(opened) => none.insert(opened),
                    Err(error) => return Some(Err(self.end(error))),
                },
            };
            match opened.batch(path) {
                Ok(Some(batch)) => {
                    self.next = batch.end;
                    return Some(Ok(batch));
                }
                Ok(None) => {
                    self.current = None;
                    self.next = Position {
                        file: self.next.file + 1,
                        row: self.next.row,
                        ..Position::default()
                    };
                }
                Err(error) => return Some(Err(self.end(error))),
            }
        }
    }

    /// Ends the input, and returns the reason.
    fn end(&mut self, error: DataError) -> DataError {
        self.current = None;
        self.next.file = u32::MAX;
        error
    }
}

/// Counts the bytes that were read from a file.
struct Counted<R> {
    read: R,
    count: Arc<AtomicU64>,
}

impl<R: std::io::Read> std::io::Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.read.read(buffer)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Returns the extension of a file without that of a compression.
pub(crate) fn extension(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?;
    let name = name
        .strip_suffix(".gz")
        .or_else(|| name.strip_suffix(".zst"))
        .unwrap_or(name);
    name.rsplit_once('.').map(|(_, extension)| extension)
}
