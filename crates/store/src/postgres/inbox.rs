//! The inbox: entries, the running one and its journal.

use logue_harness::store::{
    CancelMode, ClaimedEntry, EnqueueResult, EntryPayload, EntryState, InboxEntry, JournalNote,
    Lease, NewEntry, StoreError,
};
use serde_json::Value;
use tokio_postgres::Row;

use super::call::Call;
use super::column::{count, get, id, position, read_count, read_id, read_time, time};
use super::error::damaged;
use super::lease::refusal;
use crate::encoding::{parsed, stored_work, written};

/// Calls the function with its session and the flag for a repetition.
macro_rules! enqueuing {
    ($session:literal, $is_again:literal) => {
        concat!(
            "logue.enqueue(",
            $session,
            ", $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, ",
            $is_again,
            ")"
        )
    };
}

pub(super) fn enqueue(session: &str, entry: NewEntry) -> Result<Call, StoreError> {
    let is_keyed = entry.key.is_some();
    let call = match entry.only_created_at {
        None => Call::new(concat!("SELECT * FROM ", enqueuing!("$1", "$12"))),
        // The row is locked before the function begins, so the session cannot be replaced meanwhile.
        Some(_) => Call::new(concat!(
            "SELECT e.* FROM (SELECT s.id FROM logue.session s WHERE ",
            of_session!(),
            " AND s.created_at = $12 FOR UPDATE) AS own, LATERAL ",
            enqueuing!("own.id", "$13"),
            " AS e"
        )),
    };
    let call = call
        .step()
        .bytes(session.as_bytes().to_vec())
        .text(stored_work(&entry.work)?)
        .maybe_bytes(entry.work.invocation_id().map(id))
        .flag(matches!(entry.work, EntryPayload::Resume { .. }))
        .maybe_bytes(entry.key.as_deref().map(id))
        .maybe_bytes(entry.digest.map(String::into_bytes))
        .maybe_number(entry.retries.map(position))
        .flag(entry.only_if_idle)
        .maybe_number(entry.only_after.map(count))
        .maybe_small(entry.cancel.map(mode))
        .number(time(entry.now))
        .flagged()
        .repeated_if(is_keyed);
    Ok(match entry.only_created_at {
        None => call,
        Some(at) => call.number(time(at)),
    })
}

/// Reads the result, which has no row if the required session is missing.
pub(super) fn enqueued(
    session: &str,
    rows: &[Row],
    is_bound: bool,
) -> Result<EnqueueResult, StoreError> {
    let row = match rows {
        [row] => row,
        [] if is_bound => return Ok(EnqueueResult::OtherSession),
        _ => return Err(damaged(session, "the result of an entry")),
    };
    let number = |column| read_count(get(row, column)?);
    Ok(match get::<String>(row, "status")?.as_str() {
        "entry" => EnqueueResult::Entry {
            entry: number("entry")?,
            is_new: get::<Option<bool>>(row, "is_new")?.unwrap_or_default(),
            ahead: number("ahead")?,
        },
        "busy" => EnqueueResult::Busy,
        "other" => EnqueueResult::OtherWork {
            entry: number("entry")?,
        },
        "superseded" => EnqueueResult::Superseded,
        what => return Err(damaged(session, what)),
    })
}

macro_rules! entries {
    ($condition:literal) => {
        concat!(
            "SELECT e.pos & 4294967295 AS entry, e.work, e.key, e.invocation, e.accepted_at, s.cursor
             FROM logue.session s JOIN logue.entry e ON ",
            $condition,
            " WHERE ",
            of_session!()
        )
    };
}

pub(super) fn entry(session: &str, entry: u64) -> Call {
    Call::new(entries!("e.pos = (s.sid << 32) + $2"))
        .bytes(session.as_bytes().to_vec())
        .number(position(entry))
        .quick()
}

pub(super) fn entry_with_key(session: &str, key: &str) -> Call {
    Call::new(entries!(
        "e.pos >> 32 = s.sid AND substr(e.key, 1, 1024) = substr($2, 1, 1024) AND e.key = $2"
    ))
    .bytes(session.as_bytes().to_vec())
    .bytes(id(key))
}

pub(super) fn inbox(session: &str) -> Call {
    Call::new(concat!(
        entries!("e.pos > (s.sid << 32) + s.cursor AND e.pos <= (s.sid << 32) + 4294967295"),
        " ORDER BY e.pos"
    ))
    .bytes(session.as_bytes().to_vec())
    .quick()
}

pub(super) fn read_entry(row: &Row) -> Result<InboxEntry, StoreError> {
    let entry = read_count(get(row, "entry")?)?;
    let cursor = read_count(get(row, "cursor")?)?;
    let invocation: Option<Vec<u8>> = get(row, "invocation")?;
    let state = if entry <= cursor {
        EntryState::Settled
    } else if invocation.is_some() {
        EntryState::Running
    } else {
        EntryState::Waiting
    };
    entry_in(row, entry, state)
}

fn entry_in(row: &Row, entry: u64, state: EntryState) -> Result<InboxEntry, StoreError> {
    let maybe_id = |column| -> Result<Option<String>, StoreError> {
        let bytes: Option<Vec<u8>> = get(row, column)?;
        bytes.as_deref().map(read_id).transpose()
    };
    let work: Option<String> = get(row, "work")?;
    Ok(InboxEntry {
        entry,
        work: work.as_deref().map(json).transpose()?,
        key: maybe_id("key")?,
        state,
        invocation_id: maybe_id("invocation")?,
        accepted_at: read_time(get(row, "accepted_at")?)?,
    })
}

