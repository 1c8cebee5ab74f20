//! Opening the file: its application, its permissions and its write mode.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use logue_harness::store::StoreError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::error::{SqliteError, SqliteResult, database, file, full};
use super::migration::{self, APPLICATION, foreign, migrate, no_database};
use super::{seal, tally};

/// The page size of a new file, in bytes.
///
/// A turn changes a few rows in several places, and each place is one written page, so small pages
/// keep small turns cheap. Short sessions also leave few empty bytes.
pub(super) const PAGE: u64 = 2048;
/// The first bytes of every SQLite file.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// The offset of the application id in the header.
const APPLICATION_AT: usize = 68;
/// The offset of the page count in the header.
const PAGES_AT: usize = 28;
/// The number of reads before a file without our header is refused, [`GLANCE`] apart.
///
/// Another process may be writing its first bytes.
const LOOKS: u32 = 20;
const GLANCE: Duration = Duration::from_millis(5);
/// The maximum wait for others that read the write-ahead log.
const EMPTYING: Duration = Duration::from_secs(1);
/// The pause between attempts while another process writes to the file.
const PAUSE: Duration = Duration::from_millis(1);

/// The number of bytes for which a disk must have space.
const SPACE: usize = 64 * 1024;

/// Checks that the disk has space for a change, in a file without a name.
///
/// # Errors
/// Returns [`StoreError::Unavailable`] if the disk or a quota is full.
pub(super) fn expect_space(path: &Path) -> Result<(), StoreError> {
    let written =
        tempfile::tempfile_in(folder_of(path)).and_then(|mut file| file.write_all(&vec![0; SPACE]));
    match written {
        Err(error)
            if [ErrorKind::StorageFull, ErrorKind::QuotaExceeded].contains(&error.kind()) =>
        {
            Err(full(path, error))
        }
        // Other failures are those of changes, if they concern them.
        _ => Ok(()),
    }
}

/// The identity of the opened file. Writes to a file that was replaced are not confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    path: PathBuf,
    #[cfg(unix)]
    number: (u64, u64),
}

impl Identity {
    /// Returns the identity of the file at a path.
    pub(super) fn from_path(path: &Path) -> Result<Self, StoreError> {
        let found = fs::metadata(path).map_err(|error| gone(path, Some(error)))?;
        #[cfg(not(unix))]
        drop(found);
        Ok(Self {
            path: path.to_owned(),
            #[cfg(unix)]
            number: {
                use std::os::unix::fs::MetadataExt;
                (found.dev(), found.ino())
            },
        })
    }

    /// Returns an error if the path no longer leads to this file.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        if Self::from_path(&self.path)? == *self {
            return Ok(());
        }
        Err(gone(&self.path, None))
    }
}

fn gone(path: &Path, error: Option<io::Error>) -> StoreError {
    StoreError::Unavailable {
        message: format!(
            "{}: the file was moved or removed while it was open; put it back, or open it anew",
            path.display()
        ),
        source: error.map(|error| std::sync::Arc::new(error) as _),
    }
}

/// Opens the file for writing, and creates or migrates it if necessary.
///
/// A file of another application is refused.
pub(super) fn open(
    path: &Path,
    busy_timeout: Duration,
    pages: Option<u64>,
) -> Result<Connection, StoreError> {
    if !exists_as_ours(path)? {
        create(path)?;
    }
    let prepare = || -> SqliteResult<Connection> {
        let conn = connect(path, Access::ReadWrite)?;
        let pages_now: i64 = with_busy_retry(busy_timeout, || {
            conn.pragma_query_value(None, "page_count", |row| row.get(0))
        })?;
        // Only an empty file accepts these; a change later would rewrite the whole file.
        if pages_now == 0 {
            conn.pragma_update(None, "page_size", PAGE.cast_signed())?;
            with_busy_retry(busy_timeout, || {
                conn.pragma_update(None, "auto_vacuum", "INCREMENTAL")
            })?;
        }
        with_busy_retry(busy_timeout, || conn.execute_batch("BEGIN IMMEDIATE"))?;
        let migrated = migrate(&conn, path).and_then(|()| Ok(conn.execute_batch("COMMIT")?));
        undo_if_failed(&conn, migrated)?;
        tally::watch(&conn)?;
        with_busy_retry(busy_timeout, || {
            conn.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))
        })?;
        conn.pragma_update(None, "synchronous", "FULL")?;
        conn.pragma_update(None, "fullfsync", true)?;
        conn.pragma_update(None, "journal_size_limit", 4 << 20)?;
        // What is removed is overwritten, also what a turn needed only while it ran.
        conn.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))?;
        if let Some(pages) = pages {
            conn.pragma_update_and_check(None, "max_page_count", pages.to_string(), |_| Ok(()))?;
        }
        // SQLite's own wait grows to 100 ms between attempts, so that a process that waits longer
        // has fewer chances than one that begins to wait. `with_busy_retry` has even intervals.
        conn.busy_timeout(Duration::ZERO)?;
        Ok(conn)
    };
    prepare().map_err(|error| error.into_store_error(path))
}

