//! Sessions: their state, history, labels and audit, their copies and their removal.

use logue_harness::Timestamp;
use logue_harness::store::{
    AuditEntry, BoundLabel, EntryPayload, LabelResult, SessionFilter, SessionFork, SessionInfo,
    SessionLocation, StoreError,
};
use serde_json::{Map, Value};
use tokio_postgres::Row;

use super::call::Call;
use super::column::{count, get, id, limit, position, read_count, read_id, read_time, text, time};
use super::error::{damaged, missing};
use super::inbox::json;
use super::payload::Bodies;
use super::turn::waits;
use crate::encoding::{optional, parsed_message, stored_work, written};

macro_rules! infos {
    () => {
        "SELECT s.id, s.seq, s.entries, s.cursor, s.epoch, s.has_state, s.schema_version, s.created_at,
             s.updated_at, s.owner, s.until,
             (SELECT array_agg(f.name ORDER BY f.name) FROM logue.field f WHERE f.sid = s.sid)
                 AS field_names,
             (SELECT array_agg(logue.whole(f.value) ORDER BY f.name) FROM logue.field f
              WHERE f.sid = s.sid) AS field_values,
             (SELECT array_agg(l.name ORDER BY l.name) FROM logue.label l WHERE l.sid = s.sid)
                 AS label_names,
             (SELECT array_agg(l.value ORDER BY l.name) FROM logue.label l WHERE l.sid = s.sid)
                 AS label_values
         FROM logue.session s WHERE "
    };
}

pub(super) fn info(session: &str) -> Call {
    Call::new(concat!(infos!(), of_session!()))
        .bytes(session.as_bytes().to_vec())
        .quick()
}

pub(super) fn list(filter: &SessionFilter) -> Call {
    let prefix = filter.prefix.as_deref().unwrap_or_default().as_bytes();
    let begin = prefix.get(..prefix.len().min(1024)).unwrap_or_default();
    let call = Call::new(concat!(
        infos!(),
        "($1::bytea IS NULL OR (substr(s.id, 1, 1024) >= substr($1, 1, 1024)
             AND ($2::bytea IS NULL OR substr(s.id, 1, 1024) < $2)
             AND substr(s.id, 1, length($1)) = $1))
             AND (NOT $4 OR s.entries > s.cursor)
         ORDER BY s.updated_at DESC, s.id LIMIT $3"
    ))
    .maybe_bytes((!prefix.is_empty()).then(|| prefix.to_vec()))
    .maybe_bytes(successor(begin))
    .number(limit(filter.limit.unwrap_or(usize::MAX)))
    .flag(filter.is_pending);
    // There is an index of the pending ones, which are few.
    if filter.is_pending {
        call.quick()
    } else {
        call
    }
}

/// Returns the first bytes after all that begin with `prefix`, if there are any.
fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < 0xff)?;
    let mut next = prefix.get(..=last)?.to_vec();
    *next.last_mut()? += 1;
    Some(next)
}

pub(super) fn read_info(row: &Row) -> Result<SessionInfo, StoreError> {
    let number = |column| read_count(get(row, column)?);
    let version: Option<Vec<u8>> = get(row, "schema_version")?;
    let session = text(&get::<Vec<u8>>(row, "id")?)?;
    let cursor = number("cursor")?;
    let location = read_location(row)?;
    let pending = match location {
        SessionLocation::Here { .. } => number("entries")?.saturating_sub(cursor),
        _ => 0,
    };
    Ok(SessionInfo {
        seq: number("seq")?,
        fields: values(&session, row, "field_names", "field_values")?,
        schema_version: version.as_deref().map(text).transpose()?,
        has_state: get(row, "has_state")?,
        labels: values(&session, row, "label_names", "label_values")?,
        epoch: number("epoch")?,
        cursor,
        pending,
        elsewhere: location.elsewhere(),
        created_at: read_time(get(row, "created_at")?)?,
        updated_at: read_time(get(row, "updated_at")?)?,
        session,
    })
}

pub(super) fn location(session: &str) -> Call {
    Call::new(concat!(
        "SELECT s.owner, s.until FROM logue.session s WHERE ",
        of_session!()
    ))
    .bytes(session.as_bytes().to_vec())
}

pub(super) fn read_location(row: &Row) -> Result<SessionLocation, StoreError> {
    let owner: Option<Vec<u8>> = get(row, "owner")?;
    let owner = owner.as_deref().map(text).transpose()?;
    let until = read_time(get(row, "until")?)?;
    Ok(SessionLocation::from_lease(
        owner.as_deref().map(|owner| (owner, until)),
    ))
}

fn values(
    session: &str,
    row: &Row,
    names: &'static str,
    values: &'static str,
) -> Result<Map<String, Value>, StoreError> {
    let names: Option<Vec<Vec<u8>>> = get(row, names)?;
    let values: Option<Vec<Option<String>>> = get(row, values)?;
    let pairs = names.unwrap_or_default().into_iter();
    let mut map = Map::new();
    for (name, value) in pairs.zip(values.unwrap_or_default()) {
        let name = text(&name)?;
        let value = value.ok_or_else(|| damaged(session, &format!("the field `{name}`")))?;
        map.insert(name, json(&value)?);
    }
    Ok(map)
}

