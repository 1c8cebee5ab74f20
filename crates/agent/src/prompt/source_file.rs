//! Reads the text of prompts and transcripts from files and streams.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use logue_source::{Diagnostic, DiagnosticCode, Span};

/// The size limit of a prompt or transcript, in bytes.
pub const MAX_SOURCE_BYTES: u64 = 64 * 1024 * 1024;

/// The error of a file that cannot be used, with the text that was read.
#[derive(Clone, Debug)]
pub struct SourceError {
    /// The path as the caller wrote it.
    pub name: String,
    /// The text that the diagnostic points into, or empty if nothing could be read.
    pub text: Vec<u8>,
    /// The error.
    pub diagnostic: Box<Diagnostic>,
}

impl std::fmt::Display for SourceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.name, self.diagnostic.message)
    }
}

impl std::error::Error for SourceError {}

impl SourceError {
    fn new(name: &str, code: DiagnosticCode, message: impl Into<String>, help: &str) -> Self {
        let diagnostic = Diagnostic::error(code, message, Span::default()).with_help(help);
        Self {
            name: name.to_owned(),
            text: Vec::new(),
            diagnostic: Box::new(diagnostic),
        }
    }
}

/// Reads a file's bytes.
///
/// # Errors
/// Returns an error if the file is missing, is not a regular file, cannot be read, or is larger
/// than [`MAX_SOURCE_BYTES`].
pub fn read_bytes(path: &Path) -> Result<Vec<u8>, SourceError> {
    let name = path.display().to_string();
    // The type is checked before the file is opened: opening a pipe would wait for its writer.
    let metadata = std::fs::metadata(path).map_err(|error| unreadable(&name, &error))?;
    let file = if metadata.is_file() {
        File::open(path).map_err(|error| unreadable(&name, &error))?
    } else {
        let (what, help) = if metadata.is_dir() {
            ("is a directory", "name a file in it")
        } else {
            (
                "is not a regular file",
                "give its content on standard input with `-`",
            )
        };
        return Err(SourceError::new(
            &name,
            DiagnosticCode::SourceRead,
            format!("`{name}` {what}"),
            help,
        ));
    };
    if metadata.len() > MAX_SOURCE_BYTES {
        return Err(too_large(&name));
    }
    read_all(&name, file)
}

/// Reads a stream to its end; messages call it `name`.
///
/// # Errors
/// Returns an error if the stream fails or is larger than [`MAX_SOURCE_BYTES`].
pub fn read_all(name: &str, stream: impl Read) -> Result<Vec<u8>, SourceError> {
    let mut bytes = Vec::new();
    stream
        .take(MAX_SOURCE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(name, &error))?;
    if bytes.len() as u64 > MAX_SOURCE_BYTES {
        return Err(too_large(name));
    }
    Ok(bytes)
}

/// Converts bytes to text.
///
/// # Errors
/// Returns an error that points at the first byte that is not UTF-8.
pub fn into_text(name: &str, bytes: Vec<u8>) -> Result<String, SourceError> {
    String::from_utf8(bytes).map_err(|error| {
        let start = error.utf8_error().valid_up_to();
        let len = error.utf8_error().error_len().unwrap_or(1);
        let diagnostic = Diagnostic::error(
            DiagnosticCode::SourceNotUtf8,
            "the file is not UTF-8 text",
            Span::new(start, start + len),
        )
        .with_expected("a UTF-8 character")
        .with_help("save the file as UTF-8");
        SourceError {
            name: name.to_owned(),
            text: error.into_bytes(),
            diagnostic: Box::new(diagnostic),
        }
    })
}

fn too_large(name: &str) -> SourceError {
    SourceError::new(
        name,
        DiagnosticCode::SourceTooLarge,
        format!(
            "`{name}` is larger than {} MiB",
            MAX_SOURCE_BYTES / (1024 * 1024)
        ),
        "split it, or keep large documents in files of their own and name them with <doc src=\"…\" local/>",
    )
}

fn unreadable(name: &str, error: &io::Error) -> SourceError {
    let (message, help) = match error.kind() {
        io::ErrorKind::NotFound => (
            format!("there is no file `{name}`"),
            "check the path; it is relative to the current directory",
        ),
        io::ErrorKind::PermissionDenied => (
            format!("`{name}` may not be read"),
            "check the permissions of the file and its directories",
        ),
        _ => (
            format!("`{name}` cannot be read: {error}"),
            "check the path",
        ),
    };
    SourceError::new(name, DiagnosticCode::SourceRead, message, help)
}
