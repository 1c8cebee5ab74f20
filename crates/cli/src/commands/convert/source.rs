//! Inputs of a conversion: a text, or lines that are read one at a time.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
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

/// JSON lines that are read one at a time.
pub(super) struct Lines {
    name: String,
    stream: Box<dyn BufRead>,
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
    let mut stream: Box<dyn BufRead> = match path {
        None => Box::new(io::stdin().lock()),
        Some(path) => {
            // For anything except a regular file, `read_bytes` returns the appropriate error.
            let metadata = std::fs::metadata(path);
            if !metadata.is_ok_and(|metadata| metadata.is_file()) {
                let read = logue_agent::read_bytes(path).map_err(|error| source_failure(&error))?;
                return Ok(Input::Whole(read));
            }
            let file = File::open(path).map_err(|error| unreadable(name, &error))?;
            Box::new(BufReader::new(file))
        }
    };
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
fn another_follows(
    name: &str,
    stream: &mut Box<dyn BufRead>,
    first: &mut Vec<u8>,
) -> Result<bool, CliError> {
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
    /// Returns the next line that is not blank, with its position; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(Vec<u8>, Origin)>, CliError> {
        loop {
            let mut line = self.first.take().unwrap_or_default();
            if line.is_empty() && read_line(&self.name, &mut self.stream, &mut line)? == 0 {
                return Ok(None);
            }
            let start = self.next;
            self.next.offset += line.len();
            self.next.line += memchr::memchr_iter(b'\n', &line).count();
            while line.last().is_some_and(u8::is_ascii_whitespace) {
                line.pop();
            }
            if !line.is_empty() {
                return Ok(Some((line, start)));
            }
        }
    }
}

/// Reads one line of at most [`MAX_SOURCE_BYTES`].
fn read_line(
    name: &str,
    stream: &mut Box<dyn BufRead>,
    line: &mut Vec<u8>,
) -> Result<usize, CliError> {
    let limited = stream.take(MAX_SOURCE_BYTES + 1).read_until(b'\n', line);
    let count = limited.map_err(|error| unreadable(name, &error))?;
    if line.len() as u64 > MAX_SOURCE_BYTES {
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
