//! Inputs of a conversion: a text, or lines that are read one at a time.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::ops::Range;
use std::path::Path;

use logue_agent::{MAX_SOURCE_BYTES, read_all};
use logue_source::{DiagnosticCode, Origin};
use openchatml::project::is_message_line;

use crate::conversion::form::looks_like_json;
use crate::exit::CliError;
use crate::setup::failures::source_failure;

/// An input, read as far as its kind requires.
pub(super) enum Input {
    /// One text.
    Whole(Vec<u8>),
    /// JSON lines.
    Lines(Lines),
}

/// Bytes of lines that are converted together.
const BATCH: usize = 256 * 1024;

/// Bytes that are read at a time.
const BLOCK: usize = 128 * 1024;

/// An input of any kind.
type Stream = BufReader<Box<dyn Read + Send>>;

/// Lines that are not blank, each with its place.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) text: Vec<u8>,
    pub(super) lines: Vec<(Range<usize>, Origin)>,
    /// The failure that follows these lines.
    pub(super) failure: Option<CliError>,
}

/// JSON lines that are read a batch at a time.
pub(super) struct Lines {
    name: String,
    stream: Stream,
    /// The size of a file; `None` for a pipe.
    size: Option<u64>,
    is_over: bool,
    /// The line that was read to detect JSON lines.
    first: Option<Vec<u8>>,
    next: Origin,
}

/// Opens an input; `None` as `path` is standard input.
///
/// The input is JSON lines if `lines` is set, if its extension is `jsonl` or `ndjson`, or if its
/// first line is complete JSON and another value follows. Unless `lines` is set, lines that are one
/// message each are one text.
pub(super) fn open(name: &str, path: Option<&Path>, lines: bool) -> Result<Input, CliError> {
    let (input, size): (Box<dyn Read + Send>, Option<u64>) = match path {
        None => (Box::new(io::stdin()), None),
        Some(path) => {
            // For anything except a regular file, `read_bytes` returns the appropriate error.
            let metadata = std::fs::metadata(path);
            let size = metadata.ok().filter(std::fs::Metadata::is_file);
            let Some(size) = size.map(|metadata| metadata.len()) else {
                let read = logue_agent::read_bytes(path).map_err(|error| source_failure(&error))?;
                return Ok(Input::Whole(read));
            };
            let file = File::open(path).map_err(|error| unreadable(name, &error))?;
            (Box::new(file), Some(size))
        }
    };
    let mut stream = BufReader::with_capacity(BLOCK, input);
    let ending = path.and_then(Path::extension);
    let is_named_jsonl = ending.is_some_and(|ending| ending == "jsonl" || ending == "ndjson");
    let first = if lines {
        None
    } else {
        let mut first = Vec::new();
        read_line(name, &mut stream, &mut first)?;
        let is_whole = is_message_line(&first)
            || !is_named_jsonl
                && (!is_a_line(&first) || !another_follows(name, &mut stream, &mut first)?);
        if is_whole {
            let text = read_all(name, io::Cursor::new(first).chain(stream));
            return text
                .map(Input::Whole)
                .map_err(|error| source_failure(&error));
        }
        Some(first)
    };
    Ok(Input::Lines(Lines {
        name: name.to_owned(),
        stream,
        size,
        is_over: false,
        first,
        next: Origin::default(),
    }))
}

fn is_a_line(line: &[u8]) -> bool {
    looks_like_json(line) && serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok()
}

/// Returns whether another value follows the first line.
///
/// Blank lines between the two are appended to `first`.
fn another_follows(name: &str, stream: &mut Stream, first: &mut Vec<u8>) -> Result<bool, CliError> {
    loop {
        let waiting = stream
            .fill_buf()
            .map_err(|error| unreadable(name, &error))?;
        let blank = waiting.iter().take_while(|byte| byte.is_ascii_whitespace());
        let blank = blank.count();
        if waiting.is_empty() {
            return Ok(false);
        }
        if blank < waiting.len() {
            return Ok(waiting.get(blank).is_some_and(|byte| b"{[".contains(byte)));
        }
        first.extend_from_slice(waiting);
        stream.consume(blank);
    }
}

impl Lines {
    /// Returns the size of the input, if it is a file.
    pub(super) const fn size(&self) -> Option<u64> {
        self.size
    }

    /// Reads the next lines; `None` at the end.
    ///
    /// A batch from a pipe ends where a further line would have to be awaited.
    pub(super) fn batch(&mut self) -> Option<Batch> {
        let mut batch = Batch::default();
        while !self.is_over {
            let start = batch.text.len();
            let count = match self.read_line(&mut batch.text) {
                Ok(count) => count,
                Err(failure) => {
                    batch.text.truncate(start);
                    batch.failure = Some(failure);
                    0
                }
            };
            self.is_over = count == 0;
            let line = batch.text.get(start..).unwrap_or_default();
            let origin = self.next;
            self.next.offset += line.len();
            self.next.line += memchr::memchr_iter(b'\n', line).count();
            let line = line.trim_ascii_end();
            if !line.is_empty() {
                batch.lines.push((start..start + line.len(), origin));
            }
            if batch.text.len() >= BATCH || (!batch.lines.is_empty() && self.must_wait()) {
                break;
            }
        }
        let is_empty = batch.lines.is_empty() && batch.failure.is_none();
        (!is_empty || !self.is_over).then_some(batch)
    }

    /// Returns whether the next line is not there yet.
    fn must_wait(&self) -> bool {
        self.size.is_none() && memchr::memchr(b'\n', self.stream.buffer()).is_none()
    }

    fn read_line(&mut self, text: &mut Vec<u8>) -> Result<usize, CliError> {
        match self.first.take() {
            Some(first) if !first.is_empty() => {
                text.extend_from_slice(&first);
                Ok(first.len())
            }
            _ => read_line(&self.name, &mut self.stream, text),
        }
    }
}

/// Reads one line of at most [`MAX_SOURCE_BYTES`].
fn read_line(name: &str, stream: &mut Stream, text: &mut Vec<u8>) -> Result<usize, CliError> {
    let limited = stream.take(MAX_SOURCE_BYTES + 1).read_until(b'\n', text);
    let count = limited.map_err(|error| unreadable(name, &error))?;
    if count as u64 > MAX_SOURCE_BYTES {
        return Err(CliError::user(
            DiagnosticCode::SourceTooLarge.as_str(),
            format!(
                "a line of `{name}` is larger than {} MiB",
                MAX_SOURCE_BYTES >> 20
            ),
        )
        .with_help("split the conversation"));
    }
    Ok(count)
}

fn unreadable(name: &str, error: &io::Error) -> CliError {
    CliError::user(
        DiagnosticCode::SourceRead.as_str(),
        format!("cannot read `{name}`: {error}"),
    )
}
