//! JSON lines in batches.

use std::io::{self, Read};

use crate::batch::{BATCH_BYTES, BatchRow, KEPT_OF_LONG_ROW, MAX_ROW_BYTES, Position, RowBatch};
use crate::row::Place;

/// A reader of batches of lines.
pub(crate) struct Lines<R> {
    read: R,
    /// The bytes after the last batch, which are read already.
    rest: Vec<u8>,
    next: Position,
    is_over: bool,
}

impl<R: Read> Lines<R> {
    /// Reads from `next`, where `read` is positioned.
    pub(crate) fn new(read: R, next: Position) -> Self {
        Self {
            read,
            rest: Vec::new(),
            next,
            is_over: false,
        }
    }

    /// Returns the next batch that has rows; `None` at the end.
    pub(crate) fn batch(&mut self) -> io::Result<Option<RowBatch>> {
        while !(self.is_over && self.rest.is_empty()) {
            let batch = self.one()?;
            if !batch.is_empty() {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    /// Reads whole lines of at most [`BATCH_BYTES`], or one longer line.
    fn one(&mut self) -> io::Result<RowBatch> {
        let mut bytes = Vec::with_capacity(BATCH_BYTES.max(self.rest.len()));
        bytes.append(&mut self.rest);
        self.fill(&mut bytes, BATCH_BYTES)?;
        let mut skipped = 0;
        if let Some(newline) = memchr::memrchr(b'\n', &bytes) {
            if !self.is_over {
                self.rest = bytes.split_off(newline + 1);
            }
        } else {
            skipped = self.finish_line(&mut bytes)?;
        }
        Ok(self.split(bytes, skipped))
    }

    /// Reads until `bytes` has `length` or the input ends.
    fn fill(&mut self, bytes: &mut Vec<u8>, length: usize) -> io::Result<()> {
        let missing = length.saturating_sub(bytes.len());
        if missing > 0 && !self.is_over {
            let read = (&mut self.read).take(missing as u64).read_to_end(bytes)?;
            self.is_over = read < missing;
        }
        Ok(())
    }

    /// Reads to the end of a line that is longer than a batch.
    ///
    /// Returns the number of bytes that were read and not kept, as the line is too long.
    fn finish_line(&mut self, bytes: &mut Vec<u8>) -> io::Result<u64> {
        let mut searched = bytes.len();
        let mut skipped = 0;
        while !self.is_over {
            self.fill(bytes, searched + BATCH_BYTES)?;
            let fresh = bytes.get(searched..).unwrap_or_default();
            if let Some(newline) = memchr::memchr(b'\n', fresh) {
                self.rest = bytes.split_off(searched + newline + 1);
                break;
            }
            searched = bytes.len();
            if skipped > 0 || searched > MAX_ROW_BYTES {
                skipped += (searched - KEPT_OF_LONG_ROW) as u64;
                bytes.truncate(KEPT_OF_LONG_ROW);
                searched = KEPT_OF_LONG_ROW;
            }
        }
        if skipped > 0 {
            skipped += (bytes.len() - KEPT_OF_LONG_ROW) as u64;
            bytes.truncate(KEPT_OF_LONG_ROW);
        }
        Ok(skipped)
    }

    /// Finds the rows of a batch, and advances the position.
    fn split(&mut self, bytes: Vec<u8>, skipped: u64) -> RowBatch {
        let mut rows = Vec::new();
        let mut start = 0;
        let ends = memchr::memchr_iter(b'\n', &bytes).chain([bytes.len()]);
        for end in ends {
            if start == bytes.len() && end == start {
                break;
            }
            let line = bytes.get(start..end).unwrap_or_default();
            let mut from = start + (line.len() - line.trim_ascii_start().len());
            let to = start + line.trim_ascii_end().len();
            if self.next.line == 0 && bytes.get(start..end).is_some_and(|l| l.starts_with(BOM)) {
                from = start + BOM.len();
            }
            if from < to {
                rows.push(BatchRow {
                    range: from..to,
                    place: Place {
                        row: self.next.row,
                        file: self.next.file,
                        line: self.next.line + 1,
                        column: (from - start) as u64 + 1,
                    },
                    is_too_long: skipped > 0,
                    broken: None,
                });
                self.next.row += 1;
            }
            self.next.line += 1;
            start = end + 1;
        }
        self.next.offset += bytes.len() as u64 + skipped;
        RowBatch {
            bytes,
            rows,
            end: self.next,
        }
    }
}

/// The byte order mark of UTF-8.
pub(super) const BOM: &[u8] = b"\xEF\xBB\xBF";

#[cfg(test)]
mod tests {
    use super::Lines;
    use crate::batch::{BATCH_BYTES, MAX_ROW_BYTES, Position, RowBatch};

    fn batches(text: &[u8]) -> Vec<RowBatch> {
        let mut lines = Lines::new(text, Position::default());
        std::iter::from_fn(|| lines.batch().unwrap()).collect()
    }

    #[test]
    fn blank_lines_count_as_lines_and_not_as_rows() {
        let batches = batches(b"\xEF\xBB\xBF{}\n\n  {\"a\":1} \r\n\n[]");
        let [batch] = &batches[..] else { panic!() };
        let rows: Vec<_> = batch
            .rows()
            .map(|row| (row.bytes, row.place.row, row.place.line, row.place.column))
            .collect();
        assert_eq!(
            rows,
            [
                (&b"{}"[..], 0, 1, 4),
                (&b"{\"a\":1}"[..], 1, 3, 3),
                (&b"[]"[..], 2, 5, 1)
            ]
        );
    }

    #[test]
    fn reading_continues_at_the_end_of_any_batch() {
        let row = format!("{{\"text\":\"{}\"}}\n", "x".repeat(1000));
        let text = row.repeat(3 * BATCH_BYTES / row.len());
        let whole = batches(text.as_bytes());
        assert!(whole.len() >= 3);
        for (number, batch) in whole.iter().enumerate() {
            let rest = &text.as_bytes()[usize::try_from(batch.end.offset).unwrap()..];
            let mut lines = Lines::new(rest, batch.end);
            let next = lines.batch().unwrap();
            let expected = whole.get(number + 1).map(|batch| (&batch.bytes, batch.end));
            assert_eq!(
                next.as_ref().map(|batch| (&batch.bytes, batch.end)),
                expected
            );
        }
    }

    #[test]
    fn a_row_that_is_too_long_is_skipped() {
        let mut text = vec![b'x'; MAX_ROW_BYTES + 5 * BATCH_BYTES];
        text.extend_from_slice(b"\n{}\n");
        let batches = batches(&text);
        assert!(batches[0].is_too_long(0));
        assert_eq!(batches[0].rows().len(), 1);
        assert_eq!(batches[1].rows().next().unwrap().place.line, 2);
        assert!(!batches[1].is_too_long(0));
        assert_eq!(batches[1].end.offset, text.len() as u64);
    }

    #[test]
    fn a_row_may_be_longer_than_a_batch() {
        let long = format!("\"{}\"", "y".repeat(2 * BATCH_BYTES));
        let text = format!("1\n{long}\n2\n");
        let rows: Vec<Vec<u8>> = batches(text.as_bytes())
            .iter()
            .flat_map(|batch| {
                batch
                    .rows()
                    .map(|row| row.bytes.to_vec())
                    .collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(rows, [b"1".to_vec(), long.into_bytes(), b"2".to_vec()]);
    }
}
