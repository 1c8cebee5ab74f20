//! Complete records of sessions: reading one, writing one, and the marks of a move.

use std::path::Path;

use logue_harness::Timestamp;
use logue_harness::store::{
    AuditEntry, EntryPayload, EntryRecord, ImportResult, Lease, OutcomeRecord, QuarantineRecord,
    RecordArrival, RecordDigest, RecordHash, RecordHead, RecordPart, RecordSink, RecordSource,
    SessionLocation, StoreError, SuspensionRecord, check_session_id,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde_json::Value;

use super::column::{Count, Id, Json, Range, TimestampColumn, position};
use super::error::SqliteResult;
use super::inbox::Mode;
use super::message_body::MessageBody;
use super::session::{self, Head};
use super::suspension::Status;
use super::turn::Kind;
use super::{inbox, seal, suspension, verify};
use crate::encoding::{optional, stored_work, written, written_message};

/// The file of the store, and a session in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    path: &'a Path,
    session: &'a str,
}

impl<'a> Place<'a> {
    pub(super) const fn new(path: &'a Path, session: &'a str) -> Self {
        Self { path, session }
    }
}

pub(super) fn location(conn: &Connection, session: &str) -> SqliteResult<Option<SessionLocation>> {
    Ok(session::find(conn, session)?.map(|head| head.location()))
}

/// Emits the record of a session. Returns `false` if there is none.
///
/// # Errors
/// Returns [`StoreError::Damaged`] if a check finds a fault in any of its rows.
pub(super) fn export(
    conn: &Connection,
    place: Place<'_>,
    sink: &mut dyn RecordSink,
) -> SqliteResult<bool> {
    let Some(head) = session::find(conn, place.session)? else {
        return Ok(false);
    };
    let report = verify::verify(conn, place.path, Some(place.session))?;
    if let Some(fault) = report.faults.first() {
        return Err(StoreError::Damaged(fault.to_string()).into());
    }
    sink.put(RecordPart::Head(head_of(conn, place.session)?))?;
    for_each(
        conn,
        "SELECT name, value FROM field WHERE sid = ?1 ORDER BY name",
        head.sid,
        sink,
        |row| {
            let Json(value) = row.get(1)?;
            Ok(RecordPart::Field {
                name: row.get(0)?,
                value,
            })
        },
    )?;
    for_each(
        conn,
        "SELECT name, value FROM label WHERE sid = ?1 ORDER BY name",
        head.sid,
        sink,
        |row| {
            let Json(value) = row.get(1)?;
            Ok(RecordPart::Label {
                name: row.get(0)?,
                value,
            })
        },
    )?;
    for_each(
        conn,
        "SELECT pos, body FROM message WHERE pos BETWEEN ?1 << 32 AND ?1 << 32 | 0xffffffff
         ORDER BY pos",
        head.sid,
        sink,
        |row| {
            Ok(RecordPart::Message {
                seq: position(row.get(0)?),
                message: row.get::<_, MessageBody>(1)?.0,
            })
        },
    )?;
    for_each(conn, ENTRIES, head.sid, sink, |row| {
        Ok(RecordPart::Entry(read_entry(row)?))
    })?;
    export_notes(conn, &head, sink)?;
    for_each(conn, SUSPENSIONS, head.sid, sink, |row| {
        Ok(RecordPart::Suspension(read_suspension(row)?))
    })?;
    for_each(
        conn,
        "SELECT pos, invocation, body, at FROM audit
         WHERE pos BETWEEN ?1 << 32 AND ?1 << 32 | 0xffffffff ORDER BY pos",
        head.sid,
        sink,
        |row| {
            let Json(record) = row.get(2)?;
            Ok(RecordPart::Audit(AuditEntry {
                seq: position(row.get(0)?),
                invocation_id: row.get::<_, Id>(1)?.0,
                record,
                at: row.get::<_, TimestampColumn>(3)?.0,
            }))
        },
    )?;
    for_each(
        conn,
        "SELECT record, position, reason, content, at FROM quarantine
         WHERE session = (SELECT id FROM session WHERE sid = ?1) ORDER BY num",
        head.sid,
        sink,
        |row| {
            Ok(RecordPart::Quarantined(QuarantineRecord {
                record: row.get(0)?,
                position: row.get(1)?,
                reason: row.get(2)?,
                content: row.get(3)?,
                at: row.get::<_, TimestampColumn>(4)?.0,
            }))
        },
    )?;
    Ok(true)
}

