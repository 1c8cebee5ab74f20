//! Values of rows in a temporary file, which are read in any order.

use std::fs::File;
use std::io::{self, Write as _};

/// Bytes that are collected before they are written.
const BUFFER: usize = 1 << 20;

/// Values of rows, appended in the order of the rows.
///
/// The file has no name and ends with the process.
#[derive(Debug)]
pub(super) struct Spool {
    file: File,
    /// Bytes in the file.
    written: u64,
    buffer: Vec<u8>,
    /// The rows with a value, ascending.
    rows: Vec<u32>,
    /// The end of each value.
    ends: Vec<u64>,
}

impl Spool {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            file: tempfile::tempfile()?,
            written: 0,
            buffer: Vec::new(),
            rows: Vec::new(),
            ends: Vec::new(),
        })
    }

    /// Appends the value of a row after the last one.
    pub(super) fn push(&mut self, row: u32, value: &[u8]) -> io::Result<()> {
        if self.buffer.len() + value.len() > BUFFER {
            self.file.write_all(&self.buffer)?;
            self.written += self.buffer.len() as u64;
            self.buffer.clear();
        }
        self.buffer.extend_from_slice(value);
        self.rows.push(row);
        self.ends.push(self.written + self.buffer.len() as u64);
        Ok(())
    }

    /// Returns the place of the value of a row.
    fn place(&self, row: u32) -> Option<(u64, usize)> {
        let slot = self.rows.binary_search(&row).ok()?;
        let end = *self.ends.get(slot)?;
        let start = slot
            .checked_sub(1)
            .and_then(|before| self.ends.get(before).copied())
            .unwrap_or(0);
        Some((start, usize::try_from(end - start).ok()?))
    }

    /// Returns the length of the value of a row.
    pub(super) fn length(&self, row: u32) -> Option<usize> {
        self.place(row).map(|(_, length)| length)
    }

    /// Reads the value of a row in place of `value`.
    pub(super) fn read(&self, row: u32, value: &mut Vec<u8>) -> io::Result<()> {
        let (start, length) = self.place(row).ok_or_else(changed)?;
        value.clear();
        // Values are written as a whole, so that one is either in the file or in the buffer.
        let Some(at) = start.checked_sub(self.written) else {
            value.resize(length, 0);
            return read_at(&self.file, value, start);
        };
        let at = usize::try_from(at).map_err(io::Error::other)?;
        value.extend_from_slice(self.buffer.get(at..at + length).unwrap_or_default());
        Ok(())
    }
}

/// The error of a row that the second reading did not find.
pub(super) fn changed() -> io::Error {
    io::Error::other("the input changed while it was read")
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    let mut read = 0;
    while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match std::os::windows::fs::FileExt::seek_read(file, rest, offset + read as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => read += count,
        }
    }
    Ok(())
}