/// The access to the file that its permissions and its directory's allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    ReadWrite,
    /// The file is read without writing anything, also beside it.
    ReadOnly {
        /// Whether no other program writes to it. Locks are then left out.
        is_unused: bool,
    },
}

/// Returns the access to a file without trying to write, if its permissions forbid that.
pub(super) fn marked_read_only(path: &Path) -> Option<Access> {
    let is_marked = path.exists() && is_marked_read_only(path);
    is_marked.then(|| read_only(path))
}

/// Returns whether the permissions of a file or of its directory forbid to write.
///
/// A user who may ignore permissions obeys them here.
pub(super) fn is_marked_read_only(path: &Path) -> bool {
    let is_marked =
        |path: &Path| fs::metadata(path).is_ok_and(|found| found.permissions().readonly());
    is_marked(path) || is_marked(folder_of(path))
}

/// Returns the error of a file that cannot be written.
pub(super) fn unwritable(path: &Path) -> StoreError {
    StoreError::ReadOnly(format!(
        "{}: cannot write: the file or its directory is read-only",
        path.display()
    ))
}

/// Converts the failure to create a file.
pub(super) fn not_created(path: &Path, error: io::Error) -> StoreError {
    match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            StoreError::ReadOnly(format!(
                "{}: cannot create: its directory is read-only",
                path.display()
            ))
        }
        _ => file(path, error),
    }
}

/// Returns the access to a file that cannot be written.
///
/// A log beside it has changes of another program, which are read with it.
pub(super) fn read_only(path: &Path) -> Access {
    let log = fs::metadata(beside(path, "-wal"));
    Access::ReadOnly {
        is_unused: !log.is_ok_and(|log| log.len() > 0),
    }
}

/// Checks that a file is a session store of the current format.
pub(super) fn check_read_only(
    path: &Path,
    busy_timeout: Duration,
    access: Access,
) -> Result<(), StoreError> {
    exists_as_ours(path)?;
    let conn = open_reader(path, busy_timeout, access)?;
    let found = migration::found(&conn).map_err(|error| {
        let needs_index = access == Access::ReadOnly { is_unused: false };
        if needs_index && !beside(path, "-shm").exists() {
            return unread_log(path);
        }
        error.into_store_error(path)
    })?;
    let known = migration::known();
    if found > known {
        return Err(StoreError::Newer { found, known });
    }
    if found < known {
        return Err(StoreError::Unavailable {
            message: format!(
                "{}: cannot write, and the format {found} must be changed to {known}; copy the \
                 file to a directory that can be written",
                path.display()
            ),
            source: None,
        });
    }
    Ok(())
}

/// Returns the error of a log that cannot be read in its directory.
fn unread_log(path: &Path) -> StoreError {
    StoreError::ReadOnly(format!(
        "{}: `{}` beside it has changes that can only be read where files can be created; copy both \
         files to a directory that can be written",
        path.display(),
        beside(path, "-wal").display()
    ))
}

/// Returns whether a failure to open for writing permits reading.
pub(super) fn permits_reading(path: &Path, error: &StoreError) -> bool {
    let StoreError::Unavailable {
        source: Some(source),
        ..
    } = error
    else {
        return false;
    };
    let code = source
        .downcast_ref::<rusqlite::Error>()
        .and_then(rusqlite::Error::sqlite_error_code);
    let is_refused = matches!(
        code,
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied)
    );
    is_refused && File::open(path).is_ok()
}

/// Opens a connection that changes nothing.
pub(super) fn open_reader(
    path: &Path,
    busy_timeout: Duration,
    access: Access,
) -> Result<Connection, StoreError> {
    let prepare = || -> rusqlite::Result<Connection> {
        let conn = connect(path, access)?;
        conn.pragma_update(None, "query_only", true)?;
        conn.busy_timeout(busy_timeout)?;
        Ok(conn)
    };
    prepare().map_err(|error| database(path, error))
}

