//! Integrity checks of the stored content.

use std::path::Path;

use logue_harness::store::{IntegrityFault, IntegrityReport};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Row, params};

use super::column::{Id, Range, position};
use super::error::{SqliteError, SqliteResult};
use super::migration;
use super::seal::{self, Sealed};
use super::session;

/// A row whose checksum differs from that of its content.
pub(super) struct DamagedRow {
    pub(super) sealed: Sealed,
    /// The values of its key columns.
    pub(super) key: Vec<Value>,
    pub(super) fault: IntegrityFault,
}

/// Checks one session, or all sessions and the file.
pub(super) fn verify(
    conn: &Connection,
    path: &Path,
    only: Option<&str>,
) -> SqliteResult<IntegrityReport> {
    let mut report = IntegrityReport::default();
    if let Some(session) = only {
        if let Some(head) = session::find(conn, session)? {
            one(conn, session, head.sid, &mut report);
        }
        return Ok(report);
    }
    for (sid, session) in sessions(conn)? {
        one(conn, &session, sid, &mut report);
    }
    for (sql, _) in missing_indexes(conn)? {
        let fault = IntegrityFault::new("index", format!("is missing: {sql}"));
        report.faults.push(fault);
    }
    for table in ["message", "entry", "work", "audit"] {
        let strays: i64 = conn.query_row(
            &format!(
                "SELECT count(*) FROM {table} WHERE pos >> 32 NOT IN (SELECT sid FROM session)"
            ),
            [],
            |row| row.get(0),
        )?;
        if strays > 0 {
            let problem = format!("{strays} rows of `{table}` have no session");
            report.faults.push(IntegrityFault::new("file", problem));
        }
    }
    each(conn, "PRAGMA foreign_key_check", |row| {
        let table: String = row.get(0)?;
        let problem = format!("a row of `{table}` refers to nothing");
        report.faults.push(IntegrityFault::new("file", problem));
        Ok(())
    })?;
    each(conn, "PRAGMA integrity_check(20)", |row| {
        let found: String = row.get(0)?;
        if found != "ok" {
            let problem = format!("{}: {found}", path.display());
            report.faults.push(IntegrityFault::new("file", problem));
        }
        Ok(())
    })?;
    Ok(report)
}

/// Returns the numbers and ids of all sessions.
///
/// An id that damage made invalid UTF-8 is shown with replacement characters.
pub(super) fn sessions(conn: &Connection) -> SqliteResult<Vec<(i64, String)>> {
    let found = conn
        .prepare("SELECT sid, id FROM session ORDER BY sid")?
        .query_map([], |row| {
            let id = match row.get_ref(1)? {
                ValueRef::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                _ => String::new(),
            };
            Ok((row.get(0)?, id))
        })?
        .collect::<Result<_, _>>()?;
    Ok(found)
}

/// Returns the statements and names of the tables and indexes that the file lacks.
pub(super) fn missing_indexes(conn: &Connection) -> SqliteResult<Vec<(String, String)>> {
    let listed = |conn: &Connection| -> SqliteResult<Vec<(String, String)>> {
        let found = conn
            .prepare(
                "SELECT sql, name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL",
            )?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        Ok(found)
    };
    let expected = Connection::open_in_memory()?;
    seal::register(&expected)?;
    migration::migrate(&expected, Path::new(":memory:"))?;
    let present = listed(conn)?;
    let mut missing = listed(&expected)?;
    missing.retain(|index| !present.contains(index));
    Ok(missing)
}

/// Checks one session. A page that cannot be read is a fault too.
fn one(conn: &Connection, session: &str, sid: i64, report: &mut IntegrityReport) {
    report.sessions += 1;
    let mut faults = Vec::new();
    let checked = counts(conn, sid, &mut faults)
        .map(|messages| report.messages += messages)
        .and_then(|()| entries(conn, sid, &mut faults))
        .and_then(|()| bodies(conn, sid, &mut faults))
        .and_then(|()| {
            let damaged = damaged_rows(conn, sid)?;
            faults.extend(damaged.into_iter().map(|row| row.fault));
            Ok(())
        });
    if let Err(error) = checked {
        let cause = match error {
            SqliteError::Refused(error) => error.to_string(),
            SqliteError::Database(error) => error.to_string(),
        };
        let problem = format!("cannot be read as a whole: {cause}");
        faults.push(IntegrityFault::new("session", problem));
    }
    let faults = faults.into_iter().map(|fault| fault.in_session(session));
    report.faults.extend(faults);
}

