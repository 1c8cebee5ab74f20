//! Tallies: the number of a session's rows in each table, and the sum of their checksums.
//!
//! They find rows that were removed, added, or exchanged for earlier ones. Temporary triggers of each
//! writing connection keep them, at the cost of one number per changed row. Triggers of the file would
//! follow the changes of other programs too.

use rusqlite::Connection;

use super::error::SqliteResult;
use super::seal::{SESSION, Sealed, TABLES};
use super::sound;

/// Keeps the tallies on this connection. Tables that the file lacks are left out.
pub(super) fn watch(conn: &Connection) -> rusqlite::Result<()> {
    // The temporary schema must not need a directory that can be written.
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    sound::prepare(conn)?;
    for sealed in tables() {
        let Sealed { table, .. } = sealed;
        let exists = conn
            .prepare("SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = ?1")?
            .exists([table])?;
        if !exists {
            continue;
        }
        let sid = |row: &str| {
            let column = if sealed.has_places() {
                "pos >> 32"
            } else {
                "sid"
            };
            format!("{row}.{column}")
        };
        let (new, old) = (sid("NEW"), sid("OLD"));
        conn.execute_batch(&format!(
            "CREATE TEMP TRIGGER IF NOT EXISTS {table}_added AFTER INSERT ON main.{table} BEGIN
                 UPDATE session SET {table}_rows = {table}_rows + 1,
                     {table}_sum = ({table}_sum + ifnull(NEW.sum, 0)) & 0xffffffff
                 WHERE sid = {new};
             END;
             CREATE TEMP TRIGGER IF NOT EXISTS {table}_changed AFTER UPDATE OF sum ON main.{table}
             WHEN OLD.sum IS NOT NEW.sum BEGIN
                 UPDATE session SET {table}_sum =
                     ({table}_sum + ifnull(NEW.sum, 0) - ifnull(OLD.sum, 0)) & 0xffffffff
                 WHERE sid = {new};
             END;
             CREATE TEMP TRIGGER IF NOT EXISTS {table}_removed AFTER DELETE ON main.{table} BEGIN
                 UPDATE session SET {table}_rows = {table}_rows - 1,
                     {table}_sum = ({table}_sum - ifnull(OLD.sum, 0)) & 0xffffffff
                 WHERE sid = {old};
             END"
        ))?;
    }
    Ok(())
}

/// The tally of one table, as kept and as counted.
pub(super) struct Tally {
    pub(super) sealed: Sealed,
    pub(super) kept: (i64, i64),
    pub(super) counted: (i64, i64),
}

impl Tally {
    /// Returns the number of rows that are missing; negative if there are too many.
    pub(super) const fn missing(&self) -> i64 {
        self.kept.0.saturating_sub(self.counted.0)
    }

    /// Counts the rows of a session in a table.
    pub(super) fn of(conn: &Connection, sealed: Sealed, ends: [i64; 3]) -> SqliteResult<Self> {
        let Sealed {
            table, of_session, ..
        } = sealed;
        let kept = conn
            .prepare_cached(&format!(
                "SELECT {table}_rows, {table}_sum FROM session WHERE sid = ?1"
            ))?
            .query_row([ends[2]], |row| {
                let number =
                    |at| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(at)?.unwrap_or(-1));
                Ok((number(0)?, number(1)?))
            })?;
        let counted = conn
            .prepare_cached(&format!(
                "SELECT count(*), ifnull(sum(sum), 0) & 0xffffffff FROM {table} WHERE {of_session}"
            ))?
            .query_row(ends, |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(Self {
            sealed,
            kept,
            counted,
        })
    }
}

/// Sets the tally of a table to what is there.
pub(super) fn set(conn: &Connection, sid: i64, tally: &Tally) -> SqliteResult<()> {
    let table = tally.sealed.table;
    conn.prepare_cached(&format!(
        "UPDATE session SET {table}_rows = ?2, {table}_sum = ?3 WHERE sid = ?1"
    ))?
    .execute([sid, tally.counted.0, tally.counted.1])?;
    Ok(())
}

/// The tables with a tally: all but the one that contains it.
pub(super) fn tables() -> impl Iterator<Item = Sealed> {
    let of_others = |sealed: &&Sealed| sealed.table != SESSION.table;
    TABLES.iter().filter(of_others).copied()
}
