//! The beginning and the end of a turn, and its outcome.

use std::time::Duration;

use logue_harness::Timestamp;
use logue_harness::store::{
    BeginResult, BegunTurn, Commit, Disposition, Lease, OutcomeKind, StoreError, StoredOutcome,
};
use serde_json::Value;
use tokio_postgres::Row;

use super::call::Call;
use super::column::{count, get, id, limit, position, read_count, read_id, read_time, text, time};
use super::error::{damaged, missing};
use super::inbox::{json, not_running, read_claimed};
use super::lease::{millis, refusal};
use super::payload::Bodies;
use super::session::read_info;
use crate::encoding::{optional, written};

pub(super) fn commit(lease: &Lease, commit: &Commit, releases: bool) -> Result<Call, StoreError> {
    let mut bodies = Bodies::default();
    let messages = bodies.messages(&commit.messages)?;
    let mut values = Vec::new();
    for value in commit.fields.values() {
        values.push(bodies.kept(written(value)?));
    }
    let names = commit.fields.keys();
    let (number, outcome, waiting) = match &commit.settle {
        None => (0, None, None),
        Some(Disposition::Done { outcome, .. }) => (1, Some(outcome), None),
        Some(Disposition::Suspended {
            suspension,
            outcome,
        }) => (2, Some(outcome), Some(suspension)),
        Some(Disposition::Requeue) => (3, None, None),
        Some(_) => {
            return Err(StoreError::Unavailable {
                message: "unknown disposition of an entry".to_owned(),
                source: None,
            });
        }
    };
    let (keep_journal, keep_suspension) = match &commit.settle {
        Some(Disposition::Done {
            keep_journal,
            keep_suspension,
            ..
        }) => (*keep_journal, *keep_suspension),
        _ => (false, false),
    };
    let body = outcome.map(|outcome| optional(&outcome.body)).transpose()?;
    let metadata = waiting.and_then(|waiting| waiting.metadata.as_ref());
    let record = waiting.map(|waiting| optional(&waiting.record));
    let call = Call::new(
        "SELECT * FROM logue.commit($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15,
             $16, $17, $18, $19, $20, $21, $22, $23, $24)",
    );
    Ok(call
        .step()
        .bytes(lease.session.as_bytes().to_vec())
        .number(count(lease.epoch))
        .bytes(lease.owner.as_bytes().to_vec())
        .bytes(id(&commit.invocation_id))
        .number(count(commit.expected_seq))
        .texts(messages)
        .byte_list(bodies.hashes)
        .texts(bodies.payloads)
        .byte_list(names.map(|name| name.as_bytes().to_vec()).collect())
        .texts(values)
        .maybe_bytes(commit.schema_version.clone().map(String::into_bytes))
        .maybe_small(Some(number))
        .maybe_small(outcome.map(|outcome| kind(outcome.kind)).transpose()?)
        .maybe_number(outcome.map(|outcome| count(outcome.replies_from)))
        .maybe_text(body.flatten())
        .flag(keep_journal)
        .flag(keep_suspension)
        .maybe_bytes(waiting.map(|waiting| id(&waiting.signal_id)))
        .maybe_text(metadata.map(written).transpose()?)
        .maybe_text(record.transpose()?.flatten())
        .flag(changes_state(commit))
        .number(time(commit.now))
        .flag(releases)
        .flagged())
}

/// Appends small messages in the middle of a turn, if the commit does nothing else.
///
/// Its answer is `false` where [`commit`] has to say why it is refused.
pub(super) fn append(lease: &Lease, commit: &Commit) -> Result<Option<Call>, StoreError> {
    let appends_only = commit.settle.is_none()
        && commit.fields.is_empty()
        && commit.schema_version.is_none()
        && !commit.messages.is_empty();
    if !appends_only {
        return Ok(None);
    }
    let mut bodies = Bodies::default();
    let messages = bodies.messages(&commit.messages)?;
    if !bodies.hashes.is_empty() {
        return Ok(None);
    }
    let call = Call::new("SELECT logue.append($1, $2, $3, $4, $5, $6, $7, $8) AS is_done");
    Ok(Some(
        call.step()
            .bytes(lease.session.as_bytes().to_vec())
            .number(count(lease.epoch))
            .bytes(lease.owner.as_bytes().to_vec())
            .bytes(id(&commit.invocation_id))
            .number(count(commit.expected_seq))
            .texts(messages)
            .number(time(commit.now))
            .flagged(),
    ))
}

/// Takes a session and claims its next entry. Without `now` the database's clock decides.
pub(super) fn begin(
    session: &str,
    owner: &str,
    invocation_id: &str,
    now: Option<Timestamp>,
    ttl: Duration,
) -> Call {
    Call::new("SELECT * FROM logue.begin($1, $2, $3, $4, $5, $6)")
        .step()
        .bytes(session.as_bytes().to_vec())
        .bytes(owner.as_bytes().to_vec())
        .bytes(id(invocation_id))
        .maybe_number(now.map(time))
        .number(millis(ttl))
        .flagged()
}

