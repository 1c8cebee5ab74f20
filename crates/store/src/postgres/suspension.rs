//! Suspensions, found by their invocation, and the signals that end them.

use logue_harness::Timestamp;
use logue_harness::store::{
    EntryPayload, SignalResult, StoreError, Suspension, SuspensionFilter, SuspensionStatus,
};
use serde_json::{Map, Value};
use tokio_postgres::Row;

use super::call::Call;
use super::column::{get, id, read_count, read_id, read_time, text, time};
use super::error::damaged;
use super::inbox::json;
use crate::encoding::stored_work;

pub(super) fn signal(
    invocation_id: &str,
    signal_id: Option<&str>,
    payload: Map<String, Value>,
    now: Timestamp,
) -> Result<Call, StoreError> {
    let work = stored_work(&EntryPayload::Resume {
        invocation_id: invocation_id.to_owned(),
        payload,
    })?;
    Ok(Call::new("SELECT * FROM logue.signal($1, $2, $3, $4, $5)")
        .step()
        .bytes(id(invocation_id))
        .maybe_bytes(signal_id.map(id))
        .text(work)
        .number(time(now))
        .flagged())
}

pub(super) fn signalled(row: &Row) -> Result<SignalResult, StoreError> {
    let status: String = get(row, "status")?;
    if status == "unknown" {
        return Ok(SignalResult::Unknown);
    }
    let session = text(&get::<Vec<u8>>(row, "session")?)?;
    if status != "entry" {
        return Err(damaged(&session, &status));
    }
    Ok(SignalResult::Entry {
        session,
        entry: read_count(get(row, "entry")?)?,
        is_new: get(row, "is_new")?,
    })
}

pub(super) fn suspension(invocation_id: &str) -> Call {
    Call::new(
        "SELECT w.invocation, s.id, w.signal, w.metadata, w.status, w.entry, w.since, w.record
         FROM logue.suspension w JOIN logue.session s USING (sid)
         WHERE sha256(w.invocation) = sha256($1) AND w.invocation = $1
         ORDER BY w.num DESC LIMIT 1",
    )
    .bytes(id(invocation_id))
}

pub(super) fn suspensions(filter: &SuspensionFilter) -> Call {
    Call::new(
        "SELECT w.invocation, s.id, w.signal, w.metadata, w.status, w.entry, w.since,
             NULL::text AS record
         FROM logue.suspension w JOIN logue.session s USING (sid)
         WHERE ($1::bytea IS NULL OR (substr(s.id, 1, 1024) = substr($1, 1, 1024) AND s.id = $1))
             AND ($2::bytea IS NULL OR w.signal = $2) AND ($3::smallint IS NULL OR w.status = $3)
             AND (NOT $4 OR s.owner IS NULL OR (substr(s.owner, 1, 6) <> 'moved:'::bytea
                 AND substr(s.owner, 1, 9) <> 'arriving:'::bytea))
         ORDER BY w.num",
    )
    .maybe_bytes(filter.session.clone().map(String::into_bytes))
    .maybe_bytes(filter.signal_id.as_deref().map(id))
    .maybe_small(filter.status.map(status))
    .flag(filter.is_usable)
    .quick()
}

pub(super) fn read(row: &Row) -> Result<Suspension, StoreError> {
    let value = |column| -> Result<Option<Value>, StoreError> {
        let text: Option<String> = get(row, column)?;
        text.as_deref().map(json).transpose()
    };
    let entry: Option<i64> = get(row, "entry")?;
    Ok(Suspension {
        invocation_id: read_id(&get::<Vec<u8>>(row, "invocation")?)?,
        session: text(&get::<Vec<u8>>(row, "id")?)?,
        signal_id: read_id(&get::<Vec<u8>>(row, "signal")?)?,
        metadata: value("metadata")?,
        status: match get::<i16>(row, "status")? {
            0 => SuspensionStatus::Suspended,
            1 => SuspensionStatus::Signalled,
            2 => SuspensionStatus::Resumed,
            other => {
                return Err(StoreError::Damaged(format!(
                    "a suspension has the status {other}"
                )));
            }
        },
        entry: entry.map(read_count).transpose()?,
        record: value("record")?.unwrap_or(Value::Null),
        since: read_time(get(row, "since")?)?,
    })
}

pub(super) const fn status(status: SuspensionStatus) -> i16 {
    match status {
        SuspensionStatus::Suspended => 0,
        SuspensionStatus::Signalled => 1,
        SuspensionStatus::Resumed => 2,
        // Other states are never stored.
        _ => -1,
    }
}