/// Retries while another process writes, until `busy_timeout` has elapsed.
pub(super) fn with_busy_retry<T>(
    busy_timeout: Duration,
    mut attempt: impl FnMut() -> rusqlite::Result<T>,
) -> SqliteResult<T> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Err(error) if is_busy(&error) && begun.elapsed() < busy_timeout => thread::sleep(PAUSE),
            result => return result.map_err(SqliteError::from),
        }
    }
}

/// Copies the write-ahead log to the file and empties it.
///
/// It has earlier contents of the pages. It is left if others read all the time.
pub(super) fn empty_log(conn: &Connection) {
    let begun = Instant::now();
    loop {
        let emptied = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
            row.get::<_, i64>(0)
        });
        if matches!(emptied, Ok(0)) || begun.elapsed() > EMPTYING {
            return;
        }
        thread::sleep(PAUSE);
    }
}

/// Rolls back after a failure and returns the original error.
///
/// Some errors, such as a full disk, have ended the transaction already.
pub(super) fn undo_if_failed(conn: &Connection, result: SqliteResult<()>) -> SqliteResult<()> {
    if result.is_err() && !conn.is_autocommit() {
        drop(conn.execute_batch("ROLLBACK"));
    }
    result
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

pub(super) fn connect(path: &Path, access: Access) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = match access {
        Access::ReadWrite => {
            Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_READ_WRITE)?
        }
        Access::ReadOnly { is_unused } => {
            let flags = flags | OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
            Connection::open_with_flags(uri(path, is_unused), flags)?
        }
    };
    conn.set_prepared_statement_cache_capacity(64);
    // Statements are compiled once, not for each value of a parameter.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // The pages that a savepoint may restore stay in memory.
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.pragma_update(None, "foreign_keys", true)?;
    // Ids in files are data; functions named in a schema run only if they are harmless.
    conn.pragma_update(None, "trusted_schema", false)?;
    seal::register(&conn)?;
    Ok(conn)
}

/// Returns the URI of a file that is only read.
fn uri(path: &Path, is_unused: bool) -> String {
    let mut uri = "file:".to_owned();
    for character in path.to_string_lossy().chars() {
        match character {
            '%' => uri.push_str("%25"),
            '?' => uri.push_str("%3f"),
            '#' => uri.push_str("%23"),
            other => uri.push(other),
        }
    }
    uri.push_str(if is_unused {
        "?mode=ro&immutable=1"
    } else {
        "?mode=ro"
    });
    uri
}

/// Returns whether the file exists.
///
/// A file of another application is refused before it is opened as a database.
pub(super) fn exists_as_ours(path: &Path) -> Result<bool, StoreError> {
    let mut is_database = false;
    for _ in 0..LOOKS {
        // A file whose creation runs or was interrupted has a journal.
        let unfinished = beside(path, "-journal").exists();
        let mut header = Vec::new();
        match File::open(path).and_then(|file| file.take(100).read_to_end(&mut header)) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(file(path, error)),
        }
        let application = header.get(APPLICATION_AT..APPLICATION_AT + 4);
        let ours = header.starts_with(MAGIC) && application == Some(&APPLICATION.to_be_bytes());
        // A file whose creation was interrupted at the first page has no table.
        let unused = header.starts_with(MAGIC)
            && application == Some(&[0; 4])
            && header.get(PAGES_AT..PAGES_AT + 4) == Some(&1_u32.to_be_bytes());
        if ours || unused || header.is_empty() || unfinished {
            return Ok(true);
        }
        is_database = header.starts_with(MAGIC);
        thread::sleep(GLANCE);
    }
    Err(if is_database {
        foreign(path)
    } else {
        no_database(path)
    })
}

fn create(path: &Path) -> Result<(), StoreError> {
    let folder = folder_of(path);
    if folder != Path::new(".") {
        private_folder(folder).map_err(|error| not_created(folder, error))?;
    }
    let made = private_file(path);
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(not_created(path, error)),
        Ok(()) => sync_folder(folder).map_err(|error| file(path, error)),
    }
}

/// Returns the directory of a file.
pub(super) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Creates a file that only its owner can read.
///
/// The files that SQLite creates beside it inherit the mode.
pub(super) fn private_file(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}

fn private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Makes the name of a new file as durable as its content.
#[cfg(unix)]
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
pub(super) fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
