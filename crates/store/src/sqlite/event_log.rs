//! The log of events in a SQLite file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use logue_harness::Timestamp;
use logue_harness::events::{EventBatch, EventLog, EventPage, LogPosition, LoggedEvent};
use logue_harness::store::{StoreError, StoreResult};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::error::{SqliteError, SqliteResult};
use super::file::{self, Access, with_busy_retry};
use super::queue::Queue;

/// The application id of the file: `LogE` in ASCII.
const APPLICATION: i64 = 0x4c6f_6745;
/// The number of threads that read.
const READERS: usize = 2;
/// The maximum wait for another process that writes.
const BUSY: Duration = Duration::from_secs(10);

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS generation (number INTEGER NOT NULL, boot TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS session (
    id TEXT PRIMARY KEY, seq INTEGER NOT NULL, accepted INTEGER NOT NULL,
    settled INTEGER NOT NULL, cursor INTEGER NOT NULL, removed INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS event (
    session TEXT NOT NULL, seq INTEGER NOT NULL, entry INTEGER NOT NULL, at INTEGER NOT NULL,
    text TEXT NOT NULL, PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS event_age ON event (at);";

/// A log of events in a file beside the store, for several processes.
///
/// Appended events survive the process at once and the machine a moment later: the file is not
/// flushed with each append, because an event would wait for the disk. After the machine was
/// started again, the [generation](EventLog::generation) is a new one.
#[derive(Debug)]
pub struct SqliteEventLog {
    readers: Queue,
    writer: Queue,
    generation: u64,
}

impl SqliteEventLog {
    /// Opens the log beside the session store `store`, and creates it if it is missing.
    ///
    /// `boot` identifies the current start of the machine.
    ///
    /// # Errors
    /// Returns [`StoreError::NotAStore`] if the file is another one, and [`StoreError::Unavailable`]
    /// if it cannot be opened or created.
    pub fn beside(store: impl AsRef<Path>, boot: &str) -> Result<Self, StoreError> {
        Self::open(&file::beside(store.as_ref(), "-events"), boot)
    }

    fn open(path: &Path, boot: &str) -> Result<Self, StoreError> {
        match file::private_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(super::error::file(path, error));
            }
            _ => {}
        }
        let prepared = prepare(path, boot);
        let (conn, generation) = prepared.map_err(|error| error.into_store_error(path))?;
        Ok(Self {
            readers: Queue::to_read(READERS, path, BUSY, Access::ReadWrite)?,
            writer: Queue::to_write(conn, path, BUSY)?,
            generation,
        })
    }

    /// Returns the path of the log of a store.
    pub fn path_beside(store: impl AsRef<Path>) -> PathBuf {
        file::beside(store.as_ref(), "-events")
    }
}

/// Opens the file for writing and returns the generation of its events.
fn prepare(path: &Path, boot: &str) -> SqliteResult<(Connection, u64)> {
    let conn = file::connect(path, Access::ReadWrite)?;
    let number = |name: &str| -> rusqlite::Result<i64> {
        conn.pragma_query_value(None, name, |row| row.get(0))
    };
    let pages = with_busy_retry(BUSY, || number("page_count"))?;
    if pages == 0 {
        with_busy_retry(BUSY, || {
            conn.pragma_update(None, "auto_vacuum", "INCREMENTAL")
        })?;
    } else if number("application_id")? != APPLICATION {
        let message = format!("{}: not a log of events", path.display());
        return Err(StoreError::NotAStore(message).into());
    }
    with_busy_retry(BUSY, || {
        conn.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))
    })?;
    conn.pragma_update(None, "synchronous", "NORMAL")?;
    conn.pragma_update(None, "journal_size_limit", 4 << 20)?;
    conn.busy_timeout(Duration::ZERO)?;
    with_busy_retry(BUSY, || conn.execute_batch("BEGIN IMMEDIATE"))?;
    let generation = create(&conn, boot);
    let committed = generation.and_then(|generation| {
        conn.execute_batch("COMMIT")?;
        Ok(generation)
    });
    if committed.is_err() && !conn.is_autocommit() {
        drop(conn.execute_batch("ROLLBACK"));
    }
    Ok((conn, unsigned(committed?)))
}

