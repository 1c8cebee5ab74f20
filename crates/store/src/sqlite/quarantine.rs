//! Quarantine: damaged rows are copied, and placeholders take the places that others refer to.

use logue_harness::Timestamp;
use logue_harness::store::{IntegrityFault, LOST_LABELS};
use rusqlite::types::{FromSql as _, ToSql, Value, ValueRef};
use rusqlite::{Connection, params, params_from_iter};
use serde_json::{Map, json};

use super::column::{Range, TimestampColumn, position};
use super::error::SqliteResult;
use super::message_body::MessageBody;
use super::seal::{self, LABEL, NOTE, Sealed};
use super::verify::DamagedRow;

/// The payload of an entry whose own was damaged. Its turn fails, and its sender gets that outcome.
pub(super) const QUARANTINED_WORK: &str = r#"{"kind":"quarantined"}"#;
/// The body of a damaged note or record of the audit.
pub(super) const QUARANTINED: &str = r#"{"quarantined":true}"#;

/// The maximum number of placeholders for consecutive missing records.
pub(super) const MAX_GAP: i64 = 10_000;

/// Copies a damaged row to the quarantine.
pub(super) fn keep(
    conn: &Connection,
    row: &DamagedRow,
    fault: &IntegrityFault,
    now: Timestamp,
) -> SqliteResult<()> {
    let Sealed { table, .. } = row.sealed;
    let mut statement = conn.prepare_cached(&format!(
        "SELECT * FROM {table} WHERE {}",
        condition_of(row)
    ))?;
    let names: Vec<String> = statement.column_names().map(ToString::to_string).collect();
    let mut rows = statement.query(params_from_iter(&row.key))?;
    let mut content = Map::new();
    if let Some(found) = rows.next()? {
        for (index, name) in names.into_iter().enumerate() {
            content.insert(name, shown(found.get_ref(index)?));
        }
    }
    insert(conn, fault, &serde_json::Value::Object(content), now)
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
fn condition_of(row: &DamagedRow) -> String {
    let places: Vec<String> = (1..=row.key.len())
        .map(|index| format!("?{index}"))
        .collect();
    format!("({}) = ({})", row.sealed.key, places.join(", "))
}

/// Replaces a damaged row by a placeholder, or removes it.
pub(super) fn replace(
    conn: &Connection,
    sid: i64,
    row: &DamagedRow,
    now: Timestamp,
) -> SqliteResult<()> {
    let change = |assignments: &str| -> SqliteResult<()> {
        let (table, condition) = (row.sealed.table, condition_of(row));
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
                put_placeholder(conn, *place, now)?;
            }
            Ok(())
        }
        "entry" => repair_entry(conn, sid, row, now),
        "work" => change(&format!("body = '{QUARANTINED_WORK}'")),
        "note" => {
            mark_lost_labels(conn, sid)?;
            change(&format!("body = '{QUARANTINED}'"))?;
            put_near(conn, row)
        }
        "audit" => change(&format!(
            "body = '{QUARANTINED}', at = max(at, 0),
             invocation = CASE WHEN is_id(invocation) THEN invocation ELSE 'unknown' END"
        )),
        // The numbers of the session are counted again afterwards.
        "session" => Ok(()),
        _ => {
            let table = row.sealed.table;
            conn.prepare_cached(&format!("DELETE FROM {table} WHERE {}", condition_of(row)))?
                .execute(params_from_iter(&row.key))?;
            if table == LABEL.table {
                mark_lost_labels(conn, sid)?;
            }
            Ok(())
        }
    }
}

/// Moves a note with a far place to the end of its journal.
fn put_near(conn: &Connection, row: &DamagedRow) -> SqliteResult<()> {
    let [sid, invocation, Value::Integer(seq)] = row.key.as_slice() else {
        return Ok(());
    };
    let journal = "sid = ?1 AND CAST(invocation AS BLOB) = ?2";
    let end: i64 = conn
        .prepare_cached(&format!(
            "SELECT ifnull(max(seq) + 1, 0) FROM note
             WHERE {journal} AND seq BETWEEN 0 AND CASE WHEN ?3 < 0 THEN ?4 ELSE ?3 - 1 END"
        ))?
        .query_row(params![sid, invocation, seq, i64::MAX - 1], |row| {
            row.get(0)
        })?;
    if (0..=end.saturating_add(MAX_GAP)).contains(seq) {
        return Ok(());
    }
    let values: [&dyn ToSql; 4] = [sid, invocation, seq, &end];
    conn.prepare_cached(&format!(
        "UPDATE note SET seq = ?4 WHERE {journal} AND seq = ?3"
    ))?
    .execute(values)?;
    let values: [&dyn ToSql; 3] = [sid, invocation, &end];
    seal::seal(conn, NOTE, &format!("{journal} AND seq = ?3"), &values)
}

