//! Server-sent events out of bytes that arrive in any pieces.
//!
//! A line ends in `\n`, `\r\n` or `\r`; an event ends at an empty line. Only `data` matters to the
//! wire formats here; other fields and comments are skipped. UTF-8 is decoded a whole event at a
//! time, so a character that two packets share is never broken.

/// Bytes to `data` payloads. Memory is bounded by the event limit, time is linear in the input.
#[derive(Debug)]
pub struct SseDecoder {
    limit: usize,
    /// The line that is being read.
    line: Vec<u8>,
    /// The data of the event that is being read, and whether it has any.
    data: Vec<u8>,
    has_data: bool,
    /// The last byte was `\r`: a `\n` right behind it belongs to the same line end.
    after_cr: bool,
    /// The first bytes may be a byte order mark.
    at_start: bool,
}

/// An event that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// One event is larger than the limit.
    #[error("one event of the stream is larger than {0} bytes")]
    TooLarge(usize),
}

impl SseDecoder {
    /// A decoder that refuses events of more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
            after_cr: false,
            at_start: true,
        }
    }

    /// Takes the next bytes and appends the data of each event that they complete to `out`.
    ///
    /// # Errors
    /// An event is larger than the limit; the decoder is of no use afterwards.
    pub fn push(&mut self, mut bytes: &[u8], out: &mut Vec<Vec<u8>>) -> Result<(), SseError> {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            if bytes[0] == b'\n' {
                bytes = &bytes[1..];
            }
        }
        while let Some(at) = memchr::memchr2(b'\n', b'\r', bytes) {
            self.take(&bytes[..at])?;
            let mut next = at + 1;
            if bytes[at] == b'\r' {
                match bytes.get(next) {
                    Some(b'\n') => next += 1,
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
            bytes = &bytes[next..];
            self.end_line(out)?;
        }
        self.take(bytes)
    }

    /// Whether an event has begun that is not complete: the stream broke off inside it.
    pub fn is_inside_event(&self) -> bool {
        self.has_data || !self.line.is_empty()
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), SseError> {
        if self.line.len() + self.data.len() + bytes.len() > self.limit {
            return Err(SseError::TooLarge(self.limit));
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, out: &mut Vec<Vec<u8>>) -> Result<(), SseError> {
        let mut line = self.line.as_slice();
        if self.at_start {
            self.at_start = false;
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        if line.is_empty() {
            if self.has_data {
                out.push(std::mem::take(&mut self.data));
                self.has_data = false;
            }
        } else if let Some(value) = data_of(line) {
            if self.data.len() + value.len() + 1 > self.limit {
                return Err(SseError::TooLarge(self.limit));
            }
            if self.has_data {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(value);
            self.has_data = true;
        }
        self.line.clear();
        Ok(())
    }
}

/// The value of a `data` line; `None` for any other line.
fn data_of(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"data")?;
    match rest {
        [] => Some(rest),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}
