//! The rows of the log of events.

use std::sync::Arc;

use logue_harness::Timestamp;
use logue_harness::events::{EventBatch, EventPage, LogPosition, LoggedEvent};
use logue_harness::store::StoreError;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::error::SqliteResult;

/// The number of bytes after which a page of events ends.
const PAGE_BYTES: usize = 64 * 1024;
/// The maximum number of events that one step removes. Other processes write between two steps.
const TRIM: usize = 4_096;

/// The row of a session.
#[derive(Clone, Copy, Debug, Default)]
struct SessionRow {
    position: LogPosition,
    removed: u64,
    /// The latest lease under which events were appended.
    epoch: u64,
}

fn row_of(conn: &Connection, session: &str) -> SqliteResult<SessionRow> {
    let found = conn
        .prepare_cached(
            "SELECT seq, accepted, settled, cursor, removed, generation, epoch FROM session
             WHERE id = ?1",
        )?
        .query_row([session], |row| {
            let number = |at| row.get::<_, i64>(at).map(unsigned);
            let mut position = LogPosition::default()
                .with_accepted(number(1)?)
                .with_outcome(number(3)?, number(2)?);
            position.seq = number(0)?;
            position.generation = number(5)?;
            Ok(SessionRow {
                position,
                removed: number(4)?,
                epoch: number(6)?,
            })
        })
        .optional()?;
    Ok(found.unwrap_or_default())
}

/// Returns the progress of the log of a session.
pub(super) fn position(conn: &Connection, session: &str) -> SqliteResult<LogPosition> {
    Ok(row_of(conn, session)?.position)
}

/// Appends events and returns the new position; `None` if the log has moved.
///
/// A log that has not begun has moved for a batch without progress.
pub(super) fn append(
    conn: &Connection,
    session: &str,
    batch: &EventBatch,
) -> SqliteResult<Option<LogPosition>> {
    let row = row_of(conn, session)?;
    let (mut position, mut epoch) = (row.position, row.epoch);
    if let Some(lease) = &batch.lease {
        let settled = position.settled;
        let is_settled = batch.events.iter().any(|(entry, _)| *entry <= settled);
        if lease.epoch < epoch || is_settled {
            let refused = StoreError::Fenced {
                session: session.to_owned(),
                epoch: lease.epoch,
                current: epoch,
            };
            return Err(refused.into());
        }
        epoch = lease.epoch;
    }
    if let Some((from, to)) = &batch.progress {
        if !position.is_level_with(from) {
            return Ok(None);
        }
        let LogPosition {
            seq, generation, ..
        } = position;
        position = *to;
        position.seq = seq;
        position.generation = generation;
    }
    if !position.has_begun() {
        if batch.progress.is_none() {
            return Ok(None);
        }
        let number = conn
            .prepare_cached("SELECT number FROM generation")?
            .query_row([], |row| row.get(0))?;
        position.generation = unsigned(number);
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
    conn.prepare_cached(
        "INSERT INTO session (id, seq, accepted, settled, cursor, generation, epoch, removed)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0)
         ON CONFLICT (id) DO UPDATE SET seq = ?2, accepted = ?3, settled = ?4, cursor = ?5, epoch = ?7",
    )?
    .execute(params![
        session,
        signed(position.seq),
        signed(position.accepted),
        signed(position.settled),
        signed(position.cursor),
        signed(position.generation),
        signed(epoch)
    ])?;
    Ok(Some(position))
}

/// Returns at most `limit` events after a number, fewer if they are large.
pub(super) fn since(
    conn: &Connection,
    session: &str,
    after: u64,
    limit: usize,
) -> SqliteResult<EventPage> {
    let row = row_of(conn, session)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = conn.prepare_cached(
        "SELECT seq, entry, text FROM event WHERE session = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
    )?;
    let mut rows = statement.query(params![session, signed(after), limit])?;
    let (mut events, mut bytes) = (Vec::new(), 0);
    while bytes < PAGE_BYTES
        && let Some(row) = rows.next()?
    {
        let text: Arc<str> = Arc::from(row.get::<_, String>(2)?);
        bytes += text.len();
        events.push(LoggedEvent {
            seq: unsigned(row.get(0)?),
            entry: unsigned(row.get(1)?),
            text,
        });
    }
    Ok(EventPage {
        generation: row.position.generation,
        events,
        removed: row.removed,
    })
}

/// Returns the last `limit` events that begin with one of these texts, in order.
pub(super) fn latest(
    conn: &Connection,
    session: &str,
    beginnings: &str,
    limit: usize,
) -> SqliteResult<Vec<LoggedEvent>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = conn.prepare_cached(
        "SELECT seq, entry, text FROM event WHERE session = ?1 AND EXISTS (
             SELECT 1 FROM json_each(?2) WHERE substr(text, 1, length(value)) = value)
         ORDER BY seq DESC LIMIT ?3",
    )?;
    let rows = statement.query_map(params![session, beginnings, limit], |row| {
        Ok(LoggedEvent {
            seq: unsigned(row.get(0)?),
            entry: unsigned(row.get(1)?),
            text: Arc::from(row.get::<_, String>(2)?),
        })
    })?;
    let mut events = rows.collect::<Result<Vec<_>, _>>()?;
    events.reverse();
    Ok(events)
}