/// Makes every tool of a session ask, because a rule or a trace was lost.
pub(super) fn mark_lost_labels(conn: &Connection, sid: i64) -> SqliteResult<()> {
    conn.prepare_cached(
        "INSERT INTO label VALUES (?1, ?2, 'true', row_sum(?1, ?2, 'true'))
         ON CONFLICT DO UPDATE SET value = excluded.value, sum = excluded.sum",
    )?
    .execute(params![sid, LOST_LABELS])?;
    Ok(())
}

/// Puts a message that states the loss at a place.
///
/// The history stays one that a model accepts: calls have results, results have calls, and the first
/// message is not an answer. A turn whose answer is replaced has failed.
pub(super) fn put_placeholder(conn: &Connection, place: i64, now: Timestamp) -> SqliteResult<()> {
    const TEXT: &str = "(this message was damaged in the store and is in quarantine)";
    let own = message_at(conn, place)?.unwrap_or_default();
    let role = own["role"].as_str();
    let role = role.filter(|role| matches!(*role, "system" | "user" | "assistant" | "tool"));
    let answered = results_after(conn, place)?;
    let message = match (role, own["tool_call_id"].as_str()) {
        (Some("tool"), Some(id)) => {
            json!({ "role": "tool", "content": TEXT, "tool_call_id": id })
        }
        _ => match open_call(conn, place, &answered)? {
            Some(id) => json!({ "role": "tool", "content": TEXT, "tool_call_id": id }),
            None if answered.is_empty() => {
                let role = match role {
                    Some(role @ ("system" | "user")) => role,
                    Some("assistant") => "assistant",
                    _ => likely_role(conn, place)?,
                };
                json!({ "role": role, "content": TEXT })
            }
            None => {
                let calls = answered.iter().map(|id| {
                    json!({ "id": id, "name": "unknown", "arguments": {}, "arguments_text": "{}" })
                });
                let calls: Vec<_> = calls.collect();
                json!({ "role": "assistant", "content": TEXT, "tool_calls": calls })
            }
        },
    };
    conn.prepare_cached(
        "INSERT INTO message VALUES (?1, ?2, row_sum(?1, ?2))
         ON CONFLICT DO UPDATE SET body = excluded.body, sum = excluded.sum",
    )?
    .execute(params![place, message.to_string()])?;
    fail_answer(conn, place, now)
}

/// Reads a message, if it is JSON.
fn message_at(conn: &Connection, place: i64) -> SqliteResult<Option<serde_json::Value>> {
    let mut statement = conn.prepare_cached("SELECT body FROM message WHERE pos = ?1")?;
    let mut rows = statement.query([place])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let body = MessageBody::column_result(row.get_ref(0)?);
    Ok(body.ok().map(|body| body.0))
}

/// Returns the calls that the results after a place answer.
fn results_after(conn: &Connection, place: i64) -> SqliteResult<Vec<String>> {
    let mut ids = Vec::new();
    for following in place + 1.. {
        let message = message_at(conn, following)?.unwrap_or_default();
        match message["tool_call_id"].as_str() {
            Some(id) if message["role"] == "tool" => ids.push(id.to_owned()),
            _ => break,
        }
    }
    Ok(ids)
}

/// Returns the first call before a place that has no result.
fn open_call(conn: &Connection, place: i64, answered: &[String]) -> SqliteResult<Option<String>> {
    let mut answered = answered.to_vec();
    for earlier in (place & !0xffff_ffff..place).rev() {
        let message = message_at(conn, earlier)?.unwrap_or_default();
        if let Some(id) = message["tool_call_id"].as_str() {
            answered.push(id.to_owned());
            continue;
        }
        let calls = message["tool_calls"].as_array();
        let mut ids = calls
            .into_iter()
            .flatten()
            .filter_map(|call| call["id"].as_str());
        return Ok(ids
            .find(|id| !answered.iter().any(|other| other == id))
            .map(str::to_owned));
    }
    Ok(None)
}

/// Returns the role of a lost message by its neighbours.
fn likely_role(conn: &Connection, place: i64) -> SqliteResult<&'static str> {
    let role = |place| -> SqliteResult<Option<String>> {
        let message = message_at(conn, place)?;
        Ok(message.and_then(|message| message["role"].as_str().map(str::to_owned)))
    };
    if position(place) == 0 {
        return Ok("user");
    }
    let earlier = role(place - 1)?;
    let later = role(place + 1)?;
    let is_asked = matches!(earlier.as_deref(), Some("assistant"));
    Ok(match later.as_deref() {
        Some("assistant") if is_asked => "user",
        _ => "assistant",
    })
}

/// Ends the completed turn that a message answered as failed.
///
/// Its sender must not get a placeholder as the answer.
fn fail_answer(conn: &Connection, place: i64, now: Timestamp) -> SqliteResult<()> {
    let body = lost("the stored answer was damaged and is in quarantine");
    let turns = "pos BETWEEN ?1 AND ?2 AND kind = 0 AND replies_from <= ?3 AND replies_to > ?3";
    let first = place & !0xffff_ffff;
    let places: Vec<i64> = conn
        .prepare_cached(&format!("SELECT pos FROM entry WHERE {turns}"))?
        .query_map([first, first | 0xffff_ffff, place - first], |row| {
            row.get(0)
        })?
        .collect::<Result<_, _>>()?;
    for place in places {
        conn.prepare_cached(
            "UPDATE entry SET kind = 1, body = ?2, at = ifnull(at, ?3) WHERE pos = ?1",
        )?
        .execute(params![place, body.to_string(), TimestampColumn(now)])?;
        seal::seal_entry(conn, place)?;
    }
    Ok(())
}

