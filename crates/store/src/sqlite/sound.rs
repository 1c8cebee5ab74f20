//! The check of a session that an owner takes: the rows that its next turn uses.
//!
//! A changed row would otherwise be sent to the model or run, and its session row be sealed again,
//! so that no later check finds the damage. Messages are checked as they are read. The entries of a
//! session are checked once by each process, and later only those that are new.

use logue_harness::store::StoreError;
use rusqlite::{Connection, OptionalExtension as _};

use super::column::{Range, position};
use super::error::SqliteResult;
use super::seal::{ENTRY, FIELD, LABEL, NOTE, SESSION, Sealed, WORK};
use super::verify::INVALID_LEASE;

/// The tables whose rows of a session are few.
const SMALL: [Sealed; 4] = [WORK, NOTE, LABEL, FIELD];

/// Checks the row of a session, its small tables and its entries.
///
/// # Errors
/// A row differs from its checksum, is missing, or was added by another program.
pub(super) fn check(conn: &Connection, sid: i64, session: &str) -> SqliteResult<()> {
    check_row(conn, sid, session)?;
    let range = Range::from_session(sid)?;
    let ends = [range.first(), range.last(), sid];
    for sealed in SMALL {
        let Sealed {
            table,
            columns,
            of_session,
            ..
        } = sealed;
        let kept: (Option<i64>, Option<i64>) = conn
            .prepare_cached(&format!(
                "SELECT {table}_rows, {table}_sum FROM session WHERE sid = ?1"
            ))?
            .query_row([sid], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let (rows, sum, wrong): (i64, i64, i64) = conn
            .prepare_cached(&format!(
                "SELECT count(*), ifnull(sum(sum), 0) & 0xffffffff,
                     ifnull(sum(sum IS NOT row_sum({columns})), 0)
                 FROM {table} WHERE {of_session}"
            ))?
            .query_row(ends, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        if wrong > 0 || kept != (Some(rows), Some(sum)) {
            return Err(damaged(session, &format!("rows of the table `{table}`")).into());
        }
    }
    check_entries(conn, sid, session)
}

/// Creates the table of the entries that this connection has checked.
pub(super) fn prepare(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch(
        "CREATE TEMP TABLE IF NOT EXISTS checked (sid INTEGER PRIMARY KEY, settled INTEGER NOT NULL)",
    )
}

/// Checks the entries of a session that this connection has not checked as settled ones.
///
/// An entry with another key or outcome would let its message run again.
///
/// # Errors
/// An entry differs from its checksum, or is missing.
pub(super) fn check_entries(conn: &Connection, sid: i64, session: &str) -> SqliteResult<()> {
    let (entries, cursor): (i64, i64) = conn
        .prepare_cached("SELECT entries, cursor FROM session WHERE sid = ?1")?
        .query_row([sid], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let checked: Option<i64> = conn
        .prepare_cached("SELECT settled FROM temp.checked WHERE sid = ?1 AND settled <= ?2")?
        .query_row([sid, cursor], |row| row.get(0))
        .optional()?;
    let settled = checked.unwrap_or_default();
    let Sealed { columns, .. } = ENTRY;
    let range = Range::from_session(sid)?;
    let (found, wrong): (i64, Option<i64>) = conn
        .prepare_cached(&format!(
            "SELECT count(*), min(CASE WHEN sum IS NOT row_sum({columns}) THEN pos END)
             FROM entry WHERE pos > ?1 AND pos <= ?2"
        ))?
        .query_row(
            [range.first().saturating_add(settled), range.last()],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
    if let Some(place) = wrong {
        return Err(damaged(session, &format!("entry {}", position(place))).into());
    }
    if found != entries.saturating_sub(settled) {
        let wrong: Option<i64> = conn
            .prepare_cached(
                "SELECT min(n) FROM (SELECT pos & 0xffffffff AS at,
                     row_number() OVER (ORDER BY pos) + ?2 AS n
                     FROM entry WHERE pos > ?1 + ?2 AND pos <= ?1 | 0xffffffff) WHERE at <> n",
            )?
            .query_row([range.first(), settled], |row| row.get(0))?;
        let wrong = wrong.unwrap_or(settled.saturating_add(found).saturating_add(1));
        return Err(damaged(session, &format!("entry {wrong} is missing")).into());
    }
    if checked != Some(cursor) {
        conn.prepare_cached("INSERT OR REPLACE INTO temp.checked VALUES (?1, ?2)")?
            .execute([sid, cursor])?;
    }
    Ok(())
}

/// Checks the row of a session alone.
///
/// # Errors
/// It differs from its checksum, or its lease is impossible.
pub(super) fn check_row(conn: &Connection, sid: i64, session: &str) -> SqliteResult<()> {
    let Sealed { columns, .. } = SESSION;
    let is_damaged: bool = conn
        .prepare_cached(&format!(
            "SELECT sum IS NOT row_sum({columns}) OR ifnull({INVALID_LEASE}, 0) FROM session WHERE sid = ?1"
        ))?
        .query_row([sid], |row| row.get(0))?;
    if is_damaged {
        return Err(damaged(session, "its row").into());
    }
    Ok(())
}

pub(super) fn damaged(session: &str, what: &str) -> StoreError {
    StoreError::Damaged(format!(
        "the session `{session}` is damaged ({what}): `logue sessions verify` names each place, \
         and `logue sessions repair` mends them"
    ))
}
