//! Suspensions, found by their invocation, and the signals that end them.
//!
//! An invocation may suspend several times in sequence. Each suspension is a row, and a signal
//! refers to the latest one.

use logue_harness::Timestamp;
use logue_harness::store::{
    NewSuspension, SessionLocation, SignalResult, StoreError, Suspension, SuspensionFilter,
    SuspensionStatus,
};
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

use super::column::{Count, Id, Json, TimestampColumn, written};
use super::error::SqliteResult;
use super::inbox::{self, Arrival};
use super::seal;
use super::session::{self, Head};
use crate::encoding::optional;

/// A suspension to store, with serialised JSON.
pub(super) struct SuspensionRow {
    signal_id: String,
    metadata: Option<String>,
    record: Option<String>,
}

impl SuspensionRow {
    pub(super) fn new(suspension: NewSuspension) -> Result<Self, StoreError> {
        Ok(Self {
            signal_id: suspension.signal_id,
            metadata: suspension.metadata.as_ref().map(written).transpose()?,
            record: optional(&suspension.record)?,
        })
    }
}

/// Adds a suspension. Refused if another turn waits under that signal id.
pub(super) fn begin(
    conn: &Connection,
    head: &Head,
    invocation_id: &str,
    waiting: SuspensionRow,
    now: Timestamp,
) -> SqliteResult<()> {
    let latest = latest(conn, invocation_id)?;
    let free = latest
        .is_none_or(|latest| latest.sid == head.sid && latest.status == SuspensionStatus::Resumed);
    if !free {
        return Err(StoreError::Exists {
            what: format!("a suspension of `{invocation_id}`"),
        }
        .into());
    }
    conn.prepare_cached(
        "INSERT INTO suspension (invocation, sid, signal_id, metadata, status, record, since)
         VALUES (?1, ?2, ?3, ?4, 0, ?5, ?6)",
    )?
    .execute(params![
        Id(invocation_id.to_owned()),
        head.sid,
        Id(waiting.signal_id),
        waiting.metadata,
        waiting.record,
        TimestampColumn(now)
    ])?;
    seal_row(conn, conn.last_insert_rowid())
}

/// Stores the checksum of a suspension.
pub(super) fn seal_row(conn: &Connection, num: i64) -> SqliteResult<()> {
    seal::seal(conn, seal::SUSPENSION, "num = ?1", &[&num])
}

/// Ends the latest suspension of an invocation and removes its record.
pub(super) fn end(conn: &Connection, invocation_id: &str) -> SqliteResult<()> {
    if let Some(latest) = latest(conn, invocation_id)? {
        conn.prepare_cached("UPDATE suspension SET status = 2, record = NULL WHERE num = ?1")?
            .execute([latest.num])?;
        seal_row(conn, latest.num)?;
    }
    Ok(())
}

pub(super) fn signal(
    conn: &Connection,
    invocation_id: &str,
    signal_id: Option<String>,
    work: String,
    now: Timestamp,
) -> SqliteResult<SignalResult> {
    if let Some(signal_id) = signal_id
        && let Some(earlier) = earlier(conn, invocation_id, signal_id)?
    {
        return Ok(earlier);
    }
    let Some(latest) = latest(conn, invocation_id)? else {
        return Ok(SignalResult::Unknown);
    };
    let head = session::usable(conn, &latest.session)?;
    if let Some(entry) = latest.entry {
        return Ok(SignalResult::Entry {
            session: latest.session,
            entry,
            is_new: false,
        });
    }
    let arrival = Arrival {
        work,
        resumes: true,
        key: None,
        digest: None,
        retries: None,
        only_if_idle: false,
        only_after: None,
        only_created_at: None,
        cancel: None,
        now,
    };
    let entry = inbox::put(conn, &head, arrival)?;
    conn.prepare_cached("UPDATE suspension SET status = 1, entry = ?2 WHERE num = ?1")?
        .execute(params![latest.num, Count(entry)])?;
    seal_row(conn, latest.num)?;
    Ok(SignalResult::Entry {
        session: latest.session,
        entry,
        is_new: true,
    })
}