pub(super) fn import(
    conn: &Connection,
    place: Place<'_>,
    arrival: &RecordArrival,
    record: &mut dyn RecordSource,
) -> SqliteResult<ImportResult> {
    record.rewind()?;
    let Some(RecordPart::Head(head)) = record.next_part()? else {
        return Err(StoreError::Damaged("a record without its head".to_owned()).into());
    };
    let known = session::find(conn, place.session)?;
    if let Some(known) = &known {
        let location = known.location();
        if !location.permits_arrival(&arrival.from) {
            if matches!(location, SessionLocation::Moved { .. }) {
                return Ok(ImportResult::Elsewhere);
            }
            return compare(conn, place, arrival.hash, head.epoch);
        }
        session::delete(conn, place.session)?;
        conn.prepare_cached("DELETE FROM quarantine WHERE session = ?1")?
            .execute([place.session])?;
    } else {
        check_session_id(place.session)?;
        // What an earlier session of that id left stays, and is not a part of this one.
        conn.prepare_cached("UPDATE quarantine SET session = NULL WHERE session = ?1")?
            .execute([place.session])?;
    }
    super::event_log::forget(place.path, place.session)?;

    let sid = insert_session(conn, &head, place.session, &arrival.from)?;
    let range = Range::from_session(sid)?;
    while let Some(part) = record.next_part()? {
        insert(conn, (sid, range), place.session, part)?;
    }
    seal::seal_session(conn, sid)?;
    if hash(conn, place)? != Some(arrival.hash) {
        let problem = format!("the copy of `{}` differs from its source", place.session);
        return Err(StoreError::Damaged(problem).into());
    }
    Ok(ImportResult::Arriving)
}

pub(super) fn mark_moved(
    conn: &Connection,
    place: Place<'_>,
    lease: &Lease,
    expected: RecordHash,
    to: &str,
) -> SqliteResult<bool> {
    let head = session::owned(conn, lease)?;
    if hash(conn, place)? != Some(expected) {
        return Ok(false);
    }
    conn.prepare_cached(
        "UPDATE session SET epoch = epoch + 1, owner = ?2, until = ?3 WHERE sid = ?1",
    )?
    .execute(params![
        head.sid,
        SessionLocation::moved_owner(to),
        TimestampColumn(NEVER)
    ])?;
    Ok(true)
}

pub(super) fn mark_arrived(conn: &Connection, session: &str) -> SqliteResult<bool> {
    let head = session::existing(conn, session)?;
    if !matches!(head.location(), SessionLocation::Arriving { .. }) {
        return Ok(false);
    }
    conn.prepare_cached("UPDATE session SET owner = NULL, until = 0 WHERE sid = ?1")?
        .execute([head.sid])?;
    Ok(true)
}

/// The end of a lease that marks a location.
pub(super) const NEVER: Timestamp = Timestamp(u64::MAX);

/// Compares a session that stays with the record that was to become one.
fn compare(
    conn: &Connection,
    place: Place<'_>,
    expected: RecordHash,
    epoch: u64,
) -> SqliteResult<ImportResult> {
    if hash(conn, place)? != Some(expected) {
        return Ok(ImportResult::Different);
    }
    // The owner of a lease keeps its epoch.
    conn.prepare_cached(
        "UPDATE session SET epoch = max(epoch, ?2) WHERE id = ?1 AND owner IS NULL",
    )?
    .execute(params![place.session, Count(epoch)])?;
    Ok(ImportResult::Equal)
}

fn hash(conn: &Connection, place: Place<'_>) -> SqliteResult<Option<RecordHash>> {
    let mut digest = RecordDigest::default();
    export(conn, place, &mut digest)?;
    Ok(digest.hash())
}

fn head_of(conn: &Connection, session: &str) -> SqliteResult<RecordHead> {
    let head = conn
        .prepare_cached(
            "SELECT epoch, has_state, schema_version, seq, entries, cursor, created_at, updated_at
             FROM session WHERE id = ?1",
        )?
        .query_row([session], |row| {
            Ok(RecordHead {
                session: session.to_owned(),
                epoch: row.get::<_, Count>(0)?.0,
                has_state: row.get(1)?,
                schema_version: row.get(2)?,
                messages: row.get::<_, Count>(3)?.0,
                entries: row.get::<_, Count>(4)?.0,
                settled: row.get::<_, Count>(5)?.0,
                created_at: row.get::<_, TimestampColumn>(6)?.0,
                updated_at: row.get::<_, TimestampColumn>(7)?.0,
            })
        })?;
    Ok(head)
}

