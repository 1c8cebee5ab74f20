//! The values of a JSON file: the elements of one array, or values that follow one another.

use std::io::{self, Read};

use super::lines::BOM;
use crate::batch::{
    BATCH_BYTES, BatchRow, BrokenRow, KEPT_OF_LONG_ROW, MAX_ROW_BYTES, Position, RowBatch,
};
use crate::hash;
use crate::row::Place;

/// The bytes that are read at a time.
const BLOCK: usize = 256 * 1024;

/// A reader of batches of values.
///
/// It finds the ends of values by quotes and brackets; the work on a row finds what is invalid in it.
pub(super) struct Values<R> {
    read: R,
    bytes: Vec<u8>,
    /// The next byte of `bytes` to look at.
    at: usize,
    /// The start of the line of `at`, which may be before `bytes`.
    line_start: i64,
    next: Position,
    is_over: bool,
    is_first: bool,
}

/// A structure that prevents that further values are found.
pub(super) struct BadStructure {
    pub(super) line: u64,
    pub(super) column: u64,
    pub(super) message: String,
}

/// The failure of a reader.
pub(super) enum Failure {
    Io(io::Error),
    Structure(BadStructure),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl<R: Read> Values<R> {
    /// Reads from `next`, where `read` is positioned.
    pub(super) fn new(read: R, next: Position) -> Self {
        Self {
            read,
            bytes: Vec::new(),
            at: 0,
            line_start: 0,
            is_first: next.offset == 0,
            next,
            is_over: false,
        }
    }

    /// Returns the next batch that has rows; `None` at the end.
    pub(super) fn batch(&mut self) -> Result<Option<RowBatch>, Failure> {
        // The bytes before `at` belong to the last batch.
        let done = self.at;
        self.bytes.drain(..done);
        self.at = 0;
        self.line_start -= i64::try_from(done).unwrap_or(i64::MAX);
        let mut rows = Vec::new();
        let mut length = 0;
        while length < BATCH_BYTES {
            let Some(row) = self.value()? else { break };
            length += row.range.len();
            rows.push(row);
        }
        self.next.offset += self.at as u64;
        if rows.is_empty() {
            return Ok(None);
        }
        Ok(Some(RowBatch {
            bytes: self.bytes.get(..self.at).unwrap_or_default().to_vec(),
            rows,
            end: self.next,
        }))
    }

    /// Returns the byte at `at`, after reading it if necessary.
    fn peek(&mut self) -> io::Result<Option<u8>> {
        self.fill(self.at + 1)?;
        Ok(self.bytes.get(self.at).copied())
    }

    fn step(&mut self, byte: u8) {
        self.at += 1;
        if byte == b'\n' {
            self.next.line += 1;
            self.line_start = i64::try_from(self.at).unwrap_or(i64::MAX);
        }
    }

    /// Finds the next value.
    fn value(&mut self) -> Result<Option<BatchRow>, Failure> {
        if self.is_first {
            self.is_first = false;
            self.peek()?;
            if self.bytes.starts_with(BOM) {
                self.at = BOM.len();
            }
            self.skip_space()?;
            if self.peek()? == Some(b'[') {
                self.step(b'[');
                self.next.is_in_array = true;
            }
        }
        self.skip_space()?;
        if self.next.is_in_array {
            match self.peek()? {
                Some(b']') => {
                    self.step(b']');
                    self.next.is_in_array = false;
                    self.skip_space()?;
                    return match self.peek()? {
                        None => Ok(None),
                        Some(_) => Err(self.bad("unexpected text after the array")),
                    };
                }
                Some(b',') if self.next.row > 0 => {
                    self.step(b',');
                    self.skip_space()?;
                }
                None => return Err(self.bad("the array has no `]`")),
                Some(_) => {}
            }
        }
        match self.peek()? {
            None if self.next.is_in_array => Err(self.bad("the array has no `]`")),
            None => Ok(None),
            Some(b',' | b']' | b'}' | b':') => {
                let place = self.place();
                Ok(Some(self.broken(self.at, place, "expected a value")?))
            }
            Some(_) => self.rest_of_value().map(Some),
        }
    }

    fn skip_space(&mut self) -> io::Result<()> {
        while let Some(byte) = self.peek()?.filter(u8::is_ascii_whitespace) {
            self.step(byte);
        }
        Ok(())
    }

    /// Returns the place of `at`.
    fn place(&self) -> Place {
        Place {
            row: self.next.row,
            file: self.next.file,
            line: self.next.line + 1,
            column: self.column(),
        }
    }

    /// Finds the end of the value that begins at `at`.
    fn rest_of_value(&mut self) -> Result<BatchRow, Failure> {
        let start = self.at;
        let place = self.place();
        // The brackets that end what is open.
        let mut open: Vec<u8> = Vec::new();
        let (mut is_string, mut is_escape) = (false, false);
        let mut is_too_long = false;
        while let Some(byte) = self.peek()? {
            if is_string {
                match byte {
                    _ if is_escape => is_escape = false,
                    b'\\' => is_escape = true,
                    b'"' => is_string = false,
                    _ => {}
                }
            } else {
                match byte {
                    b'"' => is_string = true,
                    b'{' => open.push(b'}'),
                    b'[' => open.push(b']'),
                    b'}' | b']' if !open.is_empty() => {
                        if open.last() != Some(&byte) && !is_too_long {
                            let message = format!("unexpected `{}`", char::from(byte));
                            return self.broken(start, place, &message).map_err(Failure::Io);
                        }
                        open.pop();
                        if open.is_empty() {
                            self.step(byte);
                            break;
                        }
                    }
                    byte if open.is_empty() && is_end_of_scalar(byte) => break,
                    _ => {}
                }
            }
            self.step(byte);
            // JSON has no line end in a string, and an object has no member without a key.
            let is_suspect = is_string || open.last() == Some(&b'}');
            if byte == b'\n' && is_suspect && !is_too_long && self.is_next_row(start, place)? {
                let what = if is_string { "string" } else { "object" };
                let message = format!("the {what} has no end");
                return self.broken(start, place, &message).map_err(Failure::Io);
            }
            if self.at - start > MAX_ROW_BYTES {
                is_too_long = true;
                self.forget(start + KEPT_OF_LONG_ROW);
            }
        }
        if (!open.is_empty() || is_string) && !is_too_long {
            let what = if is_string { "string" } else { "value" };
            let message = format!("the {what} has no end");
            return self.broken(start, place, &message).map_err(Failure::Io);
        }
        self.next.row += 1;
        let end = if is_too_long {
            start + KEPT_OF_LONG_ROW
        } else {
            self.at
        };
        if let Some(key) = first_key(self.bytes.get(start..end).unwrap_or_default()) {
            // A continued run must find the same rows, so the position has it.
            self.next.first_key = Some(hash::of_bytes(key));
        }
        Ok(BatchRow {
            range: start..end,
            place,
            is_too_long,
            broken: None,
        })
    }

    /// Ends a row that is broken at `at`, and finds the next one.
    ///
    /// Brackets and quotes of the broken row show no end, so the next row is a line that begins as rows do:
    /// with an object that has the same first key and is not further to the right. Without such a line
    /// nothing more of the file is a row.
    fn broken(&mut self, start: usize, place: Place, message: &str) -> io::Result<BatchRow> {
        let fault = self.at - start;
        self.at = start;
        self.next.line = place.line - 1;
        let before = i64::try_from(place.column - 1).unwrap_or(i64::MAX);
        self.line_start = i64::try_from(start).unwrap_or(i64::MAX) - before;
        let kept = start + KEPT_OF_LONG_ROW.max(fault + 1);
        let mut forgotten = 0;
        let mut is_found = false;
        while let Some(byte) = self.peek()? {
            self.step(byte);
            if byte == b'\n' && (self.is_next_row(start, place)? || self.is_last_bracket()?) {
                is_found = true;
                break;
            }
            if self.at > kept + BLOCK {
                forgotten += (self.at - kept) as u64;
                self.forget(kept);
            }
        }
        self.next.row += 1;
        let end = self.at.min(kept);
        let read = self.bytes.get(start..end).unwrap_or_default();
        let read = read.trim_ascii_end();
        let read = read.strip_suffix(b",").unwrap_or(read);
        let range = start..start + read.len().max(1);
        let mut message = message.to_owned();
        if !is_found {
            let missed = (self.at - start).saturating_sub(fault) as u64 + forgotten;
            message.push_str(&format!(
                "; no further row can be found, and {missed} bytes from here on were not read as rows"
            ));
            self.next.is_in_array = false;
        }
        Ok(BatchRow {
            range,
            place,
            is_too_long: false,
            broken: Some(Box::new(BrokenRow { at: fault, message })),
        })
    }

    /// Returns whether the line at `at` begins as a row that may follow `start`.
    fn is_next_row(&mut self, start: usize, place: Place) -> io::Result<bool> {
        self.fill(self.at + LONGEST_BEGINNING)?;
        let line = self.bytes.get(self.at..).unwrap_or_default();
        let indent = line.iter().take_while(|byte| matches!(byte, b' ' | b'\t'));
        let indent = indent.count();
        let own = self.bytes.get(start..).and_then(first_key);
        let Some(key) = own.map(hash::of_bytes).or(self.next.first_key) else {
            return Ok(false);
        };
        let is_left = (indent as u64) < place.column;
        let of_line = line.get(indent..).and_then(first_key);
        Ok(is_left && of_line.map(hash::of_bytes) == Some(key))
    }

    /// Returns whether the line at `at` ends the array and the file.
    fn is_last_bracket(&mut self) -> io::Result<bool> {
        self.fill(self.at + LONGEST_BEGINNING)?;
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        Ok(self.next.is_in_array && self.is_over && rest.trim_ascii() == b"]")
    }

    /// Reads until `bytes` has `length` or the input ends.
    fn fill(&mut self, length: usize) -> io::Result<()> {
        if self.bytes.len() < length && !self.is_over {
            let read = (&mut self.read)
                .take(BLOCK as u64)
                .read_to_end(&mut self.bytes)?;
            self.is_over = read < BLOCK;
        }
        Ok(())
    }

    /// Removes the bytes from `from` to `at`.
    fn forget(&mut self, from: usize) {
        let removed = self.at - from;
        self.bytes.drain(from..self.at);
        self.at = from;
        self.line_start -= i64::try_from(removed).unwrap_or(i64::MAX);
        self.next.offset += removed as u64;
    }

    fn column(&self) -> u64 {
        let at = i64::try_from(self.at).unwrap_or(i64::MAX);
        u64::try_from(at - self.line_start).unwrap_or_default() + 1
    }

    fn bad(&self, message: &str) -> Failure {
        Failure::Structure(BadStructure {
            line: self.next.line + 1,
            column: self.column(),
            message: message.to_owned(),
        })
    }
}

/// The most bytes of the beginning of a row that recognizes it.
const LONGEST_BEGINNING: usize = 1024;

/// Returns the first key of an object that begins a text.
fn first_key(text: &[u8]) -> Option<&[u8]> {
    let text = text.get(..LONGEST_BEGINNING).unwrap_or(text);
    let text = text.strip_prefix(b"{")?.trim_ascii_start();
    let text = text.strip_prefix(b"\"")?;
    let end = memchr::memchr(b'"', text)?;
    text.get(..end)
}

/// Returns whether a byte ends a number or a word outside every bracket.
const fn is_end_of_scalar(byte: u8) -> bool {
    matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace()
}

#[cfg(test)]
mod tests {
    use super::{Failure, Values};
    use crate::batch::{MAX_ROW_BYTES, Position, RowBatch};

