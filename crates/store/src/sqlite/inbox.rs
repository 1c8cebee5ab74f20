//! The inbox: entries, and the running one.

use logue_harness::Timestamp;
use logue_harness::store::{
    CancelMode, ClaimedEntry, EnqueueResult, EntryPayload, EntryState, InboxEntry, JournalNote,
    Lease, StoreError,
};
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

use super::column::{Count, Id, Json, TimestampColumn, position};
use super::error::SqliteResult;
use super::seal::{self, SUSPENSION};
use super::session::{self, Head};
use super::sound;

/// An entry to queue, with its serialised work.
pub(super) struct Arrival {
    pub(super) work: String,
    /// Whether the entry resumes an invocation.
    pub(super) resumes: bool,
    pub(super) key: Option<String>,
    pub(super) digest: Option<String>,
    /// The settled entry that this one tries again.
    pub(super) retries: Option<u64>,
    pub(super) only_if_idle: bool,
    /// The number of settled entries that is required.
    pub(super) only_after: Option<u64>,
    /// The time of creation that the session must have.
    pub(super) only_created_at: Option<Timestamp>,
    pub(super) cancel: Option<CancelMode>,
    pub(super) now: Timestamp,
}

/// The running or next entry.
pub(super) struct HeadEntry {
    pub(super) place: i64,
    /// The invocation of a running entry.
    pub(super) invocation: Option<String>,
    pub(super) resumes: bool,
    pub(super) cancel: Option<CancelMode>,
}

pub(super) fn enqueue(
    conn: &Connection,
    session: &str,
    mut arrival: Arrival,
) -> SqliteResult<EnqueueResult> {
    if let Some(at) = arrival.only_created_at
        && session::created_at(conn, session)? != Some(at)
    {
        return Ok(EnqueueResult::OtherSession);
    }
    let head = session::find_or_create(conn, session, arrival.now)?;
    // A damaged entry may have had this key. One after a missing entry would never run.
    sound::check_entries(conn, head.sid, session)?;
    let known = match &arrival.key {
        Some(key) => with_key(conn, &head, key)?,
        None => None,
    };
    if let Some((entry, bound)) = known {
        if bound.is_some() && arrival.digest.is_some() && bound != arrival.digest {
            return Ok(EnqueueResult::OtherWork { entry });
        }
        if arrival.retries != Some(entry) || entry > head.cursor {
            return Ok(EnqueueResult::Entry {
                entry,
                is_new: false,
                ahead: entry.saturating_sub(head.cursor + 1),
            });
        }
    } else if let Some(retried) = arrival.retries
        && (retried > head.cursor
            || (retried != head.entries && !is_signalled(conn, &head, retried)?))
    {
        return Ok(EnqueueResult::Superseded);
    }
    let is_later = arrival.only_after.is_some_and(|after| after != head.cursor);
    let is_only = arrival.only_if_idle || arrival.only_after.is_some();
    if is_later || is_only && head.front().is_some() {
        return Ok(EnqueueResult::Busy);
    }
    if let Some(mode) = arrival.cancel {
        cancel(conn, &head, mode)?;
    }
    let retried = arrival.retries;
    if let Some(retried) = retried {
        (arrival.key, arrival.digest) = take_key(conn, &head, retried)?;
    }
    let entry = put(conn, &head, arrival)?;
    if let Some(retried) = retried {
        follow_signal(conn, &head, retried, entry)?;
    }
    Ok(EnqueueResult::Entry {
        entry,
        is_new: true,
        ahead: entry.saturating_sub(head.cursor + 1),
    })
}

/// Returns whether an entry is the signal of a suspension.
fn is_signalled(conn: &Connection, head: &Head, entry: u64) -> SqliteResult<bool> {
    let found = conn
        .prepare_cached("SELECT num FROM suspension WHERE sid = ?1 AND entry = ?2 LIMIT 1")?
        .exists(params![head.sid, Count(entry)])?;
    Ok(found)
}