/// Compares the numbers of a session's row with its rows; returns the number of messages.
fn counts(conn: &Connection, sid: i64, faults: &mut Vec<IntegrityFault>) -> SqliteResult<u64> {
    let range = Range::from_session(sid)?;
    let ends = [range.first(), range.last()];
    let count = |sql: &str| -> SqliteResult<i64> {
        Ok(conn
            .prepare_cached(sql)?
            .query_row(ends, |row| row.get(0))?)
    };
    let (seq, entries, cursor): (i64, i64, i64) = conn
        .prepare_cached("SELECT seq, entries, cursor FROM session WHERE sid = ?1")?
        .query_row([sid], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;

    let messages = count("SELECT count(*) FROM message WHERE pos BETWEEN ?1 AND ?2")?;
    let end = count(
        "SELECT ifnull(max(pos) + 1, ?1) - ?1 + 0 * ?2 FROM message WHERE pos BETWEEN ?1 AND ?2",
    )?;
    if messages != seq || end != seq {
        let problem = format!("{messages} messages up to position {end}, expected {seq}");
        faults.push(IntegrityFault::new("session", problem));
    }
    let found = count("SELECT count(*) FROM entry WHERE pos BETWEEN ?1 AND ?2")?;
    let last =
        count("SELECT ifnull(max(pos), ?1) - ?1 + 0 * ?2 FROM entry WHERE pos BETWEEN ?1 AND ?2")?;
    if found != entries || last != entries || cursor > entries || cursor < 0 {
        let problem =
            format!("{found} entries up to {last}, expected {entries} with {cursor} settled");
        faults.push(IntegrityFault::new("session", problem));
    }
    Ok(messages.unsigned_abs())
}

/// Checks the entries of a session and their outcomes.
fn entries(conn: &Connection, sid: i64, faults: &mut Vec<IntegrityFault>) -> SqliteResult<()> {
    let range = Range::from_session(sid)?;
    let (seq, cursor): (i64, i64) = conn
        .prepare_cached("SELECT seq, cursor FROM session WHERE sid = ?1")?
        .query_row([sid], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let settled = range.first().saturating_add(cursor);
    let checks = [
        (
            "is settled without a complete outcome",
            "pos <= ?3 AND (kind IS NULL OR at IS NULL OR invocation IS NULL
             OR replies_from IS NULL OR ifnull(replies_to, ?4 + 1) > ?4)",
        ),
        (
            "has an outcome and is not settled",
            "pos > ?3 AND kind IS NOT NULL",
        ),
        (
            "has an outcome of an unknown kind",
            "kind IS NOT NULL AND kind NOT BETWEEN 0 AND 3",
        ),
        (
            "has an unknown kind of cancellation",
            "cancel IS NOT NULL AND cancel NOT BETWEEN 0 AND 1",
        ),
        (
            "runs and is not the next one",
            "pos > ?3 + 1 AND invocation IS NOT NULL",
        ),
        (
            "is pending without a payload",
            "pos > ?3 AND pos NOT IN (SELECT pos FROM work WHERE pos BETWEEN ?1 AND ?2)",
        ),
        (
            "has an outcome with invalid JSON",
            "body IS NOT NULL AND NOT json_valid(body)",
        ),
    ];
    for (problem, condition) in checks {
        let sql = format!(
            "SELECT pos FROM entry WHERE pos BETWEEN ?1 AND ?2 AND ?4 >= 0 AND ?3 >= 0
             AND ({condition}) LIMIT 20"
        );
        let mut statement = conn.prepare_cached(&sql)?;
        let mut rows = statement.query(params![range.first(), range.last(), settled, seq])?;
        while let Some(row) = rows.next()? {
            let entry = position(row.get(0)?);
            faults.push(IntegrityFault::new("entry", problem).at(entry));
        }
    }
    Ok(())
}

/// Checks stored JSON, journals, and the entries of suspensions.
fn bodies(conn: &Connection, sid: i64, faults: &mut Vec<IntegrityFault>) -> SqliteResult<()> {
    let range = Range::from_session(sid)?;
    let checks = [
        (
            "message",
            "messages with invalid JSON",
            "SELECT count(*) FROM message WHERE pos BETWEEN ?1 AND ?2 AND ?3 AND NOT json_valid(body)",
        ),
        (
            "audit",
            "records with invalid JSON",
            "SELECT count(*) FROM audit WHERE pos BETWEEN ?1 AND ?2 AND ?3 AND NOT json_valid(body)",
        ),
        (
            "audit",
            "missing records",
            "SELECT max(ifnull(max(pos) + 1, ?1) - ?1 - count(*), 0) FROM audit
             WHERE pos BETWEEN ?1 AND ?2 AND ?3",
        ),
        (
            "work",
            "payloads with invalid JSON",
            "SELECT count(*) FROM work WHERE pos BETWEEN ?1 AND ?2 AND ?3 AND NOT json_valid(body)",
        ),
        (
            "field",
            "fields or labels with invalid JSON",
            "SELECT count(*) FROM (SELECT sid, value FROM field UNION ALL SELECT sid, value FROM label)
             WHERE sid = ?3 AND ?1 <= ?2 AND NOT json_valid(value)",
        ),
        (
            "note",
            "notes with invalid JSON",
            "SELECT count(*) FROM note WHERE sid = ?3 AND ?1 <= ?2 AND NOT json_valid(body)",
        ),
        (
            "note",
            "journals with gaps",
            "SELECT count(*) FROM (SELECT 1 FROM note WHERE sid = ?3 AND ?1 <= ?2
             GROUP BY invocation HAVING min(seq) <> 0 OR max(seq) <> count(*) - 1)",
        ),
        (
            "suspension",
            "inconsistent with their entries",
            "SELECT count(*) FROM suspension WHERE sid = ?3 AND ?1 <= ?2
             AND (status NOT BETWEEN 0 AND 2 OR (status = 0) <> (entry IS NULL)
                  OR (entry IS NOT NULL AND NOT EXISTS
                      (SELECT 1 FROM entry WHERE pos = ?1 + suspension.entry AND resumes)))",
        ),
    ];
    for (record, problem, sql) in checks {
        let found: i64 = conn
            .prepare_cached(sql)?
            .query_row([range.first(), range.last(), sid], |row| row.get(0))?;
        if found > 0 {
            faults.push(IntegrityFault::new(record, format!("{found} {problem}")));
        }
    }
    Ok(())
}

