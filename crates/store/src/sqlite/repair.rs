//! Repair: damaged rows go to quarantine, and indexes are built again.
//!
//! What is sound keeps its position. A placeholder takes the place of what others refer to, and the
//! removed row stays readable in the table `quarantine`.

use std::path::Path;

use logue_harness::Timestamp;
use logue_harness::store::{IntegrityFault, RepairReport};
use rusqlite::types::{ToSql, Value, ValueRef};
use rusqlite::{Connection, params, params_from_iter};
use serde_json::{Map, json};

use super::column::{Range, TimestampColumn};
use super::error::{SqliteResult, damaged};
use super::seal::{self, Sealed};
use super::verify::{DamagedRow, damaged_rows, missing_indexes, sessions, verify};

/// The maximum number of placeholders for consecutive missing messages.
const MAX_GAP: i64 = 10_000;

/// Repairs the file in the transaction of the caller.
pub(super) fn repair(conn: &Connection, path: &Path, now: Timestamp) -> SqliteResult<RepairReport> {
    // Rows on pages that cannot be read would look as if they were missing.
    let pages: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if pages != "ok" {
        return Err(damaged(path, &pages).into());
    }
    let mut report = RepairReport::default();
    // An index that disagrees with its table would hide rows from what follows.
    for (sql, name) in missing_indexes(conn)? {
        conn.execute_batch(&format!("DROP INDEX IF EXISTS \"{name}\"; {sql}"))?;
        report.rebuilt.push(name);
    }
    conn.execute_batch("REINDEX")?;
    for (sid, session) in sessions(conn)? {
        for row in damaged_rows(conn, sid)? {
            let fault = row.fault.clone().in_session(&session);
            keep(conn, &row, &fault, now)?;
            replace(conn, sid, &row, now)?;
            report.quarantined.push(fault);
        }
        fill_gaps(conn, sid)?;
        count_again(conn, sid)?;
    }
    report.remaining = verify(conn, path, None)?.faults;
    Ok(report)
}

/// Copies a damaged row to the quarantine.
fn keep(
    conn: &Connection,
    row: &DamagedRow,
    fault: &IntegrityFault,
    now: Timestamp,
) -> SqliteResult<()> {
    let Sealed { table, .. } = row.sealed;
    let mut statement =
        conn.prepare_cached(&format!("SELECT * FROM {table} WHERE {}", condition(row)))?;
    let names: Vec<String> = statement.column_names().map(ToString::to_string).collect();
    let mut rows = statement.query(params_from_iter(&row.key))?;
    let mut content = Map::new();
    if let Some(found) = rows.next()? {
        for (index, name) in names.into_iter().enumerate() {
            content.insert(name, shown(found.get_ref(index)?));
        }
    }
    conn.prepare_cached(
        "INSERT INTO quarantine (session, record, position, reason, content, at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![
        fault.session,
        fault.record,
        fault.position.map(u64::cast_signed),
        fault.problem,
        serde_json::Value::Object(content).to_string(),
        TimestampColumn(now)
    ])?;
    Ok(())
}

/// Converts a column to JSON; bytes that are not text become hexadecimal digits.
fn shown(value: ValueRef<'_>) -> serde_json::Value {
    let hex = |bytes: &[u8]| {
        let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or('0');
        let halves = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let digits: String = halves.map(digit).collect();
        json!({ "hex": digits })
    };
    match value {
        ValueRef::Null => serde_json::Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => hex(bytes),
        },
        ValueRef::Blob(bytes) => hex(bytes),
    }
}

/// Returns the condition of a row, with its key as parameters.
fn condition(row: &DamagedRow) -> String {
    let places: Vec<String> = (1..=row.key.len())
        .map(|index| format!("?{index}"))
        .collect();
    format!("({}) = ({})", row.sealed.key, places.join(", "))
}

