//! Rows and their places.

use serde::{Deserialize, Serialize};

/// One row of a data set: a JSON object, without its line end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'b> {
    /// The bytes of the object. A row of Parquet is the same object as text.
    pub bytes: &'b [u8],
    /// The place of its first byte.
    pub place: Place,
}

/// The place of a row in the input.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Place {
    /// The number of the row over all files, from 0. Blank lines are not counted.
    pub row: u64,
    /// The number of the file in the list of inputs, from 0.
    pub file: u32,
    /// The line of the first byte, from 1; in Parquet, the row of the file.
    pub line: u64,
    /// The column of the first byte, from 1, in bytes.
    pub column: u64,
}

impl Row<'_> {
    /// Appends the row as one line, as in the input.
    ///
    /// Line ends between the tokens of a JSON file become spaces.
    pub fn append_line(&self, output: &mut Vec<u8>) {
        let start = output.len();
        output.extend_from_slice(self.bytes);
        for byte in output.iter_mut().skip(start) {
            if matches!(*byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        output.push(b'\n');
    }
}
