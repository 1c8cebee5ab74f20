//! The end of a turn: the commit and its outcomes.

use logue_harness::Timestamp;
use logue_harness::store::{Lease, NewOutcome, OutcomeKind, StoreError, StoredOutcome};
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

use super::column::{Count, Id, Json, TimestampColumn, limit, position};
use super::error::SqliteResult;
use super::inbox::{self, HeadEntry};
use super::seal;
use super::session::{self, Head};
use super::suspension::{self, SuspensionRow};
use crate::encoding::optional;

/// A commit with serialised JSON.
pub(super) struct Change {
    pub(super) invocation_id: String,
    pub(super) expected_seq: u64,
    pub(super) messages: Vec<String>,
    pub(super) fields: Vec<(String, String)>,
    pub(super) schema_version: Option<String>,
    pub(super) end: Option<DispositionRow>,
    pub(super) now: Timestamp,
}

/// The disposition of the running entry.
pub(super) enum DispositionRow {
    Done {
        outcome: OutcomeRow,
        keep_journal: bool,
        keep_suspension: bool,
    },
    Suspended {
        outcome: OutcomeRow,
        waiting: SuspensionRow,
    },
    Requeue,
}

/// An outcome with a serialised body.
pub(super) struct OutcomeRow {
    kind: OutcomeKind,
    replies_from: u64,
    body: Option<String>,
}

impl OutcomeRow {
    pub(super) fn new(outcome: &NewOutcome) -> Result<Self, StoreError> {
        Ok(Self {
            kind: outcome.kind,
            replies_from: outcome.replies_from,
            body: optional(&outcome.body)?,
        })
    }
}

impl Change {
    /// Returns whether the commit changes the session's state.
    ///
    /// A turn that failed or was requeued before it changed anything does not.
    fn changes_state(&self) -> bool {
        let settles_only = match &self.end {
            None | Some(DispositionRow::Suspended { .. }) => false,
            Some(DispositionRow::Done { outcome, .. }) => outcome.kind != OutcomeKind::Completed,
            Some(DispositionRow::Requeue) => true,
        };
        !settles_only || !self.messages.is_empty() || !self.fields.is_empty()
    }
}

pub(super) fn commit(conn: &Connection, lease: &Lease, change: Change) -> SqliteResult<()> {
    let head = session::owned(conn, lease)?;
    if head.seq != change.expected_seq {
        return Err(StoreError::Conflict {
            session: lease.session.clone(),
            expected: change.expected_seq,
            found: head.seq,
        }
        .into());
    }
    let front = inbox::front(conn, &head)?.filter(|front| front.invocation.is_some());
    let fits = match &front {
        Some(front) => front.invocation.as_deref() == Some(&change.invocation_id),
        None => change.end.is_none(),
    };
    if !fits {
        return Err(inbox::not_running(&change.invocation_id).into());
    }

    let seq = append(conn, &head, &change)?;
    match (change.end, front) {
        (Some(DispositionRow::Requeue), Some(front)) => {
            conn.prepare_cached(
                "UPDATE entry SET invocation = NULL, cancel = NULL WHERE pos = ?1",
            )?
            .execute([front.place])?;
            seal::seal_entry(conn, front.place)?;
            drop_journal(conn, &head, change.invocation_id)?;
        }
        (
            Some(DispositionRow::Done {
                outcome,
                keep_journal,
                keep_suspension,
            }),
            Some(front),
        ) => {
            settle(conn, &head, &front, &outcome, seq, change.now)?;
            if front.resumes && !keep_suspension {
                suspension::end(conn, &change.invocation_id)?;
            }
            if !keep_journal {
                drop_journal(conn, &head, change.invocation_id)?;
            }
        }
        (Some(DispositionRow::Suspended { outcome, waiting }), Some(front)) => {
            settle(conn, &head, &front, &outcome, seq, change.now)?;
            if front.resumes {
                suspension::end(conn, &change.invocation_id)?;
            }
            suspension::begin(conn, &head, &change.invocation_id, waiting, change.now)?;
            drop_journal(conn, &head, change.invocation_id)?;
        }
        (_, None) | (None, _) => {}
    }
    Ok(())
}

/// Appends the messages, sets the fields, and returns the new length of the history.
fn append(conn: &Connection, head: &Head, change: &Change) -> SqliteResult<u64> {
    let mut seq = head.seq;
    let mut insert = conn.prepare_cached("INSERT INTO message VALUES (?1, ?2, row_sum(?1, ?2))")?;
    for message in &change.messages {
        insert.execute(params![head.range.at(seq)?, message])?;
        seq += 1;
    }
    let mut set = conn.prepare_cached(
        "INSERT INTO field VALUES (?1, ?2, ?3, row_sum(?1, ?2, ?3))
         ON CONFLICT DO UPDATE SET value = excluded.value, sum = excluded.sum",
    )?;
    for (name, value) in &change.fields {
        set.execute(params![head.sid, name, value])?;
    }
    conn.prepare_cached(
        "UPDATE session SET seq = ?2, has_state = has_state OR ?3,
             schema_version = ifnull(?4, schema_version), updated_at = max(updated_at, ?5)
         WHERE sid = ?1",
    )?
    .execute(params![
        head.sid,
        Count(seq),
        change.changes_state(),
        change.schema_version,
        TimestampColumn(change.now)
    ])?;
    seal::seal_session(conn, head.sid)?;
    Ok(seq)
}

