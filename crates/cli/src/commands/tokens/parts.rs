//! Splitting of a file of any length into parts that are encoded separately.
//!
//! The cuts do not change the tokens ([`safe_split`]). Memory is bounded by the longest stretch
//! without words or lines.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use logue_o200k::safe_split;

use crate::exit::CliError;
use crate::files::{is_stdin, shown_name};

/// Bytes per read.
const BLOCK: usize = 64 * 1024;

/// The reason for an incomplete pass over the parts.
pub(super) enum ReadError {
    /// The file cannot be read or is not text.
    Input(Box<CliError>),
    /// The receiver of the parts cannot write.
    Output(io::Error),
}

/// Passes the text of a file to `sink`, part by part.
pub(super) fn each_part(
    file: &Path,
    sink: &mut dyn FnMut(&str) -> io::Result<()>,
) -> Result<(), ReadError> {
    let name = shown_name(file);
    if is_stdin(file) {
        return each_part_of(&name, io::stdin().lock(), sink);
    }
    let unreadable = |error: &io::Error| ReadError::Input(Box::new(unreadable(&name, error)));
    let metadata = std::fs::metadata(file).map_err(|error| unreadable(&error))?;
    if metadata.is_dir() {
        let failure = CliError::user("E-SOURCE-READ", format!("`{name}` is a directory"));
        return Err(ReadError::Input(Box::new(
            failure.with_help("name a file in it"),
        )));
    }
    let opened = File::open(file).map_err(|error| unreadable(&error))?;
    each_part_of(&name, opened, sink)
}

fn each_part_of(
    name: &str,
    mut stream: impl Read,
    sink: &mut dyn FnMut(&str) -> io::Result<()>,
) -> Result<(), ReadError> {
    let mut block = vec![0; BLOCK];
    let mut text = Text::default();
    loop {
        let count = match stream.read(&mut block) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(ReadError::Input(Box::new(unreadable(name, &error)))),
        };
        let read = block.get(..count).unwrap_or_default();
        text.push(name, read, count == 0)?;
        if count == 0 {
            return sink(&text.held).map_err(ReadError::Output);
        }
        if let Some(part) = text.part() {
            sink(&part).map_err(ReadError::Output)?;
        }
    }
}

/// Text that has been read and not yet passed on.
#[derive(Default)]
struct Text {
    held: String,
    /// The bytes of an incomplete character.
    half: Vec<u8>,
    /// Number of bytes read before those of `half`.
    before: usize,
    /// Minimum length of `held` for the next search for a cut.
    enough: usize,
}

impl Text {
    fn push(&mut self, name: &str, bytes: &[u8], last: bool) -> Result<(), ReadError> {
        self.half.extend_from_slice(bytes);
        let (valid, error) = match std::str::from_utf8(&self.half) {
            Ok(text) => (text, None),
            Err(error) => {
                let valid = self.half.get(..error.valid_up_to()).unwrap_or_default();
                (std::str::from_utf8(valid).unwrap_or_default(), Some(error))
            }
        };
        self.held.push_str(valid);
        let length = valid.len();
        self.half.drain(..length);
        self.before += length;
        match error {
            Some(error) if last || error.error_len().is_some() => {
                Err(ReadError::Input(Box::new(self.not_utf8(name))))
            }
            _ => Ok(()),
        }
    }

    fn not_utf8(&self, name: &str) -> CliError {
        let message = format!(
            "`{name}` is not UTF-8 text: invalid at byte {}",
            self.before
        );
        CliError::user("E-SOURCE-NOT-UTF8", message).with_help("save the file as UTF-8")
    }

    /// Returns a part up to the last safe cut, if enough text is held.
    fn part(&mut self) -> Option<String> {
        if self.held.len() < self.enough.max(BLOCK) {
            return None;
        }
        let Some(at) = safe_split(&self.held) else {
            // Doubling the threshold avoids a search of the same text for every block.
            self.enough = self.held.len() * 2;
            return None;
        };
        self.enough = 0;
        let remaining = self.held.split_off(at);
        Some(std::mem::replace(&mut self.held, remaining))
    }
}

fn unreadable(name: &str, error: &io::Error) -> CliError {
    let (message, help) = match error.kind() {
        io::ErrorKind::NotFound => (
            format!("file `{name}` not found"),
            "check the path, which is relative to the current directory",
        ),
        _ => (format!("cannot read `{name}`: {error}"), "check the path"),
    };
    CliError::user("E-SOURCE-READ", message).with_help(help)
}
