//! Failures that end a command: an input or output that cannot be used.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use logue_source::DiagnosticCode;

use crate::output::is_stdout;

/// A failure that ends the work on a data set. Failures of single rows are [`Refusal`](crate::Refusal)s.
#[derive(Debug)]
#[non_exhaustive]
pub enum DataError {
    /// An input cannot be opened or read.
    Read {
        /// The file; `-` is standard input.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// The structure of a JSON file is invalid; no further row can be found.
    Structure {
        /// The file; `-` is standard input.
        path: PathBuf,
        /// The line of the error, from 1; 0 if the format has no lines.
        line: u64,
        /// The column of the error in bytes, from 1; 0 without lines.
        column: u64,
        /// The error.
        message: String,
    },
    /// The output, the quarantine or their progress cannot be written.
    Write {
        /// The file; `-` is standard output.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// Another run writes the same output.
    Busy {
        /// The output.
        path: PathBuf,
    },
    /// The reader of standard output closed it.
    Closed,
}

impl DataError {
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Read {
            path: path.to_owned(),
            error,
        }
    }

    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Write {
            path: path.to_owned(),
            error,
        }
    }

    /// Returns the stable code; `None` if the reader of standard output closed it.
    pub fn code(&self) -> Option<&'static str> {
        match self {
            Self::Read { .. } => Some(DiagnosticCode::SourceRead.as_str()),
            Self::Structure { .. } => Some(DiagnosticCode::JsonSyntax.as_str()),
            Self::Write { path, .. } if is_stdout(path) => Some("stdout_write_failed"),
            Self::Write { .. } => Some("data_write_failed"),
            Self::Busy { .. } => Some("data_output_busy"),
            Self::Closed => None,
        }
    }
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, error } => write!(f, "cannot read `{}`: {error}", path.display()),
            Self::Structure {
                path,
                line: 0,
                message,
                ..
            } => write!(f, "{}: {message}", path.display()),
            Self::Structure {
                path,
                line,
                column,
                message,
            } => write!(f, "{}:{line}:{column}: {message}", path.display()),
            Self::Write { path, error } => write!(f, "cannot write `{}`: {error}", path.display()),
            Self::Busy { path } => write!(f, "another run is writing `{}`", path.display()),
            Self::Closed => f.write_str("standard output was closed"),
        }
    }
}

impl std::error::Error for DataError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read { error, .. } | Self::Write { error, .. } => Some(error),
            Self::Structure { .. } | Self::Busy { .. } | Self::Closed => None,
        }
    }
}
