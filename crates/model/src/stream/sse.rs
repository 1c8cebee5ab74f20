//! An incremental decoder of server-sent events.
//!
//! A line ends in `\n`, `\r\n` or `\r`; an event ends at an empty line. The wire formats use only
//! `data`; other fields and comments are skipped. UTF-8 is decoded per complete event, so a chunk
//! boundary within a character has no effect.
//!
//! `sse-stream`, which the MCP client brings into the tree, does not fit: it has no limit on the size
//! of a line or event, rejects unknown fields and lines without a colon (the standard requires
//! ignoring them), loses the events that precede such a line in the same chunk, and does not report
//! whether the stream ended inside an event.

/// Converts bytes to `data` payloads.
///
/// Memory is bounded by the event limit; time is linear in the input.
#[derive(Debug)]
pub struct SseDecoder {
    limit: usize,
    /// The current line.
    line: Vec<u8>,
    /// The data of the current event.
    data: Vec<u8>,
    has_data: bool,
    /// Whether the last byte was `\r`; a subsequent `\n` belongs to the same line end.
    after_cr: bool,
    /// Whether a byte order mark may follow.
    at_start: bool,
}

/// An error in an event stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SseError {
    /// One event is larger than the limit.
    #[error("one event of the stream is larger than {0} bytes")]
    TooLarge(usize),
}

impl SseDecoder {
    /// Creates a decoder with a limit of `limit` bytes per event.
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

    /// Decodes the next bytes and appends the data of each completed event to `out`.
    ///
    /// # Errors
    /// Returns [`SseError::TooLarge`] if an event exceeds the limit. The decoder must not be used
    /// afterwards.
    pub fn push(&mut self, mut bytes: &[u8], out: &mut Vec<Vec<u8>>) -> Result<(), SseError> {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            if bytes[0] == b'\n' {
                bytes = &bytes[1..];
            }
        }
        while let Some(at) = memchr::memchr2(b'\n', b'\r', bytes) {
            self.extend_line(&bytes[..at])?;
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
        self.extend_line(bytes)
    }

    /// Returns whether an incomplete event has begun.
    pub fn is_inside_event(&self) -> bool {
        self.has_data || !self.line.is_empty()
    }

    fn extend_line(&mut self, bytes: &[u8]) -> Result<(), SseError> {
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

/// Returns the value of a `data` line, or `None` for any other line.
fn data_of(line: &[u8]) -> Option<&[u8]> {
    let value = line.strip_prefix(b"data")?;
    match value {
        [] => Some(value),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}