/// Finds the rows of a session whose content does not match their checksum.
pub(super) fn damaged_rows(conn: &Connection, sid: i64) -> SqliteResult<Vec<DamagedRow>> {
    let range = Range::from_session(sid)?;
    let mut damaged = Vec::new();
    for sealed in seal::TABLES {
        let Sealed {
            table,
            columns,
            key,
            of_session,
            position,
            name,
        } = sealed;
        let mut statement = conn.prepare_cached(&format!(
            "SELECT {position}, {name}, {key} FROM {table}
             WHERE {of_session} AND sum IS NOT row_sum({columns})"
        ))?;
        let keys = statement.column_count() - 2;
        let mut rows = statement.query([range.first(), range.last(), sid])?;
        while let Some(row) = rows.next()? {
            let problem = match name_of(row)? {
                Some(name) => format!("`{name}`: the checksum does not match the content"),
                None => "the checksum does not match the content".to_owned(),
            };
            let fault = IntegrityFault::new(table, problem);
            let position: Option<i64> = row.get(0)?;
            damaged.push(DamagedRow {
                sealed: *sealed,
                key: (0..keys)
                    .map(|index| row.get(index + 2))
                    .collect::<Result<_, _>>()?,
                fault: match position {
                    Some(position) => fault.at(position.unsigned_abs()),
                    None => fault,
                },
            });
        }
    }
    Ok(damaged)
}

/// Returns the name in the second column.
fn name_of(row: &Row<'_>) -> rusqlite::Result<Option<String>> {
    Ok(match row.get_ref(1)? {
        ValueRef::Null => None,
        ValueRef::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => row.get::<_, Id>(1).ok().map(|id| id.0),
    })
}

fn each(
    conn: &Connection,
    sql: &str,
    mut look: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<()>,
) -> SqliteResult<()> {
    let mut statement = conn.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        look(row)?;
    }
    Ok(())
}
