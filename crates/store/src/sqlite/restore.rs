//! Restoring the row of a session.

use logue_harness::store::IntegrityFault;
use rusqlite::types::Value;
use rusqlite::{Connection, params};

use super::error::SqliteResult;
use super::seal::{self, SESSION, sum_of};

/// Restores a row of which one bit was changed. Returns whether it is sound now.
///
/// A checksum of 32 bits determines the changed bit of a row of this length.
pub(super) fn sole_flip(conn: &Connection, sid: i64) -> SqliteResult<bool> {
    let sql = format!(
        "SELECT sum, {} FROM session WHERE sid = ?1",
        SESSION.columns
    );
    let (sum, mut parts): (Option<i64>, Vec<(u8, Vec<u8>)>) =
        conn.prepare_cached(&sql)?.query_row([sid], |row| {
            let columns = SESSION.columns.split(", ").count();
            let parts = (1..=columns).map(|index| Ok(seal::part(row.get_ref(index)?)));
            Ok((row.get(0)?, parts.collect::<rusqlite::Result<_>>()?))
        })?;
    for column in 0..parts.len() {
        for bit in 0..parts.get(column).map_or(0, |(_, bytes)| bytes.len() * 8) {
            flip(&mut parts, column, bit);
            if sum == Some(sum_of(&parts)) {
                return write(conn, sid, column, parts.get(column));
            }
            flip(&mut parts, column, bit);
        }
    }
    Ok(false)
}

/// Ends the repair of a session's row with a wrong checksum; returns its fault.
///
/// If more than its numbers was damaged, its name may be another session's, so it gets a new one.
pub(super) fn settle(
    conn: &Connection,
    sid: i64,
    is_restored: bool,
    mut fault: IntegrityFault,
) -> SqliteResult<IntegrityFault> {
    if is_restored {
        fault.problem.push_str("; its changed bit was restored");
        return Ok(fault);
    }
    let is_sound = conn
        .prepare_cached(&format!(
            "SELECT 1 FROM session WHERE sid = ?1 AND sum IS row_sum({})",
            SESSION.columns
        ))?
        .exists([sid])?;
    if is_sound {
        fault.problem.push_str("; its numbers were counted again");
        return Ok(fault);
    }
    let id = rename(conn, sid)?;
    fault
        .problem
        .push_str(&format!("; what belongs to it is kept as `{id}`"));
    Ok(fault)
}

/// Gives a session an id that no other has, and its checksum.
pub(super) fn rename(conn: &Connection, sid: i64) -> SqliteResult<String> {
    let id = conn
        .prepare_cached(
            "UPDATE session SET id = 'quarantined-' || sid || '-' || lower(hex(randomblob(4))),
                 created_at = max(created_at, 0), updated_at = max(updated_at, 0),
                 has_state = has_state <> 0
             WHERE sid = ?1 RETURNING id",
        )?
        .query_row([sid], |row| row.get(0))?;
    seal::seal_session(conn, sid)?;
    Ok(id)
}

/// Gives a session with an invalid lease back, under an epoch that no owner had.
pub(super) fn lease(
    conn: &Connection,
    sid: i64,
    invalid: &str,
    max_epoch: i64,
) -> SqliteResult<()> {
    conn.prepare_cached(&format!(
        "UPDATE session SET owner = NULL, until = 0, epoch =
             CASE WHEN epoch BETWEEN 0 AND ?2 - 1 THEN epoch + 1 ELSE ?2 >> 13 END
         WHERE sid = ?1 AND ({invalid})"
    ))?
    .execute(params![sid, max_epoch])?;
    Ok(())
}

fn flip(parts: &mut [(u8, Vec<u8>)], column: usize, bit: usize) {
    let byte = parts
        .get_mut(column)
        .and_then(|(_, bytes)| bytes.get_mut(bit / 8));
    if let Some(byte) = byte {
        *byte ^= 1 << (bit % 8);
    }
}

/// Stores the restored column, unless another session has the restored id.
fn write(
    conn: &Connection,
    sid: i64,
    column: usize,
    part: Option<&(u8, Vec<u8>)>,
) -> SqliteResult<bool> {
    let value = match part {
        Some((1, bytes)) => match bytes.as_slice().try_into() {
            Ok(bytes) => Value::Integer(i64::from_le_bytes(bytes)),
            Err(_) => return Ok(false),
        },
        Some((3, bytes)) => match String::from_utf8(bytes.clone()) {
            Ok(text) => Value::Text(text),
            Err(_) => return Ok(false),
        },
        _ => return Ok(false),
    };
    let Some(name) = SESSION
        .columns
        .split(", ")
        .nth(column)
        .filter(|_| column > 0)
    else {
        return Ok(false);
    };
    let written = conn
        .prepare_cached(&format!(
            "UPDATE OR IGNORE session SET {name} = ?2 WHERE sid = ?1"
        ))?
        .execute(params![sid, value])?;
    Ok(written > 0)
}