/// Parses the JSON of a column.
pub(super) fn json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    parsed(text).map_err(|error| StoreError::Damaged(format!("a record is invalid JSON: {error}")))
}

pub(super) fn request_cancel(session: &str, asked: CancelMode) -> Call {
    Call::new("SELECT logue.request_cancel($1, $2) AS asked")
        .step()
        .bytes(session.as_bytes().to_vec())
        .maybe_small(Some(mode(asked)))
}

/// Returns a row if the entry is not settled.
///
/// The row of the session is locked first, and that of the entry is read again after it.
pub(super) fn request_cancel_of(session: &str, entry: u64, asked: CancelMode) -> Call {
    Call::new(
        "SELECT CASE WHEN logue.check_here(s)::text IS NOT NULL THEN logue.put(ROW(e.pos, e.accepted_at,
             e.at, e.replies_from, e.replies_to, e.claimed, e.sum, e.kind, $3, e.resumes, e.key,
             e.digest, e.invocation, e.continues, e.work, e.body)::logue.entry)::text END AS asked
         FROM logue.locked($1) AS s, LATERAL (
             SELECT * FROM logue.entry WHERE pos = (s.sid << 32) + $2
                 AND $2 > s.cursor AND $2 <= s.entries FOR UPDATE) AS e",
    )
    .step()
    .bytes(session.as_bytes().to_vec())
    .number(position(entry))
    .maybe_small(Some(mode(asked)))
}

pub(super) fn claim_next(lease: &Lease, invocation_id: &str) -> Call {
    Call::new("SELECT * FROM logue.claim_next($1, $2, $3, $4, $5)")
        .step()
        .bytes(lease.session.as_bytes().to_vec())
        .number(count(lease.epoch))
        .bytes(lease.owner.as_bytes().to_vec())
        .bytes(id(invocation_id))
        .flagged()
}

pub(super) fn claimed(lease: &Lease, row: &Row) -> Result<Option<ClaimedEntry>, StoreError> {
    match get::<String>(row, "status")?.as_str() {
        "none" => return Ok(None),
        "entry" => {}
        status => return Err(refusal(lease, row, status)?),
    }
    read_claimed(row).map(Some)
}

pub(super) fn read_claimed(row: &Row) -> Result<ClaimedEntry, StoreError> {
    let entry = read_count(get(row, "entry")?)?;
    let notes: Option<Vec<String>> = get(row, "notes")?;
    let notes = notes.unwrap_or_default();
    Ok(ClaimedEntry {
        entry: entry_in(row, entry, EntryState::Running)?,
        recovered: get(row, "recovered")?,
        notes: notes
            .iter()
            .map(|note| json(note))
            .collect::<Result<_, _>>()?,
        cancel: get::<Option<i16>>(row, "cancel")?
            .map(read_mode)
            .transpose()?,
    })
}

/// Adds notes; `from` is the length of the journal, if it is known.
pub(super) fn journal(
    lease: &Lease,
    invocation_id: &str,
    notes: &[Value],
    from: Option<i64>,
) -> Result<Call, StoreError> {
    let notes: Result<Vec<String>, StoreError> = notes.iter().map(written).collect();
    Ok(
        Call::new("SELECT * FROM logue.journal($1, $2, $3, $4, $5, $6, $7)")
            .step()
            .bytes(lease.session.as_bytes().to_vec())
            .number(count(lease.epoch))
            .bytes(lease.owner.as_bytes().to_vec())
            .bytes(id(invocation_id))
            .texts(notes?)
            .maybe_number(from)
            .flagged()
            .repeated_if(from.is_some()),
    )
}

/// Returns the length of the journal.
pub(super) fn journalled(lease: &Lease, invocation: &str, row: &Row) -> Result<i64, StoreError> {
    match get::<String>(row, "status")?.as_str() {
        "ok" => get(row, "next"),
        "stopped" => Err(not_running(invocation)),
        status => Err(refusal(lease, row, status)?),
    }
}

pub(super) fn notes(session: &str, invocation_id: &str) -> Call {
    Call::new(concat!(
        "SELECT n.seq, n.body FROM logue.session s JOIN logue.note n ON n.sid = s.sid
             AND substr(n.invocation, 1, 1024) = substr($2, 1, 1024) AND n.invocation = $2
         WHERE ",
        of_session!(),
        " ORDER BY n.seq"
    ))
    .bytes(session.as_bytes().to_vec())
    .bytes(id(invocation_id))
}

pub(super) fn read_note(row: &Row) -> Result<JournalNote, StoreError> {
    Ok(JournalNote {
        seq: read_count(get(row, "seq")?)?,
        note: json(&get::<String>(row, "body")?)?,
    })
}

pub(super) fn not_running(invocation_id: &str) -> StoreError {
    StoreError::NotFound {
        what: format!("running invocation `{invocation_id}`"),
    }
}

/// Returns the number of a mode.
pub(super) const fn mode(mode: CancelMode) -> i16 {
    match mode {
        CancelMode::Interrupt => 0,
        CancelMode::Rollback => 1,
    }
}

pub(super) fn read_mode(number: i16) -> Result<CancelMode, StoreError> {
    match number {
        0 => Ok(CancelMode::Interrupt),
        1 => Ok(CancelMode::Rollback),
        other => Err(StoreError::Damaged(format!(
            "an entry has the cancellation {other}"
        ))),
    }
}