/// Leads the signals that became an entry to a later one.
fn follow_signal(conn: &Connection, head: &Head, from: u64, to: u64) -> SqliteResult<()> {
    conn.prepare_cached("UPDATE suspension SET entry = ?3 WHERE sid = ?1 AND entry = ?2")?
        .execute(params![head.sid, Count(from), Count(to)])?;
    let values: [&dyn ToSql; 2] = [&head.sid, &Count(to)];
    seal::seal(conn, SUSPENSION, "sid = ?1 AND entry = ?2", &values)
}

/// Appends an entry.
pub(super) fn put(conn: &Connection, head: &Head, arrival: Arrival) -> SqliteResult<u64> {
    let entry = head.entries + 1;
    let place = head.range.at(entry)?;
    conn.prepare_cached(
        "INSERT INTO entry (pos, resumes, key, digest, accepted_at) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![
        place,
        arrival.resumes,
        arrival.key.as_ref().map(|key| Id(key.clone())),
        arrival.digest.filter(|_| arrival.key.is_some()),
        TimestampColumn(arrival.now)
    ])?;
    conn.prepare_cached("INSERT INTO work VALUES (?1, ?2, row_sum(?1, ?2))")?
        .execute(params![place, arrival.work])?;
    conn.prepare_cached(
        "UPDATE session SET entries = ?2, updated_at = max(updated_at, ?3) WHERE sid = ?1",
    )?
    .execute(params![
        head.sid,
        Count(entry),
        TimestampColumn(arrival.now)
    ])?;
    seal::seal_entry(conn, place)?;
    seal::seal_session(conn, head.sid)?;
    Ok(entry)
}

pub(super) fn request_cancel_of(
    conn: &Connection,
    session: &str,
    entry: u64,
    mode: CancelMode,
) -> SqliteResult<bool> {
    let Some(head) = session::find(conn, session)? else {
        return Ok(false);
    };
    head.location().check(session)?;
    if entry <= head.cursor || entry > head.entries {
        return Ok(false);
    }
    let place = head.range.at(entry)?;
    conn.prepare_cached("UPDATE entry SET cancel = ?2 WHERE pos = ?1")?
        .execute(params![place, Mode(mode)])?;
    seal::seal_entry(conn, place)?;
    Ok(true)
}

pub(super) fn request_cancel(
    conn: &Connection,
    session: &str,
    mode: CancelMode,
) -> SqliteResult<bool> {
    match session::find(conn, session)? {
        Some(head) => {
            head.location().check(session)?;
            cancel(conn, &head, mode)
        }
        None => Ok(false),
    }
}

pub(super) fn front(conn: &Connection, head: &Head) -> SqliteResult<Option<HeadEntry>> {
    let Some(entry) = head.front() else {
        return Ok(None);
    };
    let place = head.range.at(entry)?;
    let front = conn
        .prepare_cached("SELECT invocation, resumes, cancel FROM entry WHERE pos = ?1")?
        .query_row([place], |row| {
            Ok(HeadEntry {
                place,
                invocation: row.get::<_, Option<Id>>(0)?.map(|id| id.0),
                resumes: row.get(1)?,
                cancel: row.get::<_, Option<Mode>>(2)?.map(|mode| mode.0),
            })
        })
        .optional()?;
    match front {
        Some(front) => Ok(Some(front)),
        None => Err(missing_entry(entry).into()),
    }
}

/// Returns the error of an entry that is counted and missing: the inbox cannot continue without it.
fn missing_entry(entry: u64) -> StoreError {
    StoreError::Damaged(format!(
        "the entry {entry} of the inbox is missing; repair the store, or restore a backup"
    ))
}

/// Returns the running entry, if it belongs to this invocation.
pub(super) fn running(
    conn: &Connection,
    head: &Head,
    invocation_id: &str,
) -> SqliteResult<HeadEntry> {
    let running = front(conn, head)?
        .filter(|front| front.invocation.as_deref() == Some(invocation_id))
        .ok_or_else(|| not_running(invocation_id))?;
    Ok(running)
}

pub(super) fn not_running(invocation_id: &str) -> StoreError {
    StoreError::NotFound {
        what: format!("running invocation `{invocation_id}`"),
    }
}