/// Emits a part for each row of a session.
fn for_each(
    conn: &Connection,
    sql: &str,
    sid: i64,
    sink: &mut dyn RecordSink,
    part: impl Fn(&Row<'_>) -> rusqlite::Result<RecordPart>,
) -> SqliteResult<()> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([sid])?;
    while let Some(row) = rows.next()? {
        sink.put(part(row)?)?;
    }
    Ok(())
}

/// Emits the notes. Their order is that of the texts of the ids, not of the columns.
fn export_notes(conn: &Connection, head: &Head, sink: &mut dyn RecordSink) -> SqliteResult<()> {
    let mut invocations: Vec<String> = conn
        .prepare_cached("SELECT DISTINCT invocation FROM note WHERE sid = ?1")?
        .query_map([head.sid], |row| Ok(row.get::<_, Id>(0)?.0))?
        .collect::<Result<_, _>>()?;
    invocations.sort_unstable();
    for invocation_id in invocations {
        for found in inbox::notes_of(conn, head, invocation_id.clone())? {
            sink.put(RecordPart::Note {
                invocation_id: invocation_id.clone(),
                seq: found.seq,
                note: found.note,
            })?;
        }
    }
    Ok(())
}

const ENTRIES: &str = "SELECT entry.pos, resumes, key, digest, invocation, cancel, accepted_at, \
                       work.body, kind, replies_from, replies_to, entry.body, at \
                       FROM entry LEFT JOIN work ON work.pos = entry.pos \
                       WHERE entry.pos BETWEEN ?1 << 32 AND ?1 << 32 | 0xffffffff \
                       ORDER BY entry.pos";

fn read_entry(row: &Row<'_>) -> rusqlite::Result<EntryRecord> {
    let id = |index| -> rusqlite::Result<Option<String>> {
        Ok(row.get::<_, Option<Id>>(index)?.map(|id| id.0))
    };
    let work: Option<Json<EntryPayload>> = row.get(7)?;
    let outcome = match row.get::<_, Option<Kind>>(8)? {
        Some(Kind(kind)) => Some(OutcomeRecord {
            kind,
            replies_from: row.get::<_, Count>(9)?.0,
            replies_to: row.get::<_, Count>(10)?.0,
            body: row
                .get::<_, Option<Json<Value>>>(11)?
                .map_or(Value::Null, |json| json.0),
            at: row.get::<_, TimestampColumn>(12)?.0,
        }),
        None => None,
    };
    Ok(EntryRecord {
        entry: position(row.get(0)?),
        resumes: row.get(1)?,
        key: id(2)?,
        digest: row.get(3)?,
        invocation_id: id(4)?,
        cancel: row.get::<_, Option<Mode>>(5)?.map(|mode| mode.0),
        accepted_at: row.get::<_, TimestampColumn>(6)?.0,
        work: work.map(|json| json.0),
        outcome,
    })
}

const SUSPENSIONS: &str = "SELECT invocation, signal_id, metadata, status, entry, record, since \
                           FROM suspension WHERE sid = ?1 ORDER BY num";

fn read_suspension(row: &Row<'_>) -> rusqlite::Result<SuspensionRecord> {
    let json = |index| -> rusqlite::Result<Option<Value>> {
        let json: Option<Json<Value>> = row.get(index)?;
        Ok(json.map(|json| json.0))
    };
    Ok(SuspensionRecord {
        invocation_id: row.get::<_, Id>(0)?.0,
        signal_id: row.get::<_, Id>(1)?.0,
        metadata: json(2)?,
        status: row.get::<_, Status>(3)?.0,
        entry: row.get::<_, Option<Count>>(4)?.map(|count| count.0),
        record: json(5)?.unwrap_or(Value::Null),
        since: row.get::<_, TimestampColumn>(6)?.0,
    })
}

/// Inserts the row of an arriving session, and returns its number.
fn insert_session(
    conn: &Connection,
    head: &RecordHead,
    session: &str,
    from: &str,
) -> SqliteResult<i64> {
    conn.prepare_cached(
        "INSERT INTO session (id, seq, entries, cursor, epoch, owner, until, has_state,
             schema_version, created_at, updated_at)
         VALUES (?1, ?2, ?3, ?4,
             max(?5, ifnull((SELECT value FROM meta WHERE name = 'epochs'), 0)) + 1,
             ?6, ?7, ?8, ?9, ?10, ?11)",
    )?
    .execute(params![
        session,
        Count(head.messages),
        Count(head.entries),
        Count(head.settled),
        Count(head.epoch),
        SessionLocation::arriving_owner(from),
        TimestampColumn(NEVER),
        head.has_state,
        head.schema_version,
        TimestampColumn(head.created_at),
        TimestampColumn(head.updated_at),
    ])?;
    Ok(conn.last_insert_rowid())
}