pub(super) fn history(session: &str, from: u64, most: usize) -> Call {
    Call::new(concat!(
        "SELECT s.seq AS length, m.pos - (s.sid << 32) AS seq, m.body, m.is_sound
         FROM logue.session s LEFT JOIN LATERAL (
             SELECT m.pos, logue.whole(m.body) AS body,
                 m.sum IS NOT DISTINCT FROM logue.sum_of(m) AS is_sound
             FROM logue.message m
             WHERE m.pos >= (s.sid << 32) + $2 AND m.pos < (s.sid << 32) + s.seq
             ORDER BY m.pos LIMIT $3) m ON true
         WHERE s.seq > $2 AND $3 > 0 AND ",
        of_session!(),
        " ORDER BY m.pos"
    ))
    .bytes(session.as_bytes().to_vec())
    .number(position(from))
    .number(limit(most))
}

pub(super) fn read_history(
    session: &str,
    from: u64,
    most: usize,
    rows: &[Row],
) -> Result<Vec<Value>, StoreError> {
    let lost = |seq: u64| damaged(session, &format!("message {seq}"));
    let mut messages = Vec::with_capacity(rows.len());
    let mut next = from;
    let mut end = from;
    for row in rows {
        let wanted = from.saturating_add(u64::try_from(most).unwrap_or(u64::MAX));
        end = read_count(get(row, "length")?)?.min(wanted);
        let seq: Option<i64> = get(row, "seq")?;
        let is_sound: Option<bool> = get(row, "is_sound")?;
        let body: Option<String> = get(row, "body")?;
        let body = body.filter(|_| seq == Some(count(next)) && is_sound == Some(true));
        let body = body.ok_or_else(|| lost(next))?;
        messages.push(parsed_message(&body).map_err(|_| lost(next))?);
        next += 1;
    }
    if next < end {
        return Err(lost(next));
    }
    Ok(messages)
}

/// The statement that calls a function with the row of the required session.
macro_rules! bound_label {
    ($function:literal) => {
        concat!(
            "SELECT l.status, l.earlier FROM (SELECT s.id FROM logue.session s WHERE ",
            of_session!(),
            " AND s.created_at = $5 FOR UPDATE) AS own, LATERAL ",
            $function,
            " AS l"
        )
    };
}

pub(super) fn set_label(
    session: &str,
    name: &str,
    value: &Value,
    now: Timestamp,
) -> Result<Call, StoreError> {
    Ok(
        Call::new("SELECT logue.set_label($1, $2, $3, $4) AS status")
            .bytes(session.as_bytes().to_vec())
            .bytes(name.as_bytes().to_vec())
            .text(written(value)?)
            .number(time(now)),
    )
}

pub(super) fn set_label_once(
    session: &str,
    name: &str,
    value: &Value,
    now: Timestamp,
) -> Result<Call, StoreError> {
    let call = Call::new("SELECT status, earlier FROM logue.set_label_once($1, $2, $3, $4)");
    Ok(call
        .bytes(session.as_bytes().to_vec())
        .bytes(name.as_bytes().to_vec())
        .text(written(value)?)
        .number(time(now)))
}

/// Sets a label of the session with the required time of creation.
///
/// The row is locked before the function begins, so the session cannot be replaced meanwhile.
pub(super) fn set_bound_label(session: &str, label: &BoundLabel) -> Result<Call, StoreError> {
    let call = if label.only_if_new {
        Call::new(bound_label!("logue.set_label_once(own.id, $2, $3, $4)"))
    } else {
        Call::new(bound_label!(
            "(SELECT logue.set_label(own.id, $2, $3, $4) AS status, NULL::text AS earlier)"
        ))
    };
    Ok(call
        .bytes(session.as_bytes().to_vec())
        .bytes(label.name.as_bytes().to_vec())
        .text(written(&label.value)?)
        .number(time(label.now))
        .number(time(label.only_created_at)))
}

/// Reads the result, which has no row if the required session is missing.
pub(super) fn bound_label(session: &str, rows: &[Row]) -> Result<LabelResult, StoreError> {
    match rows {
        [] => Ok(LabelResult::OtherSession),
        [row] => Ok(LabelResult::from_earlier(earlier_label(session, row)?)),
        _ => Err(damaged(session, "the result of a label")),
    }
}

/// Reads the value of a label that the session had already.
pub(super) fn earlier_label(session: &str, row: &Row) -> Result<Option<Value>, StoreError> {
    done(session, row)?;
    let earlier: Option<String> = get(row, "earlier")?;
    let earlier = earlier.map(|text| json(&text));
    earlier.transpose()
}

/// Reads the answer of an operation that cannot be refused.
pub(super) fn done(session: &str, row: &Row) -> Result<(), StoreError> {
    match get::<String>(row, "status")?.as_str() {
        "ok" => Ok(()),
        what => Err(damaged(session, what)),
    }
}

