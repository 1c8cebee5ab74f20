//! Repair: damaged records go to quarantine, by one statement.

use logue_harness::Timestamp;
use logue_harness::store::{IntegrityFault, RepairReport, StoreError};
use tokio_postgres::Row;

use super::call::Call;
use super::column::{count, get, id, time};
use super::verify::fault;

pub(super) fn repair(now: Timestamp) -> Call {
    Call::new(
        "SELECT r.is_lost, r.record, r.place, r.name, r.problem, coalesce(r.id, '') AS id,
             r.id IS NOT NULL AS is_known FROM logue.repair($1) r",
    )
    .number(time(now))
    .long()
    .repeated_if(false)
}

pub(super) fn report(rows: &[Row]) -> Result<RepairReport, StoreError> {
    let mut report = RepairReport::default();
    for row in rows {
        if let Some(found) = fault(row)? {
            if get(row, "is_lost")? {
                report.lost.push(found);
            } else {
                report.quarantined.push(found);
            }
        }
    }
    Ok(report)
}

/// Returns the statement that moves the record of a fault to quarantine.
pub(super) fn quarantine(fault: &IntegrityFault, now: Timestamp) -> Option<Call> {
    let session = fault.session.as_ref()?;
    let record = match fault.record {
        "outcome" => "entry",
        record => record,
    };
    let name = fault.name.as_deref();
    let name = match record {
        "field" | "label" => name.map(|name| name.as_bytes().to_vec()),
        _ => name.map(id),
    };
    let call = Call::new("SELECT logue.quarantine_record($1, $2, $3, $4, $5, $6) AS moved");
    Some(
        call.bytes(session.as_bytes().to_vec())
            .text(record.to_owned())
            .maybe_number(fault.position.map(count))
            .maybe_bytes(name)
            .text(fault.problem.clone())
            .number(time(now)),
    )
}
