//! The format of the file: ordered statements, each with the checksum of its execution.

use std::path::Path;

use logue_harness::store::StoreError;
use rusqlite::{Connection, OptionalExtension};
use sha2::{Digest, Sha256};

use super::error::{SqliteResult, damaged};

/// The application id in the header, `Logu`. Files of other programs are refused.
pub(super) const APPLICATION: i32 = 0x4c6f_6775;

/// The statement of the table with the steps that a file has.
const TABLE: &str =
    "CREATE TABLE migration (version INTEGER PRIMARY KEY, checksum TEXT NOT NULL) STRICT";

/// The steps from an empty file to the current format. A released step never changes.
const STEPS: &[&str] = &[
    include_str!("0001.sql"),
    include_str!("0002.sql"),
    include_str!("0003.sql"),
    include_str!("0004.sql"),
    include_str!("0005.sql"),
    include_str!("0006.sql"),
];

/// Migrates the file to the current format, within the caller's transaction.
pub(super) fn migrate(conn: &Connection, path: &Path) -> SqliteResult<()> {
    let empty: bool = conn.query_row(
        "SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema)",
        [],
        |row| row.get(0),
    )?;
    if empty {
        conn.pragma_update(None, "application_id", APPLICATION)?;
        conn.execute_batch(TABLE)?;
    }
    let application: i32 = conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
    if application != APPLICATION {
        return Err(foreign(path).into());
    }

    let (found, known) = (found(conn)?, known());
    if found > known {
        return Err(StoreError::Newer { found, known }.into());
    }
    for (version, step) in (1_i64..).zip(STEPS) {
        let checksum = checksum(step);
        let recorded: Option<String> = conn
            .query_row(
                "SELECT checksum FROM migration WHERE version = ?1",
                [version],
                |row| row.get(0),
            )
            .optional()?;
        match recorded {
            Some(recorded) if recorded == checksum => {}
            Some(_) => {
                let what = format!("unknown checksum of migration step {version}");
                return Err(damaged(path, &what).into());
            }
            None => {
                conn.execute_batch(step)?;
                conn.execute("INSERT INTO migration VALUES (?1, ?2)", (version, checksum))?;
            }
        }
    }
    Ok(())
}

/// Returns whether a file records every step, each with its checksum.
pub(super) fn is_recorded(conn: &Connection) -> SqliteResult<bool> {
    let recorded: Vec<(i64, String)> = conn
        .prepare("SELECT version, checksum FROM migration ORDER BY version")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let expected = (1_i64..).zip(STEPS.iter().map(|step| checksum(step)));
    Ok(recorded.into_iter().eq(expected))
}

/// Creates the table of the steps anew, with every step.
pub(super) fn record_all(conn: &Connection) -> SqliteResult<()> {
    conn.execute_batch(TABLE)?;
    for (version, step) in (1_i64..).zip(STEPS) {
        conn.execute(
            "INSERT INTO migration VALUES (?1, ?2)",
            (version, checksum(step)),
        )?;
    }
    Ok(())
}

/// Returns the format of a file.
pub(super) fn found(conn: &Connection) -> SqliteResult<u64> {
    let found: i64 =
        conn.query_row("SELECT ifnull(max(version), 0) FROM migration", [], |row| {
            row.get(0)
        })?;
    Ok(found.unsigned_abs())
}

/// Returns the current format.
pub(super) fn known() -> u64 {
    u64::try_from(STEPS.len()).unwrap_or(u64::MAX)
}

/// Returns the error for a file that is not an `SQLite` database.
pub(super) fn no_database(path: &Path) -> StoreError {
    StoreError::NotAStore(format!(
        "{}: not a session store: the file is not an SQLite database; it is unchanged",
        path.display()
    ))
}

/// Returns the error for a database of another application.
pub(super) fn foreign(path: &Path) -> StoreError {
    StoreError::Damaged(format!(
        "{}: not a session store; the file is unchanged; name another file",
        path.display()
    ))
}

fn checksum(step: &str) -> String {
    format!("{:x}", Sha256::digest(step.as_bytes()))
}