/// Creates the tables and returns the generation for this start of the machine.
fn create(conn: &Connection, boot: &str) -> SqliteResult<i64> {
    conn.pragma_update(None, "application_id", APPLICATION)?;
    conn.execute_batch(SCHEMA)?;
    let last: Option<(i64, String)> = conn
        .query_row("SELECT number, boot FROM generation", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    match last {
        Some((number, last)) if last == boot => Ok(number),
        Some((number, _)) => {
            conn.execute(
                "UPDATE generation SET number = ?1, boot = ?2",
                params![number + 1, boot],
            )?;
            Ok(number + 1)
        }
        None => {
            conn.execute("INSERT INTO generation VALUES (1, ?1)", [boot])?;
            Ok(1)
        }
    }
}

impl EventLog for SqliteEventLog {
    fn generation(&self) -> u64 {
        self.generation
    }

    fn position<'a>(&'a self, session: &'a str) -> StoreResult<'a, LogPosition> {
        let session = session.to_owned();
        self.readers
            .ask(move |conn| Ok(row_of(conn, &session)?.position))
    }

    fn append<'a>(
        &'a self,
        session: &'a str,
        batch: EventBatch,
    ) -> StoreResult<'a, Option<LogPosition>> {
        let session = session.to_owned();
        self.writer.ask(move |conn| append(conn, &session, &batch))
    }

    fn since<'a>(
        &'a self,
        session: &'a str,
        after: u64,
        limit: usize,
    ) -> StoreResult<'a, EventPage> {
        let session = session.to_owned();
        self.readers
            .ask(move |conn| since(conn, &session, after, limit))
    }

    fn first_after_entry<'a>(
        &'a self,
        session: &'a str,
        entry: u64,
    ) -> StoreResult<'a, Option<u64>> {
        let session = session.to_owned();
        self.readers.ask(move |conn| {
            let first: Option<i64> = conn
                .prepare_cached("SELECT min(seq) FROM event WHERE session = ?1 AND entry > ?2")?
                .query_row(params![session, signed(entry)], |row| row.get(0))?;
            Ok(first.map(unsigned))
        })
    }

    fn trim(&self, before: Timestamp) -> StoreResult<'_, u64> {
        self.writer.ask(move |conn| trim(conn, before))
    }

    fn delete<'a>(&'a self, session: &'a str) -> StoreResult<'a, ()> {
        let session = session.to_owned();
        self.writer.ask(move |conn| {
            conn.execute("DELETE FROM event WHERE session = ?1", [&session])?;
            conn.execute("DELETE FROM session WHERE id = ?1", [&session])?;
            Ok(())
        })
    }
}

/// The row of a session.
#[derive(Clone, Copy, Debug, Default)]
struct SessionRow {
    position: LogPosition,
    removed: u64,
}

fn row_of(conn: &Connection, session: &str) -> SqliteResult<SessionRow> {
    let found = conn
        .prepare_cached(
            "SELECT seq, accepted, settled, cursor, removed FROM session WHERE id = ?1",
        )?
        .query_row([session], |row| {
            let number = |at| row.get::<_, i64>(at).map(unsigned);
            let mut position = LogPosition::default()
                .with_accepted(number(1)?)
                .with_outcome(number(3)?, number(2)?);
            position.seq = number(0)?;
            Ok(SessionRow {
                position,
                removed: number(4)?,
            })
        })
        .optional()?;
    Ok(found.unwrap_or_default())
}

fn append(
    conn: &Connection,
    session: &str,
    batch: &EventBatch,
) -> Result<Option<LogPosition>, SqliteError> {
    let mut position = row_of(conn, session)?.position;
    if let Some((from, to)) = &batch.progress {
        if !position.is_level_with(from) {
            return Ok(None);
        }
        let seq = position.seq;
        position = *to;
        position.seq = seq;
    }
    let mut insert = conn.prepare_cached(
        "INSERT INTO event (session, seq, entry, at, text) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for (entry, text) in &batch.events {
        position.seq += 1;
        let at = signed(batch.now.0);
        insert.execute(params![
            session,
            signed(position.seq),
            signed(*entry),
            at,
            &**text
        ])?;
    }
    let LogPosition {
        seq,
        accepted,
        settled,
        cursor,
        ..
    } = position;
    conn.prepare_cached(
        "INSERT INTO session (id, seq, accepted, settled, cursor, removed)
         VALUES (?1, ?2, ?3, ?4, ?5, 0)
         ON CONFLICT (id) DO UPDATE SET seq = ?2, accepted = ?3, settled = ?4, cursor = ?5",
    )?
    .execute(params![
        session,
        signed(seq),
        signed(accepted),
        signed(settled),
        signed(cursor)
    ])?;
    Ok(Some(position))
}

fn since(conn: &Connection, session: &str, after: u64, limit: usize) -> SqliteResult<EventPage> {
    let removed = row_of(conn, session)?.removed;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = conn.prepare_cached(
        "SELECT seq, entry, text FROM event WHERE session = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
    )?;
    let events = statement.query_map(params![session, signed(after), limit], |row| {
        Ok(LoggedEvent {
            seq: unsigned(row.get(0)?),
            entry: unsigned(row.get(1)?),
            text: Arc::from(row.get::<_, String>(2)?),
        })
    })?;
    let events = events.collect::<Result<_, _>>()?;
    Ok(EventPage { events, removed })
}

/// Removes old events from the beginning of each log.
fn trim(conn: &Connection, before: Timestamp) -> SqliteResult<u64> {
    let before = signed(before.0);
    conn.execute(
        "UPDATE session SET removed = max(removed, coalesce((
            SELECT max(event.seq) FROM event
            WHERE event.session = session.id AND event.at < ?1 AND event.entry <= session.settled
              AND event.seq < coalesce((
                SELECT min(open.seq) FROM event AS open
                WHERE open.session = session.id
                  AND (open.entry > session.settled OR open.at >= ?1)), event.seq + 1)), 0))
         WHERE id IN (SELECT DISTINCT session FROM event WHERE at < ?1)",
        [before],
    )?;
    let removed = conn.execute(
        "DELETE FROM event WHERE at < ?1
         AND seq <= (SELECT removed FROM session WHERE id = event.session)",
        [before],
    )?;
    Ok(removed as u64)
}

/// Returns a position as the database stores it.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}