    type Rows = Vec<(String, u64, u64)>;

    fn read(text: &[u8]) -> Result<Rows, (u64, u64, String)> {
        let mut values = Values::new(text, Position::default());
        let mut rows = Vec::new();
        loop {
            match values.batch() {
                Ok(Some(batch)) => rows.extend(of(&batch)),
                Ok(None) => return Ok(rows),
                Err(Failure::Structure(bad)) => return Err((bad.line, bad.column, bad.message)),
                Err(Failure::Io(error)) => panic!("{error}"),
            }
        }
    }

    fn of(batch: &RowBatch) -> Rows {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let row = |row: crate::Row<'_>| (text(row.bytes), row.place.line, row.place.column);
        batch.rows().map(row).collect()
    }

    #[test]
    fn the_elements_of_an_array_are_rows() {
        let rows = read(b" [ {\"a\": \"]},\\\"\"},\n  {\"b\":\n [1]}, 3 ]\n").unwrap();
        let expected = [
            ("{\"a\": \"]},\\\"\"}", 1, 4),
            ("{\"b\":\n [1]}", 2, 3),
            ("3", 3, 8),
        ];
        assert_eq!(
            rows,
            expected.map(|(text, line, column)| (text.to_owned(), line, column))
        );
        assert_eq!(read(b"[]"), Ok(Vec::new()));
    }

