//! What goes wrong with a database, as the port tells it: with the file and what to do about it.

use std::io;
use std::path::Path;

use logue_harness::store::StoreError;
use rusqlite::ErrorCode;

/// Why an operation did not succeed.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The port's rules are against it.
    Refused(StoreError),
    /// The database failed.
    Database(rusqlite::Error),
}

/// What an operation gives before its errors are told.
pub(super) type Tried<T> = Result<T, Trouble>;

impl Trouble {
    /// The error as the port has it.
    pub(super) fn told(self, path: &Path) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Database(error) => database(path, error),
        }
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

/// A failure of the database in terms of its file.
pub(super) fn database(path: &Path, error: rusqlite::Error) -> StoreError {
    let advice = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "there is no room for more; make some and try again",
        Some(ErrorCode::SystemIoFailure) => {
            "the disk or file system failed; check it and try again"
        }
        Some(ErrorCode::ReadOnly) => {
            "it cannot be written; check that it is still there, its permissions and its folder's"
        }
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            "it cannot be opened; check its permissions and its folder's"
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another process has been writing to it all the time; try again, or end that process"
        }
        Some(ErrorCode::TooBig) => "a text is longer than a database can hold; shorten it",
        Some(ErrorCode::OutOfMemory) => "there is not enough memory; try again with more",
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            return damaged(path, &error.to_string());
        }
        None => return damaged(path, &error.to_string()),
        Some(_) => "the database refused; this should not happen",
    };
    StoreError::Unavailable {
        message: format!("{}: {advice} ({error})", path.display()),
        source: Some(std::sync::Arc::new(error)),
    }
}

/// Content that nobody wrote there.
pub(super) fn damaged(path: &Path, what: &str) -> StoreError {
    StoreError::Damaged(format!(
        "{}: {what}; restore a copy, or rescue what is left with `sqlite3 FILE .recover`",
        path.display()
    ))
}

/// A failure of the file system.
pub(super) fn file(path: &Path, error: io::Error) -> StoreError {
    StoreError::Unavailable {
        message: format!("{}: {error}", path.display()),
        source: Some(std::sync::Arc::new(error)),
    }
}