pub(super) fn audit(
    session: &str,
    invocation_id: &str,
    records: &[Value],
    now: Timestamp,
) -> Result<Call, StoreError> {
    let records: Result<Vec<String>, StoreError> = records.iter().map(written).collect();
    Ok(
        Call::new("SELECT logue.audit($1, $2, $3, $4, $5) AS status")
            .bytes(session.as_bytes().to_vec())
            .bytes(id(invocation_id))
            .texts(records?)
            .number(time(now))
            .flagged(),
    )
}

pub(super) fn audited(session: &str, from: u64, most: usize) -> Call {
    Call::new(concat!(
        "SELECT a.pos & 4294967295 AS seq, a.invocation, a.body, a.at
         FROM logue.session s JOIN logue.audit a
             ON a.pos >= (s.sid << 32) + $2 AND a.pos <= (s.sid << 32) + 4294967295
         WHERE ",
        of_session!(),
        " ORDER BY a.pos LIMIT $3"
    ))
    .bytes(session.as_bytes().to_vec())
    .number(position(from))
    .number(limit(most))
}

pub(super) fn read_audit(row: &Row) -> Result<AuditEntry, StoreError> {
    Ok(AuditEntry {
        seq: read_count(get(row, "seq")?)?,
        invocation_id: read_id(&get::<Vec<u8>>(row, "invocation")?)?,
        record: json(&get::<String>(row, "body")?)?,
        at: read_time(get(row, "at")?)?,
    })
}

pub(super) fn fork(session: &str, fork: &SessionFork) -> Result<Call, StoreError> {
    let mut bodies = Bodies::default();
    let messages = bodies.messages(&fork.messages)?;
    let (mut invocations, mut signals) = (Vec::new(), Vec::new());
    let (mut metadata, mut records) = (Vec::new(), Vec::new());
    for (invocation, waiting) in &fork.suspended {
        invocations.push(id(invocation));
        signals.push(id(&waiting.signal_id));
        metadata.push(waiting.metadata.as_ref().map(written).transpose()?);
        records.push(optional(&waiting.record)?);
    }
    let work = fork.work.as_ref();
    let call = Call::new(
        "SELECT * FROM logue.fork($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
    );
    Ok(call
        .bytes(session.as_bytes().to_vec())
        .bytes(fork.into.as_bytes().to_vec())
        .number(count(fork.upto))
        .texts(messages)
        .byte_list(bodies.hashes)
        .texts(bodies.payloads)
        .byte_list(invocations)
        .byte_list(signals)
        .maybe_texts(metadata)
        .maybe_texts(records)
        .maybe_text(work.map(stored_work).transpose()?)
        .maybe_bytes(work.and_then(EntryPayload::invocation_id).map(id))
        .flag(matches!(work, Some(EntryPayload::Resume { .. })))
        .number(time(fork.now))
        .flagged())
}

pub(super) fn forked(session: &str, fork: &SessionFork, row: &Row) -> Result<(), StoreError> {
    match get::<String>(row, "status")?.as_str() {
        "ok" => Ok(()),
        "missing" => Err(missing(session)),
        "exists" => Err(StoreError::Exists {
            what: format!("a session `{}`", fork.into),
        }),
        "conflict" => Err(StoreError::Conflict {
            session: session.to_owned(),
            expected: fork.upto,
            found: read_count(get(row, "current")?)?,
        }),
        "waits" => {
            let place = read_count(get(row, "current")?)?.saturating_sub(1);
            let place = usize::try_from(place).unwrap_or(usize::MAX);
            let waiting = fork.suspended.get(place);
            Err(waits(waiting.map_or("", |(invocation, _)| invocation)))
        }
        what => Err(damaged(session, what)),
    }
}

/// Removes a session, unless it was moved.
///
/// The row is locked before its owner is compared, so that no move ends in between.
pub(super) fn delete(session: &str) -> Call {
    Call::new(
        "WITH moved AS MATERIALIZED (
             SELECT s.owner, s.until FROM (
                 SELECT owner, until FROM logue.session
                 WHERE substr(id, 1, 1024) = substr($1, 1, 1024) AND id = $1 FOR UPDATE
             ) s WHERE substr(s.owner, 1, 6) = 'moved:'::bytea)
         SELECT moved.owner, moved.until,
             CASE WHEN moved.owner IS NULL THEN logue.delete($1, $2) END AS removed
         FROM (SELECT 1) one LEFT JOIN moved ON true",
    )
    .bytes(session.as_bytes().to_vec())
    .flagged()
}

pub(super) fn deleted(session: &str, row: &Row) -> Result<bool, StoreError> {
    match get::<Option<bool>>(row, "removed")? {
        Some(is_removed) => Ok(is_removed),
        None => read_location(row)?.check(session).map(|()| false),
    }
}

pub(super) fn prune(session: &str, unchanged_since: Timestamp, busy_too: bool) -> Call {
    Call::new("SELECT logue.prune($1, $2, $3, $4) AS removed")
        .bytes(session.as_bytes().to_vec())
        .number(time(unchanged_since))
        .flag(busy_too)
        .flagged()
}