/// Returns the number of the first event of the entries after `entry`.
pub(super) fn first_after_entry(
    conn: &Connection,
    session: &str,
    entry: u64,
) -> SqliteResult<Option<u64>> {
    let first: Option<i64> = conn
        .prepare_cached("SELECT min(seq) FROM event WHERE session = ?1 AND entry > ?2")?
        .query_row(params![session, signed(entry)], |row| row.get(0))?;
    Ok(first.map(unsigned))
}

/// Removes old events of settled entries from the beginning of each log.
pub(super) fn trim(conn: &Connection, before: Timestamp) -> SqliteResult<u64> {
    let mut ids = conn.prepare_cached("SELECT id, settled FROM session")?;
    let mut ids = ids.query([])?;
    let mut removed = 0;
    while removed < TRIM
        && let Some(row) = ids.next()?
    {
        let (session, settled): (String, i64) = (row.get(0)?, row.get(1)?);
        let mut events = conn.prepare_cached(
            "SELECT seq, entry, at FROM event WHERE session = ?1 ORDER BY seq LIMIT ?2",
        )?;
        let limit = i64::try_from(TRIM - removed).unwrap_or(i64::MAX);
        let mut events = events.query(params![session, limit])?;
        let mut last = None;
        while let Some(event) = events.next()? {
            let (seq, entry, at): (i64, i64, i64) = (event.get(0)?, event.get(1)?, event.get(2)?);
            if entry > settled || at >= signed(before.0) {
                break;
            }
            last = Some(seq);
            removed += 1;
        }
        drop(events);
        if let Some(last) = last {
            conn.prepare_cached("UPDATE session SET removed = ?2 WHERE id = ?1")?
                .execute(params![session, last])?;
            conn.prepare_cached("DELETE FROM event WHERE session = ?1 AND seq <= ?2")?
                .execute(params![session, last])?;
        }
    }
    Ok(removed as u64)
}

/// Removes the log of a session. A later log of that session has another generation.
pub(super) fn delete(conn: &Connection, session: &str) -> SqliteResult<()> {
    conn.execute("DELETE FROM event WHERE session = ?1", [session])?;
    let removed = conn.execute("DELETE FROM session WHERE id = ?1", [session])?;
    if removed > 0 {
        conn.execute("UPDATE generation SET number = number + 1", [])?;
    }
    Ok(())
}

/// Returns the sessions whose logs have begun.
pub(super) fn sessions(conn: &Connection) -> SqliteResult<Vec<String>> {
    let mut ids = conn.prepare_cached("SELECT id FROM session")?;
    let ids = ids.query_map([], |row| row.get(0))?;
    Ok(ids.collect::<Result<_, _>>()?)
}

/// Returns a position as the database stores it.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}