/// Returns the outcome of a turn of which a record is lost. No retry can help.
fn lost(diagnostic: &str) -> serde_json::Value {
    json!({
        "bucket": "session_terminating",
        "category": "session_load_failed",
        "diagnostic": diagnostic,
        "reply": "A stored record of this turn was damaged.",
    })
}

/// Ends a damaged entry as failed, unless it still waits for its turn.
///
/// A running one ends too: without its invocation nothing says which calls it had begun.
pub(super) fn repair_entry(
    conn: &Connection,
    sid: i64,
    row: &DamagedRow,
    now: Timestamp,
) -> SqliteResult<()> {
    let (seq, cursor): (i64, i64) = conn
        .prepare_cached("SELECT seq, cursor FROM session WHERE sid = ?1")?
        .query_row([sid], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let Some(Value::Integer(place)) = row.key.first() else {
        return Ok(());
    };
    let range = Range::from_session(sid)?;
    // A place far beyond the others is damage of the place itself.
    let removed = conn
        .prepare_cached(
            "DELETE FROM entry WHERE pos = ?1 AND (pos & 0xffffffff) > ?4 + max(
                 (SELECT count(*) FROM entry WHERE pos BETWEEN ?2 AND ?3),
                 ifnull((SELECT min(entries, 0xffffffff) FROM session WHERE sid = ?2 >> 32
                  AND sum IS row_sum(sid, id, seq, entries, cursor, has_state, schema_version,
                      created_at, updated_at)), 0))",
        )?
        .execute(params![place, range.first(), range.last(), MAX_GAP])?;
    if removed > 0 {
        return Ok(());
    }
    let settled = range.first().saturating_add(cursor);
    let has_begun: bool = conn
        .prepare_cached("SELECT invocation IS NOT NULL FROM entry WHERE pos = ?1")?
        .query_row([place], |row| row.get(0))?;
    // Its key may have been another one, under which its message would run again.
    mark_lost_labels(conn, sid)?;
    conn.prepare_cached(
        "UPDATE entry SET key = CASE WHEN is_id(key) THEN key END,
             digest = CASE WHEN is_id(key) AND is_id(digest) THEN digest END,
             accepted_at = max(accepted_at, 0)
         WHERE pos = ?1",
    )?
    .execute([place])?;
    let outcome = lost("the stored entry was damaged and is in quarantine");
    if *place <= settled || (*place == settled + 1 && has_begun) {
        conn.prepare_cached(
            "UPDATE entry SET cancel = NULL, kind = 1, replies_from = ?2, replies_to = ?2,
                 invocation = CASE WHEN is_id(invocation) THEN ifnull(invocation, 'unknown')
                     ELSE 'unknown' END, body = ?3, at = ?4
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

/// Moves the rows that satisfy a condition to quarantine; returns their faults.
pub(super) fn remove(
    conn: &Connection,
    sealed: Sealed,
    condition: &str,
    problem: &str,
    now: Timestamp,
) -> SqliteResult<Vec<IntegrityFault>> {
    let Sealed { table, key, .. } = sealed;
    let mut statement =
        conn.prepare_cached(&format!("SELECT {key} FROM {table} WHERE {condition}"))?;
    let keys = statement.column_count();
    let rows: Vec<Vec<Value>> = statement
        .query_map([], |row| (0..keys).map(|index| row.get(index)).collect())?
        .collect::<Result<_, _>>()?;
    let mut faults = Vec::new();
    for key in rows {
        let row = DamagedRow {
            sealed,
            key,
            fault: IntegrityFault::new(table, problem),
        };
        keep(conn, &row, &row.fault, now)?;
        conn.prepare_cached(&format!("DELETE FROM {table} WHERE {}", condition_of(&row)))?
            .execute(params_from_iter(&row.key))?;
        faults.push(row.fault);
    }
    Ok(faults)
}

/// Copies the statement of an object that does not belong to the format.
pub(super) fn keep_statement(
    conn: &Connection,
    fault: &IntegrityFault,
    sql: &str,
    now: Timestamp,
) -> SqliteResult<()> {
    insert(conn, fault, &json!({ "sql": sql }), now)
}

fn insert(
    conn: &Connection,
    fault: &IntegrityFault,
    content: &serde_json::Value,
    now: Timestamp,
) -> SqliteResult<()> {
    conn.prepare_cached(
        "INSERT INTO quarantine (session, record, position, reason, content, at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![
        fault.session,
        fault.record,
        fault.position.map(u64::cast_signed),
        fault.problem,
        content.to_string(),
        TimestampColumn(now)
    ])?;
    Ok(())
}