pub(super) fn begun(session: &str, owner: &str, row: &Row) -> Result<BeginResult, StoreError> {
    match get::<String>(row, "status")?.as_str() {
        "entry" => {
            let lease = Lease {
                session: session.to_owned(),
                owner: owner.to_owned(),
                epoch: read_count(get(row, "epoch")?)?,
            };
            Ok(BeginResult::Turn(Box::new(BegunTurn {
                lease,
                claimed: read_claimed(row)?,
                // What cannot be read fails the turn.
                info: read_info(row).ok(),
            })))
        }
        "none" => Ok(BeginResult::Idle),
        "held" => Ok(BeginResult::Held {
            owner: text(&get::<Vec<u8>>(row, "owner")?)?,
            until: read_time(get(row, "until")?)?,
        }),
        "missing" => Err(missing(session)),
        what => Err(damaged(session, what)),
    }
}

pub(super) fn committed(lease: &Lease, commit: &Commit, row: &Row) -> Result<(), StoreError> {
    match get::<String>(row, "status")?.as_str() {
        "ok" => Ok(()),
        "conflict" => Err(StoreError::Conflict {
            session: lease.session.clone(),
            expected: commit.expected_seq,
            found: read_count(get(row, "current")?)?,
        }),
        "stopped" => Err(not_running(&commit.invocation_id)),
        "exists" => Err(waits(&commit.invocation_id)),
        status => Err(refusal(lease, row, status)?),
    }
}

/// Returns the error of an invocation that waits already.
pub(super) fn waits(invocation_id: &str) -> StoreError {
    StoreError::Exists {
        what: format!("a suspension of `{invocation_id}`"),
    }
}

/// Returns whether a commit changes the session's state.
///
/// A turn that failed or was requeued before it changed anything does not.
fn changes_state(commit: &Commit) -> bool {
    let settles_only = match &commit.settle {
        Some(Disposition::Done { outcome, .. }) => outcome.kind != OutcomeKind::Completed,
        Some(Disposition::Requeue) => true,
        _ => false,
    };
    !settles_only || !commit.messages.is_empty() || !commit.fields.is_empty()
}

macro_rules! outcomes {
    ($condition:literal) => {
        concat!(
            "SELECT e.pos & 4294967295 AS entry, e.invocation, e.resumes, e.kind, e.replies_from,
                 e.replies_to, e.body, e.at
             FROM logue.session s JOIN logue.entry e ON e.pos <= (s.sid << 32) + s.cursor AND ",
            $condition,
            " WHERE ",
            of_session!()
        )
    };
}

pub(super) fn outcomes_since(session: &str, cursor: u64, most: usize) -> Call {
    Call::new(concat!(
        outcomes!("e.pos > (s.sid << 32) + $2"),
        " ORDER BY e.pos LIMIT $3"
    ))
    .bytes(session.as_bytes().to_vec())
    .number(position(cursor))
    .number(limit(most))
    .quick()
}

pub(super) fn outcome_of(session: &str, entry: u64) -> Call {
    Call::new(outcomes!("e.pos = (s.sid << 32) + $2"))
        .bytes(session.as_bytes().to_vec())
        .number(position(entry))
}

pub(super) fn read_outcome(row: &Row) -> Result<StoredOutcome, StoreError> {
    let entry = read_count(get(row, "entry")?)?;
    let number = |column| read_count(get(row, column)?);
    let body: Option<String> = get(row, "body")?;
    Ok(StoredOutcome {
        cursor: entry,
        entry,
        invocation_id: read_id(&get::<Vec<u8>>(row, "invocation")?)?,
        resumed: get(row, "resumes")?,
        kind: read_kind(get(row, "kind")?)?,
        replies_from: number("replies_from")?,
        replies_to: number("replies_to")?,
        body: body.as_deref().map_or(Ok(Value::Null), json)?,
        at: read_time(get(row, "at")?)?,
    })
}

pub(super) fn kind(kind: OutcomeKind) -> Result<i16, StoreError> {
    Ok(match kind {
        OutcomeKind::Completed => 0,
        OutcomeKind::Errored => 1,
        OutcomeKind::Suspended => 2,
        OutcomeKind::Cancelled => 3,
        _ => {
            return Err(StoreError::Unavailable {
                message: "an outcome of a kind that this store does not know".to_owned(),
                source: None,
            });
        }
    })
}

pub(super) fn read_kind(number: i16) -> Result<OutcomeKind, StoreError> {
    Ok(match number {
        0 => OutcomeKind::Completed,
        1 => OutcomeKind::Errored,
        2 => OutcomeKind::Suspended,
        3 => OutcomeKind::Cancelled,
        other => {
            return Err(StoreError::Damaged(format!(
                "an outcome has the kind {other}"
            )));
        }
    })
}
