//! Byte offsets to lines and columns.

/// A line and a column, both counted from 1.
///
/// The column counts characters; an invalid UTF-8 byte counts as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LineColumn {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

/// The line starts of one text.
///
/// Built in linear time, queried in logarithmic time.
#[derive(Clone, Debug)]
pub struct LineIndex {
    starts: Vec<usize>,
    len: usize,
}

impl LineIndex {
    /// Indexes `text`.
    ///
    /// A line ends at `\n`; a `\r` before it belongs to the line.
    pub fn new(text: &[u8]) -> Self {
        let starts = std::iter::once(0).chain(memchr::memchr_iter(b'\n', text).map(|at| at + 1));
        Self {
            starts: starts.collect(),
            len: text.len(),
        }
    }

    /// Returns the number of lines; a final newline starts an empty last line.
    pub fn line_count(&self) -> usize {
        self.starts.len()
    }

    /// Returns the zero-based number of the line that contains `offset`.
    ///
    /// Offsets after the end belong to the last line.
    pub fn line_of(&self, offset: usize) -> usize {
        self.starts
            .partition_point(|start| *start <= offset)
            .saturating_sub(1)
    }

    /// Returns the byte range of the zero-based line, its newline included.
    ///
    /// Returns `None` if there is no such line.
    pub fn line_range(&self, line: usize) -> Option<std::ops::Range<usize>> {
        let start = *self.starts.get(line)?;
        let end = self.starts.get(line + 1).copied().unwrap_or(self.len);
        Some(start..end)
    }

    /// Returns the line and column of `offset` in `text`, the indexed text.
    ///
    /// Offsets after the end give the end.
    pub fn line_column(&self, text: &[u8], offset: usize) -> LineColumn {
        let offset = offset.min(self.len).min(text.len());
        let line = self.line_of(offset);
        let start = self.starts.get(line).copied().unwrap_or(0).min(offset);
        LineColumn {
            line: line + 1,
            column: count_characters(&text[start..offset]) + 1,
        }
    }
}

/// Counts the characters of `bytes`; each byte outside valid UTF-8 is one.
fn count_characters(bytes: &[u8]) -> usize {
    bytes
        .utf8_chunks()
        .map(|chunk| chunk.valid().chars().count() + chunk.invalid().len())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_and_lines_count_from_one() {
        let text = "aé\n🦀b".as_bytes();
        let index = LineIndex::new(text);
        assert_eq!(
            index.line_column(text, 0),
            LineColumn { line: 1, column: 1 }
        );
        assert_eq!(
            index.line_column(text, 3),
            LineColumn { line: 1, column: 3 }
        );
        assert_eq!(
            index.line_column(text, 4),
            LineColumn { line: 2, column: 1 }
        );
        assert_eq!(
            index.line_column(text, 8),
            LineColumn { line: 2, column: 2 }
        );
        assert_eq!(
            index.line_column(text, 999),
            LineColumn { line: 2, column: 3 }
        );
    }

    #[test]
    fn invalid_bytes_count_one_each() {
        let text = b"\xff\xfea";
        assert_eq!(
            LineIndex::new(text).line_column(text, 2),
            LineColumn { line: 1, column: 3 }
        );
    }
}
