//! The format of the file: statements in order, each with the checksum that it had when it was run.

use std::path::Path;

use logue_harness::store::StoreError;
use rusqlite::{Connection, OptionalExtension};
use sha2::{Digest, Sha256};

use super::fault::{Tried, damaged};

/// What every file of ours carries in its header, `Logu`, so that no other program's is taken.
pub(super) const APPLICATION: i32 = 0x4c6f_6775;

/// The steps from an empty file to the format of today. A step that was released never changes.
const STEPS: &[&str] = &[include_str!("0001.sql"), include_str!("0002.sql")];

/// Brings the file to the format of today, within the transaction of the caller.
pub(super) fn migrate(conn: &Connection, path: &Path) -> Tried<()> {
    let empty: bool = conn.query_row(
        "SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema)",
        [],
        |row| row.get(0),
    )?;
    if empty {
        conn.pragma_update(None, "application_id", APPLICATION)?;
        conn.execute_batch(
            "CREATE TABLE migration (version INTEGER PRIMARY KEY, checksum TEXT NOT NULL) STRICT",
        )?;
    }
    let application: i32 = conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
    if application != APPLICATION {
        return Err(foreign(path).into());
    }

    let known = u64::try_from(STEPS.len()).unwrap_or(u64::MAX);
    let found: i64 =
        conn.query_row("SELECT ifnull(max(version), 0) FROM migration", [], |row| {
            row.get(0)
        })?;
    let found = found.unsigned_abs();
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
                let what = format!("step {version} of its format is not the one known here");
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

/// The error for a file that is not ours.
pub(super) fn foreign(path: &Path) -> StoreError {
    StoreError::Damaged(format!(
        "{}: this is no store of sessions, and was left as it is; name another file",
        path.display()
    ))
}

fn checksum(step: &str) -> String {
    format!("{:x}", Sha256::digest(step.as_bytes()))
}