/// Returns the result of a signal for an earlier suspension of an invocation.
///
/// Returns `None` if the signal is for the latest suspension.
fn earlier(
    conn: &Connection,
    invocation_id: &str,
    signal_id: String,
) -> SqliteResult<Option<SignalResult>> {
    let id = Id(invocation_id.to_owned());
    let latest: Option<Id> = conn
        .prepare_cached(
            "SELECT signal_id FROM suspension WHERE invocation = ?1 ORDER BY num DESC LIMIT 1",
        )?
        .query_row([&id], |row| row.get(0))
        .optional()?;
    if latest.is_none_or(|Id(latest)| latest == signal_id) {
        return Ok(None);
    }
    let found: Option<(Id, Option<Count>)> = conn
        .prepare_cached(
            "SELECT session.id, entry FROM suspension JOIN session USING (sid)
             WHERE invocation = ?1 AND signal_id = ?2 ORDER BY num DESC LIMIT 1",
        )?
        .query_row(params![id, Id(signal_id)], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    Ok(Some(match found {
        Some((Id(session), Some(Count(entry)))) => SignalResult::Entry {
            session,
            entry,
            is_new: false,
        },
        _ => SignalResult::Unknown,
    }))
}

/// The columns of a suspension.
const SUSPENSION: &str = "invocation, session.id, signal_id, metadata, status, entry, since \
                          FROM suspension JOIN session USING (sid)";

pub(super) fn suspension(
    conn: &Connection,
    invocation_id: String,
) -> SqliteResult<Option<Suspension>> {
    let sql =
        format!("SELECT record, {SUSPENSION} WHERE invocation = ?1 ORDER BY num DESC LIMIT 1");
    let found = conn
        .prepare_cached(&sql)?
        .query_row([Id(invocation_id)], read)
        .optional()?;
    Ok(found)
}

pub(super) fn suspensions(
    conn: &Connection,
    filter: SuspensionFilter,
) -> SqliteResult<Vec<Suspension>> {
    let mut sql = format!("SELECT NULL, {SUSPENSION} WHERE true");
    let mut values: Vec<Box<dyn ToSql>> = Vec::new();
    if let Some(session) = filter.session {
        let Some(head) = session::find(conn, &session)? else {
            return Ok(Vec::new());
        };
        values.push(Box::new(head.sid));
        sql.push_str(" AND suspension.sid = ?");
    }
    if let Some(signal) = filter.signal_id {
        values.push(Box::new(Id(signal)));
        sql.push_str(" AND signal_id = ?");
    }
    if let Some(status) = filter.status {
        values.push(Box::new(Status(status)));
        sql.push_str(match status {
            // Ended suspensions have no index: they are the majority and rarely queried.
            SuspensionStatus::Resumed => " AND status = ?",
            _ => " AND status < 2 AND status = ?",
        });
    }
    if filter.is_usable {
        let [moved, arriving] = SessionLocation::MARKS;
        values.push(Box::new(moved));
        values.push(Box::new(arriving));
        sql.push_str(
            " AND (owner IS NULL OR (owner NOT LIKE ? || '%' AND owner NOT LIKE ? || '%'))",
        );
    }
    sql.push_str(" ORDER BY num");
    let found = conn
        .prepare_cached(&sql)?
        .query_map(rusqlite::params_from_iter(values), read)?
        .collect::<Result<_, _>>()?;
    Ok(found)
}

/// The latest suspension of an invocation.
struct Latest {
    num: i64,
    sid: i64,
    session: String,
    status: SuspensionStatus,
    entry: Option<u64>,
}

fn latest(conn: &Connection, invocation_id: &str) -> SqliteResult<Option<Latest>> {
    let found = conn
        .prepare_cached(
            "SELECT num, suspension.sid, session.id, status, entry
             FROM suspension JOIN session USING (sid)
             WHERE invocation = ?1 ORDER BY num DESC LIMIT 1",
        )?
        .query_row([Id(invocation_id.to_owned())], |row| {
            let Status(status) = row.get(3)?;
            Ok(Latest {
                num: row.get(0)?,
                sid: row.get(1)?,
                session: row.get(2)?,
                status,
                entry: row.get::<_, Option<Count>>(4)?.map(|count| count.0),
            })
        })
        .optional()?;
    Ok(found)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Suspension> {
    let json = |index| -> rusqlite::Result<Option<Value>> {
        let json: Option<Json<Value>> = row.get(index)?;
        Ok(json.map(|json| json.0))
    };
    let Status(status) = row.get(5)?;
    Ok(Suspension {
        invocation_id: row.get::<_, Id>(1)?.0,
        session: row.get(2)?,
        signal_id: row.get::<_, Id>(3)?.0,
        metadata: json(4)?,
        status,
        entry: row.get::<_, Option<Count>>(6)?.map(|count| count.0),
        record: json(0)?.unwrap_or(Value::Null),
        since: row.get::<_, TimestampColumn>(7)?.0,
    })
}

/// The status of a suspension, as a number.
pub(super) struct Status(pub(super) SuspensionStatus);

impl ToSql for Status {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let number = match self.0 {
            SuspensionStatus::Suspended => 0,
            SuspensionStatus::Signalled => 1,
            SuspensionStatus::Resumed => 2,
            // Other states are never stored.
            _ => -1,
        };
        Ok(number.into())
    }
}

impl FromSql for Status {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(Self(match value.as_i64()? {
            0 => SuspensionStatus::Suspended,
            1 => SuspensionStatus::Signalled,
            2 => SuspensionStatus::Resumed,
            other => return Err(FromSqlError::OutOfRange(other)),
        }))
    }
}
