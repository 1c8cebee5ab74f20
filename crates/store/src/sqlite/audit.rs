//! Decisions about tool calls, as append-only rows.

use logue_harness::Timestamp;
use logue_harness::store::AuditEntry;
use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::Value;

use super::column::{Id, Json, TimestampColumn, limit, position};
use super::error::SqliteResult;
use super::session;

/// Appends records.
pub(super) fn add(
    conn: &Connection,
    session: &str,
    invocation_id: String,
    records: &[String],
    now: Timestamp,
) -> SqliteResult<()> {
    let head = session::find_or_create(conn, session, now)?;
    let last: Option<i64> = conn
        .prepare_cached(
            "SELECT pos FROM audit WHERE pos BETWEEN ?1 AND ?2 ORDER BY pos DESC LIMIT 1",
        )?
        .query_row([head.range.first(), head.range.last()], |row| row.get(0))
        .optional()?;
    let next = last.map_or(0, |last| position(last) + 1);
    let invocation = Id(invocation_id);
    let mut insert =
        conn.prepare_cached("INSERT INTO audit VALUES (?1, ?2, ?3, ?4, row_sum(?1, ?2, ?3, ?4))")?;
    for (seq, record) in (next..).zip(records) {
        insert.execute(params![
            head.range.at(seq)?,
            invocation,
            record,
            TimestampColumn(now)
        ])?;
    }
    Ok(())
}

/// Returns at most `most` records, starting at position `from`.
pub(super) fn from(
    conn: &Connection,
    session: &str,
    from: u64,
    most: usize,
) -> SqliteResult<Vec<AuditEntry>> {
    let Some(head) = session::find(conn, session)? else {
        return Ok(Vec::new());
    };
    let Ok(first) = head.range.at(from) else {
        return Ok(Vec::new());
    };
    let found = conn
        .prepare_cached(
            "SELECT pos, invocation, body, at FROM audit
             WHERE pos BETWEEN ?1 AND ?2 ORDER BY pos LIMIT ?3",
        )?
        .query_map(params![first, head.range.last(), limit(most)], |row| {
            let Json::<Value>(record) = row.get(2)?;
            Ok(AuditEntry {
                seq: position(row.get(0)?),
                invocation_id: row.get::<_, Id>(1)?.0,
                record,
                at: row.get::<_, TimestampColumn>(3)?.0,
            })
        })?
        .collect::<Result<_, _>>()?;
    Ok(found)
}