pub(super) fn claim_next(
    conn: &Connection,
    lease: &Lease,
    invocation_id: String,
) -> SqliteResult<Option<ClaimedEntry>> {
    let head = session::owned(conn, lease)?;
    let Some(front) = front(conn, &head)? else {
        return Ok(None);
    };
    let Some(mut entry) = conn
        .prepare_cached(&format!("{ENTRY} WHERE entry.pos = ?1"))?
        .query_row([front.place], |row| read_entry(row, head.cursor))
        .optional()?
    else {
        return Ok(None);
    };
    let Some(invocation) = front.invocation else {
        let own = entry.work.as_ref().and_then(EntryPayload::invocation_id);
        let own = own.map_or(invocation_id, str::to_owned);
        entry.state = EntryState::Running;
        entry.invocation_id = Some(own.clone());
        conn.prepare_cached("UPDATE entry SET invocation = ?2 WHERE pos = ?1")?
            .execute(params![front.place, Id(own)])?;
        seal::seal_entry(conn, front.place)?;
        return Ok(Some(ClaimedEntry {
            entry,
            recovered: false,
            notes: Vec::new(),
            cancel: front.cancel,
        }));
    };
    let notes = notes_of(conn, &head, invocation)?;
    Ok(Some(ClaimedEntry {
        entry,
        recovered: true,
        notes: notes.into_iter().map(|note| note.note).collect(),
        cancel: front.cancel,
    }))
}

pub(super) fn entry(
    conn: &Connection,
    session: &str,
    entry: u64,
) -> SqliteResult<Option<InboxEntry>> {
    let Some(head) = session::find(conn, session)?.filter(|head| entry <= head.entries) else {
        return Ok(None);
    };
    let found = conn
        .prepare_cached(&format!("{ENTRY} WHERE entry.pos = ?1"))?
        .query_row([head.range.at(entry)?], |row| read_entry(row, head.cursor))
        .optional()?;
    Ok(found)
}

pub(super) fn entry_with_key(
    conn: &Connection,
    session: &str,
    key: &str,
) -> SqliteResult<Option<InboxEntry>> {
    let Some(head) = session::find(conn, session)? else {
        return Ok(None);
    };
    match with_key(conn, &head, key)? {
        Some((found, _)) => entry(conn, session, found),
        None => Ok(None),
    }
}

pub(super) fn inbox(conn: &Connection, session: &str) -> SqliteResult<Vec<InboxEntry>> {
    let Some(head) = session::find(conn, session)? else {
        return Ok(Vec::new());
    };
    let sql = format!("{ENTRY} WHERE entry.pos > ?1 AND entry.pos <= ?2 ORDER BY entry.pos");
    let places = [head.range.at(head.cursor)?, head.range.last()];
    let entries = conn
        .prepare_cached(&sql)?
        .query_map(places, |row| read_entry(row, head.cursor))?
        .collect::<Result<_, _>>()?;
    Ok(entries)
}

pub(super) fn journal(
    conn: &Connection,
    lease: &Lease,
    invocation_id: String,
    notes: &[String],
) -> SqliteResult<()> {
    let head = session::owned(conn, lease)?;
    running(conn, &head, &invocation_id)?;
    let invocation = Id(invocation_id);
    let next: i64 = conn
        .prepare_cached(
            "SELECT ifnull(max(seq) + 1, 0) FROM note WHERE sid = ?1 AND invocation = ?2",
        )?
        .query_row(params![head.sid, invocation], |row| row.get(0))?;
    let mut insert =
        conn.prepare_cached("INSERT INTO note VALUES (?1, ?2, ?3, ?4, row_sum(?1, ?2, ?3, ?4))")?;
    for (seq, note) in (next..).zip(notes) {
        insert.execute(params![head.sid, invocation, seq, note])?;
    }
    Ok(())
}

pub(super) fn notes(
    conn: &Connection,
    session: &str,
    invocation_id: String,
) -> SqliteResult<Vec<JournalNote>> {
    match session::find(conn, session)? {
        Some(head) => notes_of(conn, &head, invocation_id),
        None => Ok(Vec::new()),
    }
}

