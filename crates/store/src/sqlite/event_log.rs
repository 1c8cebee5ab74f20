//! The log of events in a SQLite file.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use logue_harness::Timestamp;
use logue_harness::events::{EventBatch, EventLog, EventPage, LogPosition, LoggedEvent};
use logue_harness::store::{StoreError, StoreResult};
use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::Value;

use super::error::SqliteResult;
use super::event_rows;
use super::file::{self, Access, Identity, with_busy_retry};
use super::queue::{Flush, Pace, Queue};

/// The application id of the file: `LogE` in ASCII.
const APPLICATION: i64 = 0x4c6f_6745;
/// The format of the file. A file of another format is replaced: the store has what it repeats.
const FORMAT: i64 = 2;
/// The number of threads that read.
const READERS: usize = 2;
/// The maximum wait for another process that writes.
const BUSY: Duration = Duration::from_secs(10);
/// The pages of the write-ahead log that are copied to the file at once.
///
/// A page that many appends change, such as the last one of a session, is copied once.
const LOG_PAGES: i64 = 4_000;
/// The suffixes of the files of a log, in the order of their removal.
///
/// Without the last one, a process creates a new log, whose other files must stay.
const FILES: [&str; 4] = ["-wal", "-shm", "-journal", ""];

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS generation (number INTEGER NOT NULL, boot TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS session (
    id TEXT PRIMARY KEY, generation INTEGER NOT NULL, seq INTEGER NOT NULL,
    accepted INTEGER NOT NULL, settled INTEGER NOT NULL, cursor INTEGER NOT NULL,
    removed INTEGER NOT NULL, epoch INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS event (
    session TEXT NOT NULL, seq INTEGER NOT NULL, entry INTEGER NOT NULL, at INTEGER NOT NULL,
    text TEXT NOT NULL, PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;";

/// A log of events in a file beside the store, for several processes.
///
/// Appended events survive the process at once. The file is not flushed, because an event would wait
/// for the disk: the operating system writes it a moment later. After the machine was started again,
/// the file is checked, and all logs have another [generation](LogPosition::generation).
///
/// A log that was damaged or removed is created anew. Its sessions continue, and their clients read
/// the history.
#[derive(Debug)]
pub struct SqliteEventLog {
    store: PathBuf,
    boot: String,
    open: RwLock<Arc<OpenLog>>,
}

/// The threads of an open file.
#[derive(Debug)]
struct OpenLog {
    readers: Queue,
    writer: Queue,
    identity: Identity,
    /// The number of files that were open before.
    count: u32,
}

impl SqliteEventLog {
    /// Opens the log beside the session store `store`, and creates it if it is missing.
    ///
    /// `boot` identifies the current start of the machine.
    ///
    /// # Errors
    /// Returns [`StoreError::NotAStore`] if the file is another one, [`StoreError::ReadOnly`] if the
    /// file or its directory cannot be written, and [`StoreError::Unavailable`] if it cannot be opened
    /// or created for another reason.
    pub fn beside(store: impl AsRef<Path>, boot: &str) -> Result<Self, StoreError> {
        let store = store.as_ref();
        let open = match open(store, boot, 0) {
            Err(StoreError::Damaged(_)) => {
                remove(store)?;
                open(store, boot, 0)?
            }
            opened => opened?,
        };
        Ok(Self {
            store: store.to_owned(),
            boot: boot.to_owned(),
            open: RwLock::new(Arc::new(open)),
        })
    }

    /// Returns the path of the log of a store.
    pub fn path_beside(store: impl AsRef<Path>) -> PathBuf {
        path_of(store.as_ref())
    }

    fn current(&self) -> Arc<OpenLog> {
        Arc::clone(&self.open.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs an operation, again with a new file if the file was damaged or removed.
    async fn run<T, F, O>(
        &self,
        pick: fn(&OpenLog) -> &Queue,
        operation: F,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn() -> O + Send + Sync,
        O: FnOnce(&Connection) -> SqliteResult<T> + Send + 'static,
    {
        let log = self.current();
        let result = pick(&log).ask(Flush::WithLater, operation()).await;
        let Err(error) = result else {
            return result;
        };
        let is_damaged = matches!(error, StoreError::Damaged(_));
        if !is_damaged && log.identity.check().is_ok() {
            return Err(error);
        }
        let new = self.reopen(&log, is_damaged)?;
        drop(log);
        pick(&new).ask(Flush::WithLater, operation()).await
    }

    /// Replaces a file that was lost, unless another task has replaced it.
    fn reopen(&self, lost: &Arc<OpenLog>, is_damaged: bool) -> Result<Arc<OpenLog>, StoreError> {
        let mut current = self.open.write().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(&current, lost) {
            // Another process may have put a sound file there.
            if is_damaged && lost.identity.check().is_ok() {
                remove(&self.store)?;
            }
            *current = Arc::new(open(&self.store, &self.boot, lost.count + 1)?);
        }
        Ok(Arc::clone(&current))
    }
}

impl OpenLog {
    const fn readers(&self) -> &Queue {
        &self.readers
    }

    const fn writer(&self) -> &Queue {
        &self.writer
    }
}

fn path_of(store: &Path) -> PathBuf {
    file::beside(store, "-events")
}

fn open(store: &Path, boot: &str, count: u32) -> Result<OpenLog, StoreError> {
    let path = &path_of(store);
    if file::is_marked_read_only(path) {
        return Err(file::unwritable(path));
    }
    match file::private_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(file::not_created(path, error));
        }
        _ => {}
    }
    let prepared = prepare(path, store, boot).map_err(|error| error.into_store_error(path));
    let conn = match prepared {
        Err(error) if file::permits_reading(path, &error) => return Err(file::unwritable(path)),
        prepared => prepared?,
    };
    Ok(OpenLog {
        readers: Queue::to_read(READERS, path, BUSY, Access::ReadWrite)?,
        writer: Queue::to_write(conn, path, BUSY, Pace::Gathered)?,
        identity: Identity::from_path(path)?,
        count,
    })
}

/// Opens the file for writing, while other processes may create or close it.
fn prepare(path: &Path, store: &Path, boot: &str) -> SqliteResult<Connection> {
    let conn = connect(path)?;
    if !boot.is_empty() {
        // A file that a failure of the machine has damaged is found by its next start.
        with_busy_retry(BUSY, || conn.pragma_update(None, "synchronous", "OFF"))?;
    }
    conn.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
    // Without effect if another process has created the file meanwhile.
    with_busy_retry(BUSY, || {
        conn.pragma_update(None, "auto_vacuum", "INCREMENTAL")
    })?;
    // The first transaction names the application, so that no other process reads a file without it.
    with_busy_retry(BUSY, || conn.execute_batch("BEGIN IMMEDIATE"))?;
    let created = require_log(&conn, path).and_then(|()| create(&conn, store, boot));
    let committed = created.and_then(|()| with_busy_retry(BUSY, || conn.execute_batch("COMMIT")));
    file::undo_if_failed(&conn, committed)?;
    with_busy_retry(BUSY, || {
        conn.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))
    })?;
    // The threads of the log wait at even intervals.
    conn.busy_timeout(Duration::ZERO)?;
    Ok(conn)
}

/// Connects, and waits meanwhile for a process that locks the file as a whole.
fn connect(path: &Path) -> SqliteResult<Connection> {
    let conn = file::connect(path, Access::ReadWrite)?;
    conn.busy_timeout(BUSY)?;
    let set = |name: &str, value: &dyn rusqlite::ToSql| {
        with_busy_retry(BUSY, || {
            conn.pragma_update_and_check(None, name, value, |_| Ok(()))
        })
    };
    with_busy_retry(BUSY, || conn.pragma_update(None, "synchronous", "NORMAL"))?;
    set("journal_size_limit", &(16 << 20))?;
    // Removed events are overwritten.
    set("secure_delete", &true)?;
    Ok(conn)
}

/// Refuses the file of another application.
fn require_log(conn: &Connection, path: &Path) -> SqliteResult<()> {
    let application: i64 = conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let tables: i64 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    // The creation of the file may have been interrupted.
    if application == APPLICATION || (application == 0 && tables == 0) {
        return Ok(());
    }
    let message = format!("{}: not a log of events", path.display());
    Err(StoreError::NotAStore(message).into())
}

/// Creates the tables, and a generation for this start of the machine.
fn create(conn: &Connection, store: &Path, boot: &str) -> SqliteResult<()> {
    let format: i64 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if format != FORMAT {
        for table in ["generation", "session", "event"] {
            conn.execute_batch(&format!("DROP TABLE IF EXISTS {table}"))?;
        }
    }
    conn.pragma_update(None, "application_id", APPLICATION)?;
    conn.pragma_update(None, "user_version", FORMAT)?;
    conn.execute_batch(SCHEMA)?;
    let last: Option<(i64, String)> = conn
        .query_row("SELECT number, boot FROM generation", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    match last {
        Some((_, last)) if last == boot => {}
        Some(_) => {
            // The file was not flushed: a page may be older than others.
            let found: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
            if found != "ok" {
                return Err(StoreError::Damaged(found).into());
            }
            conn.execute(
                "DELETE FROM event WHERE NOT EXISTS (
                     SELECT 1 FROM session WHERE id = event.session AND seq >= event.seq)",
                [],
            )?;
            // The last events may be lost, and their numbers would be given again.
            conn.execute(
                "UPDATE generation SET number = number + 1, boot = ?1",
                [boot],
            )?;
            conn.execute(
                "UPDATE session SET generation = (SELECT number FROM generation)",
                [],
            )?;
        }
        None => {
            // Clients may have numbers of a log that was removed.
            let number = if has_sessions(store) { millis() } else { 1 };
            conn.execute(
                "INSERT INTO generation VALUES (?1, ?2)",
                params![number, boot],
            )?;
        }
    }
    Ok(())
}

/// Returns whether a store has sessions, or cannot be read.
fn has_sessions(store: &Path) -> bool {
    if !store.exists() {
        return false;
    }
    let conn = file::open_reader(store, BUSY, Access::ReadWrite);
    let found = conn.ok().and_then(|conn| {
        let found = conn.query_row("SELECT EXISTS (SELECT 1 FROM session)", [], |row| {
            row.get(0)
        });
        found.ok()
    });
    found.unwrap_or(true)
}

/// Returns a number that is greater than the generations of an earlier file.
fn millis() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(1, |now| i64::try_from(now.as_millis()).unwrap_or(1))
}

/// Removes the log of a session that its store no longer has; blocks.
///
/// # Errors
/// Returns an error if the log cannot be changed. A damaged log is removed.
pub(super) fn forget(store: &Path, session: &str) -> Result<(), StoreError> {
    let path = &path_of(store);
    if !path.exists() {
        return Ok(());
    }
    let forgotten = || -> SqliteResult<()> {
        let conn = connect(path)?;
        with_busy_retry(BUSY, || conn.execute_batch("BEGIN IMMEDIATE"))?;
        let deleted = event_rows::delete(&conn, session);
        let deleted = deleted.and_then(|()| Ok(conn.execute_batch("COMMIT")?));
        file::undo_if_failed(&conn, deleted)?;
        file::empty_log(&conn);
        Ok(())
    };
    match forgotten().map_err(|error| error.into_store_error(path)) {
        Err(StoreError::Damaged(_)) => remove(store),
        other => other,
    }
}

/// Removes the log of a store. Processes that use it create it anew.
///
/// # Errors
/// Returns an error if a file cannot be removed.
pub(super) fn remove(store: &Path) -> Result<(), StoreError> {
    for suffix in FILES {
        let path = file::beside(&path_of(store), suffix);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(super::error::file(&path, error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the fault of a damaged log; blocks.
pub(super) fn fault(store: &Path) -> Option<String> {
    let path = &path_of(store);
    if !path.exists() {
        return None;
    }
    let checked = || -> Result<String, StoreError> {
        let access = file::marked_read_only(path).unwrap_or(Access::ReadWrite);
        let conn = file::open_reader(path, BUSY, access)?;
        let found = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0));
        found.map_err(|error| super::error::database(path, error))
    };
    match checked() {
        Ok(found) if found == "ok" => None,
        Ok(found) => Some(found),
        Err(error) => Some(error.to_string()),
    }
}

impl EventLog for SqliteEventLog {
    fn position<'a>(&'a self, session: &'a str) -> StoreResult<'a, LogPosition> {
        Box::pin(self.run(OpenLog::readers, || {
            let session = session.to_owned();
            move |conn| event_rows::position(conn, &session)
        }))
    }

    fn append<'a>(
        &'a self,
        session: &'a str,
        batch: EventBatch,
    ) -> StoreResult<'a, Option<LogPosition>> {
        let batch = Arc::new(batch);
        Box::pin(self.run(OpenLog::writer, move || {
            let (session, batch) = (session.to_owned(), Arc::clone(&batch));
            move |conn| event_rows::append(conn, &session, &batch)
        }))
    }

    fn since<'a>(
        &'a self,
        session: &'a str,
        after: u64,
        limit: usize,
    ) -> StoreResult<'a, EventPage> {
        Box::pin(self.run(OpenLog::readers, move || {
            let session = session.to_owned();
            move |conn| event_rows::since(conn, &session, after, limit)
        }))
    }

    fn latest<'a>(
        &'a self,
        session: &'a str,
        beginnings: &'a [&'a str],
        limit: usize,
    ) -> StoreResult<'a, Vec<LoggedEvent>> {
        Box::pin(self.run(OpenLog::readers, move || {
            let session = session.to_owned();
            let beginnings = Value::from(beginnings.to_vec()).to_string();
            move |conn| event_rows::latest(conn, &session, &beginnings, limit)
        }))
    }

    fn first_after_entry<'a>(
        &'a self,
        session: &'a str,
        entry: u64,
    ) -> StoreResult<'a, Option<u64>> {
        Box::pin(self.run(OpenLog::readers, move || {
            let session = session.to_owned();
            move |conn| event_rows::first_after_entry(conn, &session, entry)
        }))
    }

    fn trim(&self, before: Timestamp) -> StoreResult<'_, u64> {
        Box::pin(self.run(OpenLog::writer, move || {
            move |conn| event_rows::trim(conn, before)
        }))
    }

    fn delete<'a>(&'a self, session: &'a str) -> StoreResult<'a, ()> {
        Box::pin(async move {
            let deleted = self.run(OpenLog::writer, || {
                let session = session.to_owned();
                move |conn| event_rows::delete(conn, &session)
            });
            deleted.await
        })
    }

    fn sessions(&self) -> StoreResult<'_, Vec<String>> {
        Box::pin(self.run(OpenLog::readers, || event_rows::sessions))
    }

    fn foreign_changes(&self) -> StoreResult<'_, u64> {
        Box::pin(async move {
            let count = u64::from(self.current().count) << 32;
            // A connection counts the changes by others. All changes of this process are the
            // writer's.
            let version = self.run(OpenLog::writer, || {
                |conn| {
                    let version: i64 =
                        conn.pragma_query_value(None, "data_version", |row| row.get(0))?;
                    Ok(version.unsigned_abs())
                }
            });
            Ok(count + version.await?)
        })
    }
}