fn insert(
    conn: &Connection,
    (sid, range): (i64, Range),
    session: &str,
    part: RecordPart,
) -> SqliteResult<()> {
    match part {
        RecordPart::Head(_) => {}
        RecordPart::Field { name, value } => {
            conn.prepare_cached("INSERT INTO field VALUES (?1, ?2, ?3, row_sum(?1, ?2, ?3))")?
                .execute(params![sid, name, written(&value)?])?;
        }
        RecordPart::Label { name, value } => {
            conn.prepare_cached("INSERT INTO label VALUES (?1, ?2, ?3, row_sum(?1, ?2, ?3))")?
                .execute(params![sid, name, written(&value)?])?;
        }
        RecordPart::Message { seq, message } => {
            conn.prepare_cached("INSERT INTO message VALUES (?1, ?2, row_sum(?1, ?2))")?
                .execute(params![range.at(seq)?, written_message(&message)?])?;
        }
        RecordPart::Entry(entry) => insert_entry(conn, range, entry)?,
        RecordPart::Note {
            invocation_id,
            seq,
            note,
        } => {
            conn.prepare_cached(
                "INSERT INTO note VALUES (?1, ?2, ?3, ?4, row_sum(?1, ?2, ?3, ?4))",
            )?
            .execute(params![sid, Id(invocation_id), Count(seq), written(&note)?])?;
        }
        RecordPart::Suspension(one) => insert_suspension(conn, sid, one)?,
        RecordPart::Audit(entry) => {
            conn.prepare_cached(
                "INSERT INTO audit VALUES (?1, ?2, ?3, ?4, row_sum(?1, ?2, ?3, ?4))",
            )?
            .execute(params![
                range.at(entry.seq)?,
                Id(entry.invocation_id),
                written(&entry.record)?,
                TimestampColumn(entry.at)
            ])?;
        }
        RecordPart::Quarantined(one) => {
            conn.prepare_cached(
                "INSERT INTO quarantine (session, record, position, reason, content, at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                session,
                one.record,
                one.position,
                one.reason,
                one.content,
                TimestampColumn(one.at)
            ])?;
        }
    }
    Ok(())
}

fn insert_entry(conn: &Connection, range: Range, entry: EntryRecord) -> SqliteResult<()> {
    let place = range.at(entry.entry)?;
    let outcome = entry.outcome.as_ref();
    let body = outcome.map(|outcome| optional(&outcome.body)).transpose()?;
    conn.prepare_cached(
        "INSERT INTO entry (pos, resumes, key, digest, invocation, cancel, accepted_at, kind,
             replies_from, replies_to, body, at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    )?
    .execute(params![
        place,
        entry.resumes,
        entry.key.map(Id),
        entry.digest,
        entry.invocation_id.map(Id),
        entry.cancel.map(Mode),
        TimestampColumn(entry.accepted_at),
        outcome.map(|outcome| Kind(outcome.kind)),
        outcome.map(|outcome| Count(outcome.replies_from)),
        outcome.map(|outcome| Count(outcome.replies_to)),
        body.flatten(),
        outcome.map(|outcome| TimestampColumn(outcome.at)),
    ])?;
    seal::seal_entry(conn, place)?;
    if let Some(work) = &entry.work {
        conn.prepare_cached("INSERT INTO work VALUES (?1, ?2, row_sum(?1, ?2))")?
            .execute(params![place, stored_work(work)?])?;
    }
    Ok(())
}

fn insert_suspension(conn: &Connection, sid: i64, one: SuspensionRecord) -> SqliteResult<()> {
    let owner: Option<i64> = conn
        .prepare_cached(
            "SELECT sid FROM suspension WHERE invocation = ?1 ORDER BY num DESC LIMIT 1",
        )?
        .query_row([Id(one.invocation_id.clone())], |row| row.get(0))
        .optional()?;
    if owner.is_some_and(|owner| owner != sid) {
        return Err(StoreError::Exists {
            what: format!("a suspension of `{}`", one.invocation_id),
        }
        .into());
    }
    conn.prepare_cached(
        "INSERT INTO suspension (invocation, sid, signal_id, metadata, status, entry, record, since)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?
    .execute(params![
        Id(one.invocation_id),
        sid,
        Id(one.signal_id),
        one.metadata.as_ref().map(written).transpose()?,
        Status(one.status),
        one.entry.map(Count),
        optional(&one.record)?,
        TimestampColumn(one.since)
    ])?;
    suspension::seal_row(conn, conn.last_insert_rowid())
}