pub(super) fn notes_of(
    conn: &Connection,
    head: &Head,
    invocation: String,
) -> SqliteResult<Vec<JournalNote>> {
    let notes = conn
        .prepare_cached(
            "SELECT seq, body FROM note WHERE sid = ?1 AND invocation = ?2 ORDER BY seq",
        )?
        .query_map(params![head.sid, Id(invocation)], |row| {
            let Count(seq) = row.get(0)?;
            let Json::<Value>(note) = row.get(1)?;
            Ok(JournalNote { seq, note })
        })?
        .collect::<Result<_, _>>()?;
    Ok(notes)
}

fn cancel(conn: &Connection, head: &Head, mode: CancelMode) -> SqliteResult<bool> {
    let Some(entry) = head.front() else {
        return Ok(false);
    };
    let asked = conn
        .prepare_cached("UPDATE entry SET cancel = ?2 WHERE pos = ?1 AND invocation IS NOT NULL")?
        .execute(params![head.range.at(entry)?, Mode(mode)])?;
    if asked > 0 {
        seal::seal_entry(conn, head.range.at(entry)?)?;
    }
    Ok(asked > 0)
}

/// Finds the entry of a key, and the hash to which the key is bound.
fn with_key(
    conn: &Connection,
    head: &Head,
    key: &str,
) -> SqliteResult<Option<(u64, Option<String>)>> {
    let found = conn
        .prepare_cached("SELECT pos, digest FROM entry WHERE pos >> 32 = ?1 AND key = ?2")?
        .query_row(params![head.sid, Id(key.to_owned())], |row| {
            Ok((position(row.get(0)?), row.get(1)?))
        })
        .optional()?;
    Ok(found)
}

/// Removes the key of an entry, and returns it with its hash.
fn take_key(
    conn: &Connection,
    head: &Head,
    entry: u64,
) -> SqliteResult<(Option<String>, Option<String>)> {
    let place = head.range.at(entry)?;
    let taken = conn
        .prepare_cached("SELECT key, digest FROM entry WHERE pos = ?1")?
        .query_row([place], |row| {
            Ok((row.get::<_, Option<Id>>(0)?.map(|id| id.0), row.get(1)?))
        })
        .optional()?;
    conn.prepare_cached("UPDATE entry SET key = NULL, digest = NULL WHERE pos = ?1")?
        .execute([place])?;
    seal::seal_entry(conn, place)?;
    Ok(taken.unwrap_or_default())
}

/// The columns of an entry.
const ENTRY: &str = "SELECT entry.pos, key, invocation, accepted_at, work.body \
                     FROM entry LEFT JOIN work ON work.pos = entry.pos";

fn read_entry(row: &Row<'_>, cursor: u64) -> rusqlite::Result<InboxEntry> {
    let entry = position(row.get(0)?);
    let invocation: Option<Id> = row.get(2)?;
    let state = if entry <= cursor {
        EntryState::Settled
    } else if invocation.is_some() {
        EntryState::Running
    } else {
        EntryState::Waiting
    };
    Ok(InboxEntry {
        entry,
        work: row
            .get::<_, Option<Json<EntryPayload>>>(4)?
            .map(|json| json.0),
        key: row.get::<_, Option<Id>>(1)?.map(|id| id.0),
        state,
        invocation_id: invocation.map(|id| id.0),
        accepted_at: row.get::<_, TimestampColumn>(3)?.0,
    })
}

/// The cancel mode of an entry, as a number.
pub(super) struct Mode(pub(super) CancelMode);

impl ToSql for Mode {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.0 {
            CancelMode::Interrupt => 0,
            CancelMode::Rollback => 1,
        }
        .into())
    }
}

impl FromSql for Mode {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_i64()? {
            0 => Ok(Self(CancelMode::Interrupt)),
            1 => Ok(Self(CancelMode::Rollback)),
            other => Err(FromSqlError::OutOfRange(other)),
        }
    }
}
