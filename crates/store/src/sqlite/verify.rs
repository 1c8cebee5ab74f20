//! Integrity checks of the stored content.

use std::path::Path;

use logue_harness::store::IntegrityReport;
use rusqlite::{Connection, params};

use super::column::{Range, position};
use super::error::SqliteResult;
use super::session;

/// Checks one session, or all sessions and the file.
pub(super) fn verify(
    conn: &Connection,
    path: &Path,
    only: Option<&str>,
) -> SqliteResult<IntegrityReport> {
    let mut verified = IntegrityReport::default();
    if let Some(session) = only {
        if let Some(head) = session::find(conn, session)? {
            one(conn, session, head.sid, &mut verified)?;
        }
        return Ok(verified);
    }
    let sessions: Vec<(i64, String)> = conn
        .prepare("SELECT sid, id FROM session")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    for (sid, session) in sessions {
        one(conn, &session, sid, &mut verified)?;
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
            let fault = format!("{strays} rows of `{table}` have no session");
            verified.faults.push(fault);
        }
    }
    each(conn, "PRAGMA foreign_key_check", |row| {
        let table: String = row.get(0)?;
        verified
            .faults
            .push(format!("a row of `{table}` refers to nothing"));
        Ok(())
    })?;
    each(conn, "PRAGMA integrity_check(20)", |row| {
        let found: String = row.get(0)?;
        if found != "ok" {
            verified.faults.push(format!("{}: {found}", path.display()));
        }
        Ok(())
    })?;
    Ok(verified)
}

fn one(
    conn: &Connection,
    session: &str,
    sid: i64,
    verified: &mut IntegrityReport,
) -> SqliteResult<()> {
    let range = Range::from_session(sid)?;
    let ends = [range.first(), range.last()];
    let count = |sql: &str| -> SqliteResult<i64> {
        Ok(conn
            .prepare_cached(sql)?
            .query_row(ends, |row| row.get(0))?)
    };
    let mut fault = |what: String| verified.faults.push(format!("`{session}`: {what}"));
    let (seq, entries, cursor): (i64, i64, i64) = conn
        .prepare_cached("SELECT seq, entries, cursor FROM session WHERE sid = ?1")?
        .query_row([sid], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;

    let messages = count("SELECT count(*) FROM message WHERE pos BETWEEN ?1 AND ?2")?;
    let end = count(
        "SELECT ifnull(max(pos) + 1, ?1) - ?1 + 0 * ?2 FROM message WHERE pos BETWEEN ?1 AND ?2",
    )?;
    if messages != seq || end != seq {
        fault(format!(
            "{messages} messages up to position {end}, expected {seq}"
        ));
    }
    let found = count("SELECT count(*) FROM entry WHERE pos BETWEEN ?1 AND ?2")?;
    let last =
        count("SELECT ifnull(max(pos), ?1) - ?1 + 0 * ?2 FROM entry WHERE pos BETWEEN ?1 AND ?2")?;
    if found != entries || last != entries || cursor > entries {
        fault(format!(
            "{found} entries up to {last}, expected {entries} with {cursor} settled"
        ));
    }
    verified.sessions += 1;
    verified.messages += messages.unsigned_abs();

    let settled = range.first() + cursor;
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
    for (what, condition) in checks {
        let sql = format!(
            "SELECT pos FROM entry WHERE pos BETWEEN ?1 AND ?2 AND ?4 >= 0 AND ?3 >= 0
             AND ({condition}) LIMIT 20"
        );
        let mut statement = conn.prepare_cached(&sql)?;
        let mut rows = statement.query(params![ends[0], ends[1], settled, seq])?;
        while let Some(row) = rows.next()? {
            let entry = position(row.get(0)?);
            verified
                .faults
                .push(format!("`{session}`: entry {entry} {what}"));
        }
    }
    bodies(conn, session, sid, ends, verified)
}

/// Checks stored JSON, journals, and the entries of suspensions.
fn bodies(
    conn: &Connection,
    session: &str,
    sid: i64,
    ends: [i64; 2],
    verified: &mut IntegrityReport,
) -> SqliteResult<()> {
    let [first, last] = ends;
    let checks = [
        (
            "messages with invalid JSON",
            "SELECT count(*) FROM message WHERE pos BETWEEN ?1 AND ?2 AND ?3 AND NOT json_valid(body)",
        ),
        (
            "audit records with invalid JSON",
            "SELECT count(*) FROM audit WHERE pos BETWEEN ?1 AND ?2 AND ?3 AND NOT json_valid(body)",
        ),
        (
            "missing audit records",
            "SELECT max(ifnull(max(pos) + 1, ?1) - ?1 - count(*), 0) FROM audit
             WHERE pos BETWEEN ?1 AND ?2 AND ?3",
        ),
        (
            "entries with invalid JSON",
            "SELECT count(*) FROM work WHERE pos BETWEEN ?1 AND ?2 AND ?3 AND NOT json_valid(body)",
        ),
        (
            "fields or labels with invalid JSON",
            "SELECT count(*) FROM (SELECT sid, value FROM field UNION ALL SELECT sid, value FROM label)
             WHERE sid = ?3 AND ?1 <= ?2 AND NOT json_valid(value)",
        ),
        (
            "notes with invalid JSON",
            "SELECT count(*) FROM note WHERE sid = ?3 AND ?1 <= ?2 AND NOT json_valid(body)",
        ),
        (
            "journals with gaps",
            "SELECT count(*) FROM (SELECT 1 FROM note WHERE sid = ?3 AND ?1 <= ?2
             GROUP BY invocation HAVING min(seq) <> 0 OR max(seq) <> count(*) - 1)",
        ),
        (
            "suspensions inconsistent with their entries",
            "SELECT count(*) FROM suspension WHERE sid = ?3 AND ?1 <= ?2
             AND ((status = 0) <> (entry IS NULL)
                  OR (entry IS NOT NULL AND NOT EXISTS
                      (SELECT 1 FROM entry WHERE pos = ?1 + suspension.entry AND resumes)))",
        ),
    ];
    for (what, sql) in checks {
        let found: i64 = conn
            .prepare_cached(sql)?
            .query_row([first, last, sid], |row| row.get(0))?;
        if found > 0 {
            verified.faults.push(format!("`{session}`: {found} {what}"));
        }
    }
    Ok(())
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
