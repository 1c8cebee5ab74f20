//! The check of a session that an owner takes: the rows that its next turn uses.
//!
//! A changed row would otherwise be sent to the model or run, and its session row be sealed again,
//! so that no later check finds the damage. Messages are not read here: their number is not bounded.

use logue_harness::store::StoreError;
use rusqlite::{Connection, OptionalExtension as _};

use super::column::Range;
use super::error::SqliteResult;
use super::seal::{ENTRY, FIELD, LABEL, NOTE, SESSION, Sealed, WORK};
use super::verify::INVALID_LEASE;

/// The tables whose rows of a session are few.
const SMALL: [Sealed; 4] = [WORK, NOTE, LABEL, FIELD];

/// Checks the row of a session, its small tables, and the entry that is next.
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
    let Sealed { columns, .. } = ENTRY;
    let next_is_damaged: Option<bool> = conn
        .prepare_cached(&format!(
            "SELECT sum IS NOT row_sum({columns}) FROM entry WHERE pos =
                 (SELECT (sid << 32) + cursor + 1 FROM session WHERE sid = ?1)"
        ))?
        .query_row([sid], |row| row.get(0))
        .optional()?;
    if next_is_damaged == Some(true) {
        return Err(damaged(session, "its next entry").into());
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

fn damaged(session: &str, what: &str) -> StoreError {
    StoreError::Damaged(format!(
        "the session `{session}` is damaged ({what}): `logue sessions verify` names each place, \
         and `logue sessions repair` mends them"
    ))
}
