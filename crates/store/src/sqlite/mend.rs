//! The schema of a file that cannot be opened, or in which statements fail.
//!
//! The text of each table, index and trigger is known, and so are the steps of the format. A text or a
//! step that differs is written again. Rows are not touched.

use std::path::Path;
use std::time::Duration;

use logue_harness::store::StoreError;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::error::{SqliteResult, damaged};
use super::file::{Access, connect, exists_as_ours, undo_if_failed, with_busy_retry};
use super::migration;
use super::schema::{self, SchemaObject};

/// The table with the steps of the format.
const MIGRATION: &str = "migration";

/// Returns whether a file exists and is a session store by its header.
pub fn is_session_store(path: &Path) -> bool {
    exists_as_ours(path).is_ok_and(|exists| exists)
}

/// Writes the damaged parts of the schema of a file again; returns their names.
///
/// Nothing happens to a sound file, and to one of an earlier format.
///
/// # Errors
/// Returns [`StoreError::Damaged`] if the tables of the file are not those of the format, and the error
/// of the medium if it cannot be written. Nothing is changed then.
pub fn mend_schema(path: &Path, busy_timeout: Duration) -> Result<Vec<String>, StoreError> {
    let mend = || -> SqliteResult<Vec<String>> {
        let conn = connect(path, Access::ReadWrite)?;
        // A schema that cannot be parsed is loaded as far as it can be.
        conn.pragma_update(None, "writable_schema", true)?;
        with_busy_retry(busy_timeout, || conn.execute_batch("BEGIN IMMEDIATE"))?;
        let mut names = Vec::new();
        let mended = mend(&conn, path, &mut names).and_then(|()| {
            conn.execute_batch("COMMIT")?;
            Ok(())
        });
        undo_if_failed(&conn, mended)?;
        Ok(names)
    };
    mend().map_err(|error| error.into_store_error(path))
}

fn mend(conn: &Connection, path: &Path, names: &mut Vec<String>) -> SqliteResult<()> {
    let expected = schema::expected()?;
    if steps(conn).is_some_and(|steps| steps < migration::known()) {
        return Ok(());
    }
    for object in &expected {
        if restore_text(conn, object)? {
            names.push(object.name.clone());
        }
    }
    if !names.is_empty() {
        // The next statement reads the schema anew.
        let version: i64 = conn.pragma_query_value(None, "schema_version", |row| row.get(0))?;
        conn.pragma_update(None, "schema_version", version.saturating_add(1))?;
        conn.execute_batch("PRAGMA writable_schema = RESET")?;
    }
    if is_current(conn) {
        return Ok(());
    }
    let is_missing = |object: &&SchemaObject| {
        object.kind == "table" && object.name != MIGRATION && !exists(conn, &object.name)
    };
    let found = expected.iter().find(is_missing);
    if let Some(table) = found {
        let what = format!(
            "the steps of its format and the table `{}` are damaged",
            table.name
        );
        return Err(damaged(path, &what).into());
    }
    conn.execute_batch(&format!("DROP TABLE IF EXISTS {MIGRATION}"))?;
    migration::record_all(conn)?;
    names.push(MIGRATION.to_owned());
    Ok(())
}

/// Returns the number of recorded steps; `None` if that cannot be read.
fn steps(conn: &Connection) -> Option<u64> {
    let steps = migration::found(conn).ok().filter(|steps| *steps > 0)?;
    // Steps are recorded without gaps.
    let count: i64 = conn
        .query_row("SELECT count(*) FROM migration", [], |row| row.get(0))
        .ok()?;
    (count.unsigned_abs() == steps).then_some(steps)
}

/// Returns whether the file records all steps of the current format.
fn is_current(conn: &Connection) -> bool {
    migration::is_recorded(conn).unwrap_or_default()
}

fn exists(conn: &Connection, table: &str) -> bool {
    let sql = format!("SELECT 1 FROM {table} LIMIT 1");
    conn.prepare(&sql).is_ok()
}

/// Writes the text of an object again if that of the file differs.
///
/// An object is known by its name or, if that is damaged, by its text.
fn restore_text(conn: &Connection, object: &SchemaObject) -> SqliteResult<bool> {
    let SchemaObject {
        kind,
        name,
        table,
        sql,
    } = object;
    let found: Option<(i64, bool)> = conn
        .prepare_cached(
            "SELECT rowid, type IS ?1 AND name IS ?2 AND sql IS ?3 AND tbl_name IS ?4
             FROM main.sqlite_schema
             WHERE (type IS ?1 AND name IS ?2) OR sql IS ?3
             ORDER BY name IS ?2 AND type IS ?1 DESC LIMIT 1",
        )?
        .query_row(params![kind, name, sql, table], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let Some((row, false)) = found else {
        return Ok(false);
    };
    conn.prepare_cached(
        "UPDATE main.sqlite_schema SET type = ?2, name = ?3, sql = ?4, tbl_name = ?5
         WHERE rowid = ?1",
    )?
    .execute(params![row, kind, name, sql, table])?;
    Ok(true)
}
