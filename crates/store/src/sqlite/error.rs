//! Database errors in terms of the port: with the file and a remedy.

use std::error::Error;
use std::io;
use std::path::Path;

use logue_harness::store::StoreError;
use rusqlite::ErrorCode;

/// The error of an operation.
#[derive(Debug)]
pub(super) enum SqliteError {
    /// A rule of the port refuses the operation.
    Refused(StoreError),
    /// The database failed.
    Database(rusqlite::Error),
}

/// The result of an operation before its error is converted.
pub(super) type SqliteResult<T> = Result<T, SqliteError>;

impl SqliteError {
    /// Converts the error to that of the port.
    pub(super) fn into_store_error(self, path: &Path) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Database(error) => database(path, error),
        }
    }
}

impl From<StoreError> for SqliteError {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<rusqlite::Error> for SqliteError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

/// Converts an error of the temporary database of a search.
pub(crate) fn search_failure(error: rusqlite::Error) -> StoreError {
    database(Path::new("the temporary database of the search"), error)
}

/// Returns the error of a disk without space, or of a used-up quota.
pub(super) fn full(path: &Path, error: impl Error + Send + Sync + 'static) -> StoreError {
    let path = path.display();
    let message = format!("{path}: the disk is full; free some space and try again ({error})");
    StoreError::full(message, error)
}

/// Converts a database error and adds the path of its file.
pub(super) fn database(path: &Path, error: rusqlite::Error) -> StoreError {
    let advice = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => {
            return full(path, error);
        }
        Some(ErrorCode::SystemIoFailure) => {
            "the disk or file system failed; check it and try again"
        }
        Some(ErrorCode::ReadOnly) => {
            "cannot write; check that the file exists, its permissions and its directory's"
        }
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            "cannot open; check its permissions and its directory's"
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "locked by another process; try again, or end that process"
        }
        Some(ErrorCode::TooBig) => "a text exceeds the maximum of the database; shorten it",
        Some(ErrorCode::OutOfMemory) => "out of memory; try again with more",
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            return damaged(path, &error.to_string());
        }
        None => return damaged(path, &error.to_string()),
        Some(_) => "unexpected database error",
    };
    StoreError::Unavailable {
        message: format!("{}: {advice} ({error})", path.display()),
        source: Some(std::sync::Arc::new(error)),
    }
}

/// Returns the error for malformed content of the file.
pub(super) fn damaged(path: &Path, what: &str) -> StoreError {
    StoreError::Damaged(format!(
        "{}: {what}; restore a copy, or rescue what is left with `sqlite3 FILE .recover`",
        path.display()
    ))
}

/// Converts a file system error.
pub(super) fn file(path: &Path, error: io::Error) -> StoreError {
    StoreError::Unavailable {
        message: format!("{}: {error}", path.display()),
        source: Some(std::sync::Arc::new(error)),
    }
}