    #[test]
    fn values_that_follow_one_another_are_rows() {
        let rows = read(b"\xEF\xBB\xBF{\"a\":1}{\"b\":2}\n\n{}").unwrap();
        let texts: Vec<_> = rows.iter().map(|row| row.0.as_str()).collect();
        assert_eq!(texts, ["{\"a\":1}", "{\"b\":2}", "{}"]);
    }

    #[test]
    fn broken_structure_has_a_place() {
        let message = |text: &[u8]| read(text).unwrap_err();
        assert_eq!(message(b"[{}\n"), (2, 1, "the array has no `]`".to_owned()));
        assert_eq!(message(b"[{}] x").1, 6);
    }

    /// Returns the rows of a text, with the places and messages of broken ones.
    fn with_broken(text: &str) -> Vec<String> {
        let mut values = Values::new(text.as_bytes(), Position::default());
        let mut rows = Vec::new();
        while let Ok(Some(batch)) = values.batch() {
            for (number, row) in batch.rows().enumerate() {
                let text = String::from_utf8_lossy(row.bytes).into_owned();
                rows.push(batch.refusal(number).map_or(text, |refusal| {
                    let place = refusal.place_in(row);
                    let message = &refusal.finding.message;
                    format!("{}:{}: {message}", place.line, place.column)
                }));
            }
        }
        rows
    }