/// Replaces a damaged row by a placeholder, or removes it.
fn replace(conn: &Connection, sid: i64, row: &DamagedRow, now: Timestamp) -> SqliteResult<()> {
    let change = |assignments: &str| -> SqliteResult<()> {
        let (table, condition) = (row.sealed.table, condition(row));
        conn.prepare_cached(&format!(
            "UPDATE {table} SET {assignments} WHERE {condition}"
        ))?
        .execute(params_from_iter(&row.key))?;
        let key: Vec<&dyn ToSql> = row.key.iter().map(|value| value as &dyn ToSql).collect();
        seal::seal(conn, row.sealed, &condition, &key)
    };
    match row.sealed.table {
        "message" => {
            let Some(Value::Integer(place)) = row.key.first() else {
                return Ok(());
            };
            // A place beyond the end is damage of the place itself.
            let removed = conn
                .prepare_cached(
                    "DELETE FROM message WHERE pos = ?1
                     AND pos & 0xffffffff >= (SELECT seq FROM session WHERE sid = ?2)",
                )?
                .execute([*place, sid])?;
            if removed == 0 {
                put_placeholder(conn, *place)?;
            }
            Ok(())
        }
        "entry" => repair_entry(conn, sid, row, now),
        // A payload without a message fails in its turn, and its sender gets that outcome.
        "work" => change(r#"body = '{"kind":"message","message":null}'"#),
        "note" | "audit" => change(r#"body = '{"quarantined":true}'"#),
        // The numbers of the session are counted again afterwards.
        "session" => Ok(()),
        _ => {
            let table = row.sealed.table;
            conn.prepare_cached(&format!("DELETE FROM {table} WHERE {}", condition(row)))?
                .execute(params_from_iter(&row.key))?;
            Ok(())
        }
    }
}

/// Puts a message that states the loss at a place.
///
/// Results of calls that follow stay valid: the placeholder has calls of their ids.
fn put_placeholder(conn: &Connection, place: i64) -> SqliteResult<()> {
    let said = |at: i64| -> SqliteResult<Option<serde_json::Value>> {
        let mut statement = conn.prepare_cached("SELECT body FROM message WHERE pos = ?1")?;
        let mut rows = statement.query([at])?;
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        let ValueRef::Text(bytes) = row.get_ref(0)? else {
            return Ok(None);
        };
        Ok(serde_json::from_slice(bytes).ok())
    };
    let own = said(place)?;
    let role = own
        .as_ref()
        .and_then(|message| message.get("role")?.as_str());
    let role = role.filter(|role| matches!(*role, "system" | "user" | "assistant" | "tool"));
    let text = "(this message was damaged in the store and is in quarantine)";
    let mut calls = Vec::new();
    for following in place + 1.. {
        let message = said(following)?;
        let result = message.filter(|message| message["role"] == "tool");
        let Some(id) = result.and_then(|result| Some(result.get("tool_call_id")?.clone())) else {
            break;
        };
        calls.push(json!({
            "id": id, "name": "unknown", "arguments": {}, "arguments_text": "{}",
        }));
    }
    let message = match (role, own.as_ref().and_then(|own| own.get("tool_call_id"))) {
        (Some("tool"), Some(id)) if id.is_string() => {
            json!({ "role": "tool", "content": text, "tool_call_id": id })
        }
        _ if !calls.is_empty() => {
            json!({ "role": "assistant", "content": text, "tool_calls": calls })
        }
        (Some(role @ ("system" | "user")), _) => json!({ "role": role, "content": text }),
        _ => json!({ "role": "assistant", "content": text }),
    };
    conn.prepare_cached(
        "INSERT INTO message VALUES (?1, ?2, row_sum(?1, ?2))
         ON CONFLICT DO UPDATE SET body = excluded.body, sum = excluded.sum",
    )?
    .execute(params![place, message.to_string()])?;
    Ok(())
}

/// Ends a damaged entry as failed, unless it still waits for its turn.
///
/// A running one ends too: without its invocation nothing says which calls it had begun.
fn repair_entry(conn: &Connection, sid: i64, row: &DamagedRow, now: Timestamp) -> SqliteResult<()> {
    let (seq, cursor): (i64, i64) = conn
        .prepare_cached("SELECT seq, cursor FROM session WHERE sid = ?1")?
        .query_row([sid], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let Some(Value::Integer(place)) = row.key.first() else {
        return Ok(());
    };
    let settled = Range::from_session(sid)?.first().saturating_add(cursor);
    let has_begun: bool = conn
        .prepare_cached("SELECT invocation IS NOT NULL FROM entry WHERE pos = ?1")?
        .query_row([place], |row| row.get(0))?;
    let outcome = json!({
        "bucket": "session_terminating",
        "category": "session_load_failed",
        "diagnostic": "the stored entry was damaged and is in quarantine",
        "reply": "A stored record of this turn was damaged.",
    });
    if *place <= settled || (*place == settled + 1 && has_begun) {
        conn.prepare_cached(
            "UPDATE entry SET cancel = NULL, kind = 1, replies_from = ?2, replies_to = ?2,
                 invocation = ifnull(invocation, 'unknown'), body = ?3, at = ?4
             WHERE pos = ?1",
        )?
        .execute(params![
            place,
            seq,
            outcome.to_string(),
            TimestampColumn(now)
        ])?;
    } else {
        conn.prepare_cached(
            "UPDATE entry SET cancel = NULL, invocation = NULL, kind = NULL, replies_from = NULL,
                 replies_to = NULL, body = NULL, at = NULL,
                 resumes = EXISTS (SELECT 1 FROM work WHERE work.pos = entry.pos
                     AND json_valid(body) AND json_extract(body, '$.kind') = 'resume')
             WHERE pos = ?1",
        )?
        .execute([place])?;
    }
    seal::seal_entry(conn, *place)
}

/// Puts a placeholder at each position without a message.
fn fill_gaps(conn: &Connection, sid: i64) -> SqliteResult<()> {
    let range = Range::from_session(sid)?;
    let places: Vec<i64> = conn
        .prepare_cached("SELECT pos FROM message WHERE pos BETWEEN ?1 AND ?2 ORDER BY pos")?
        .query_map([range.first(), range.last()], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut next = range.first();
    for place in places {
        // More than this is damage of a place, and stays a fault.
        let gap = if place - next > MAX_GAP {
            0..0
        } else {
            next..place
        };
        for missing in gap {
            put_placeholder(conn, missing)?;
        }
        next = place + 1;
    }
    Ok(())
}

/// Sets the numbers of a session from its rows.
fn count_again(conn: &Connection, sid: i64) -> SqliteResult<()> {
    let range = Range::from_session(sid)?;
    let changed = conn
        .prepare_cached(
            "WITH found (seq, entries, cursor) AS (SELECT
                 (SELECT ifnull(max(pos) + 1, ?1) - ?1 FROM message WHERE pos BETWEEN ?1 AND ?2),
                 (SELECT ifnull(max(pos), ?1) - ?1 FROM entry WHERE pos BETWEEN ?1 AND ?2),
                 (SELECT count(*) FROM entry WHERE pos BETWEEN ?1 AND ?2 AND kind IS NOT NULL))
             UPDATE session SET (seq, entries, cursor) = (SELECT seq, entries, cursor FROM found)
             WHERE sid = ?3 AND ((seq, entries, cursor) <> (SELECT seq, entries, cursor FROM found)
                 OR sum IS NOT row_sum(sid, id, seq, entries, cursor, has_state, schema_version,
                     created_at, updated_at))",
        )?
        .execute([range.first(), range.last(), sid])?;
    if changed > 0 {
        conn.prepare_cached(
            "UPDATE session SET created_at = max(created_at, 0), updated_at = max(updated_at, 0)
             WHERE sid = ?1",
        )?
        .execute([sid])?;
        seal::seal_session(conn, sid)?;
    }
    Ok(())
}