fn settle(
    conn: &Connection,
    head: &Head,
    front: &HeadEntry,
    outcome: &OutcomeRow,
    seq: u64,
    now: Timestamp,
) -> SqliteResult<()> {
    conn.prepare_cached(
        "UPDATE entry SET cancel = NULL, kind = ?2, replies_from = ?3, replies_to = ?4,
             body = ?5, at = ?6 WHERE pos = ?1",
    )?
    .execute(params![
        front.place,
        Kind(outcome.kind),
        Count(outcome.replies_from),
        Count(seq),
        outcome.body,
        TimestampColumn(now)
    ])?;
    seal::seal_entry(conn, front.place)?;
    // The message is in the history now.
    if seq > head.seq && !front.resumes {
        conn.prepare_cached(
            "DELETE FROM work WHERE pos = ?1 AND json_extract(body, '$.kind') = 'message'",
        )?
        .execute([front.place])?;
    }
    conn.prepare_cached("UPDATE session SET cursor = cursor + 1 WHERE sid = ?1")?
        .execute([head.sid])?;
    seal::seal_session(conn, head.sid)
}

fn drop_journal(conn: &Connection, head: &Head, invocation_id: String) -> SqliteResult<()> {
    conn.prepare_cached("DELETE FROM note WHERE sid = ?1 AND invocation = ?2")?
        .execute(params![head.sid, Id(invocation_id)])?;
    Ok(())
}

/// The columns of an outcome.
const OUTCOME: &str = "SELECT pos, invocation, resumes, kind, replies_from, replies_to, body, at \
                       FROM entry";

pub(super) fn outcomes_since(
    conn: &Connection,
    session: &str,
    cursor: u64,
    most: usize,
) -> SqliteResult<Vec<StoredOutcome>> {
    let Some(head) = session::find(conn, session)?.filter(|head| cursor < head.cursor) else {
        return Ok(Vec::new());
    };
    let outcomes = conn
        .prepare_cached(&format!(
            "{OUTCOME} WHERE pos > ?1 AND pos <= ?2 ORDER BY pos LIMIT ?3"
        ))?
        .query_map(
            params![
                head.range.at(cursor)?,
                head.range.at(head.cursor)?,
                limit(most)
            ],
            read_outcome,
        )?
        .collect::<Result<_, _>>()?;
    Ok(outcomes)
}

pub(super) fn outcome_of(
    conn: &Connection,
    session: &str,
    entry: u64,
) -> SqliteResult<Option<StoredOutcome>> {
    let Some(head) = session::find(conn, session)?.filter(|head| entry <= head.cursor) else {
        return Ok(None);
    };
    let outcome = conn
        .prepare_cached(&format!("{OUTCOME} WHERE pos = ?1"))?
        .query_row([head.range.at(entry)?], read_outcome)
        .optional()?;
    Ok(outcome)
}

fn read_outcome(row: &Row<'_>) -> rusqlite::Result<StoredOutcome> {
    let entry = position(row.get(0)?);
    let Kind(kind) = row.get(3)?;
    Ok(StoredOutcome {
        cursor: entry,
        entry,
        invocation_id: row.get::<_, Id>(1)?.0,
        resumed: row.get(2)?,
        kind,
        replies_from: row.get::<_, Count>(4)?.0,
        replies_to: row.get::<_, Count>(5)?.0,
        body: row
            .get::<_, Option<Json<Value>>>(6)?
            .map_or(Value::Null, |json| json.0),
        at: row.get::<_, TimestampColumn>(7)?.0,
    })
}

/// The outcome of an entry, as a number.
pub(super) struct Kind(pub(super) OutcomeKind);

impl ToSql for Kind {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let number = match self.0 {
            OutcomeKind::Completed => 0,
            OutcomeKind::Errored => 1,
            OutcomeKind::Suspended => 2,
            OutcomeKind::Cancelled => 3,
            _ => {
                return Err(rusqlite::Error::ToSqlConversionFailure(
                    "an outcome of a kind that this store does not know".into(),
                ));
            }
        };
        Ok(number.into())
    }
}

impl FromSql for Kind {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(Self(match value.as_i64()? {
            0 => OutcomeKind::Completed,
            1 => OutcomeKind::Errored,
            2 => OutcomeKind::Suspended,
            3 => OutcomeKind::Cancelled,
            other => return Err(FromSqlError::OutOfRange(other)),
        }))
    }
}