    #[test]
    fn rows_after_a_broken_one_are_found() {
        let good = "{\"m\": [1]}";
        let text = "[{\"m\": [1]},\n{\"m\": [}, {\"m\": 2},\n{\"m\": [1]}\n]\n";
        assert_eq!(with_broken(text), [good, "2:8: unexpected `}`", good]);
        let text = "[\n  {\"m\": [1]},\n  {\"m\": \"x},\n  {\"m\": [1]}\n]\n";
        assert_eq!(with_broken(text)[2], good);
        assert!(with_broken(text)[1].ends_with("the string has no end"));
        let text = "[{\"m\": [1]},\n {\"m\": {\"a\": 1},\n {\"m\": [1]}]";
        assert_eq!(with_broken(text).len(), 3);
        let text = "[{\"m\": [1]},\n {\"m\": [}\n]\n";
        assert_eq!(with_broken(text), [good, "2:9: unexpected `}`"]);
        let text = "[{\"m\": [1]}, {\"m\": [}, {\"m\": 1}]";
        let rest = "1:21: unexpected `}`; no further row can be found, and 12 bytes from here on were not read as rows";
        assert_eq!(with_broken(text), [good, rest]);
        let text = "[{\"m\": [1]},,\n{\"m\": [1]}]";
        assert_eq!(with_broken(text), [good, "1:13: expected a value", good]);
    }

    #[test]
    fn reading_continues_after_any_batch() {
        let row = format!("{{\"text\": \"{}\"}}", "y".repeat(3000));
        let text = format!("[{}]", vec![row; 1000].join(",\n"));
        let mut values = Values::new(text.as_bytes(), Position::default());
        let first = values.batch().ok().flatten().unwrap();
        let rest = &text.as_bytes()[usize::try_from(first.end.offset).unwrap()..];
        let mut again = Values::new(rest, first.end);
        let (one, other) = (values.batch().ok().flatten(), again.batch().ok().flatten());
        let (one, other) = (one.unwrap(), other.unwrap());
        assert_eq!(one.bytes, other.bytes);
        assert_eq!(one.end, other.end);
        assert_eq!(of(&one)[0].1, of(&other)[0].1);
    }

    #[test]
    fn reading_continues_the_same_before_a_broken_row() {
        let row = format!("{{\"text\": \"{}\"}}", "y".repeat(3000));
        let mut rows = vec![row; 700];
        let whole = format!("[{}]", rows.join(",\n"));
        let mut values = Values::new(whole.as_bytes(), Position::default());
        let first = values.batch().ok().flatten().unwrap();
        let at = usize::try_from(first.end.row).unwrap();
        // The first value of the second batch has no key.
        rows[at] = String::new();
        let text = format!("[{}]", rows.join(",\n"));
        let mut values = Values::new(text.as_bytes(), Position::default());
        let first = values.batch().ok().flatten().unwrap();
        assert_eq!(first.end.row, at as u64);
        let rest = &text.as_bytes()[usize::try_from(first.end.offset).unwrap()..];
        let mut again = Values::new(rest, first.end);
        let (one, other) = (values.batch().ok().flatten(), again.batch().ok().flatten());
        let (one, other) = (one.unwrap(), other.unwrap());
        assert!(one.rows().len() > 1);
        assert!(one.refusal(0).is_some());
        assert_eq!(of(&one), of(&other));
        assert_eq!(one.end, other.end);
    }

    #[test]
    fn a_value_that_is_too_long_is_skipped() {
        let text = format!("[\"{}\", 2]", "z".repeat(2 * MAX_ROW_BYTES));
        let mut values = Values::new(text.as_bytes(), Position::default());
        let batch = values.batch().ok().flatten().unwrap();
        assert!(batch.is_too_long(0));
        assert_eq!(batch.rows().nth(1).unwrap().bytes, b"2");
    }
}
