//! Leases. Their times are those of the database, whatever the clocks of the nodes say.

use std::time::Duration;

use logue_harness::Timestamp;
use logue_harness::store::{CancelMode, Lease, LeaseResult, StoreError};
use tokio_postgres::Row;

use super::call::Call;
use super::column::{count, get, read_count, read_time, text, time};
use super::error::{damaged, missing};
use super::inbox::read_mode;

/// Takes a session. Without `now` the database's clock decides.
pub(super) fn acquire(
    session: &str,
    owner: &str,
    gone: Option<(&str, Timestamp)>,
    now: Option<Timestamp>,
    ttl: Duration,
) -> Call {
    Call::new("SELECT * FROM logue.acquire($1, $2, $3, $4, $5, $6)")
        .step()
        .bytes(session.as_bytes().to_vec())
        .bytes(owner.as_bytes().to_vec())
        .maybe_bytes(gone.map(|(gone, _)| gone.as_bytes().to_vec()))
        .maybe_number(gone.map(|(_, end)| time(end)))
        .maybe_number(now.map(time))
        .number(millis(ttl))
}

pub(super) fn acquired(session: &str, owner: &str, row: &Row) -> Result<LeaseResult, StoreError> {
    match get::<String>(row, "status")?.as_str() {
        "lease" => Ok(LeaseResult::Lease(Lease {
            session: session.to_owned(),
            owner: owner.to_owned(),
            epoch: read_count(get(row, "epoch")?)?,
        })),
        "held" => Ok(LeaseResult::Held {
            owner: text(&get::<Vec<u8>>(row, "holder")?)?,
            until: read_time(get(row, "until")?)?,
        }),
        "missing" => Err(missing(session)),
        what => Err(damaged(session, what)),
    }
}

pub(super) fn renew(lease: &Lease, now: Option<Timestamp>, ttl: Duration) -> Call {
    Call::new("SELECT * FROM logue.renew($1, $2, $3, $4, $5)")
        // It must succeed on another connection before the lease ends.
        .quick()
        .bytes(lease.session.as_bytes().to_vec())
        .number(count(lease.epoch))
        .bytes(lease.owner.as_bytes().to_vec())
        .maybe_number(now.map(time))
        .number(millis(ttl))
}

pub(super) fn renewed(lease: &Lease, row: &Row) -> Result<Option<CancelMode>, StoreError> {
    match get::<String>(row, "status")?.as_str() {
        "ok" => get::<Option<i16>>(row, "cancel")?
            .map(read_mode)
            .transpose(),
        status => Err(refusal(lease, row, status)?),
    }
}

pub(super) fn release(lease: &Lease) -> Call {
    Call::new("SELECT logue.release($1, $2, $3)")
        .step()
        .bytes(lease.session.as_bytes().to_vec())
        .number(count(lease.epoch))
        .bytes(lease.owner.as_bytes().to_vec())
}

/// Returns the error for a status of an operation under a lease.
pub(super) fn refusal(lease: &Lease, row: &Row, status: &str) -> Result<StoreError, StoreError> {
    Ok(match status {
        "missing" => missing(&lease.session),
        "fenced" => StoreError::Fenced {
            session: lease.session.clone(),
            epoch: lease.epoch,
            current: read_count(get(row, "current")?)?,
        },
        what => damaged(&lease.session, what),
    })
}

pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
