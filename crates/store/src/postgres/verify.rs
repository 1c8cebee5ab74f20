//! The check of what is stored, by one statement.

use logue_harness::store::{IntegrityFault, IntegrityReport, StoreError};
use tokio_postgres::Row;

use super::call::Call;
use super::column::{get, read_count, read_id};

pub(super) fn verify(session: Option<&str>) -> Call {
    let call = Call::new(
        "WITH one AS (SELECT (SELECT sid FROM logue.session WHERE $1::bytea IS NOT NULL
                 AND substr(id, 1, 1024) = substr($1, 1, 1024) AND id = $1) AS sid)
         SELECT counted.sessions, counted.messages, f.record, f.place, f.name, f.problem,
             coalesce(s.id, '') AS id, s.id IS NOT NULL AS is_known
         FROM one CROSS JOIN LATERAL (SELECT
                 (SELECT count(*) FROM logue.session o
                  WHERE $1::bytea IS NULL OR o.sid = one.sid) AS sessions,
                 (SELECT count(*) FROM logue.message m WHERE $1::bytea IS NULL
                  OR m.pos BETWEEN one.sid << 32 AND (one.sid << 32) + 4294967295) AS messages)
                 AS counted
             LEFT JOIN LATERAL logue.faults(one.sid) f ON $1::bytea IS NULL OR one.sid IS NOT NULL
             LEFT JOIN logue.session s ON s.sid = f.sid
         ORDER BY s.sid, f.record, f.place",
    );
    call.maybe_bytes(session.map(|session| session.as_bytes().to_vec()))
        .long()
}

pub(super) fn report(rows: &[Row]) -> Result<IntegrityReport, StoreError> {
    let mut report = IntegrityReport::default();
    for row in rows {
        report.sessions = read_count(get(row, "sessions")?)?;
        report.messages = read_count(get(row, "messages")?)?;
        report.faults.extend(fault(row)?);
    }
    Ok(report)
}

/// Reads a fault, if the row has one.
pub(super) fn fault(row: &Row) -> Result<Option<IntegrityFault>, StoreError> {
    let Some(record) = get::<Option<String>>(row, "record")? else {
        return Ok(None);
    };
    let name: Option<Vec<u8>> = get(row, "name")?;
    let name = name.map(|name| match read_id(&name) {
        Ok(name) => name,
        Err(_) => String::from_utf8_lossy(&name).into_owned(),
    });
    let problem: String = get(row, "problem")?;
    let problem = match &name {
        Some(name) => format!("`{name}`: {problem}"),
        None => problem,
    };
    let mut fault = IntegrityFault::new(record_name(&record), problem);
    if get(row, "is_known")? {
        let id: Vec<u8> = get(row, "id")?;
        fault = fault.in_session(&String::from_utf8_lossy(&id));
    }
    if let Some(place) = get::<Option<i64>>(row, "place")? {
        fault = fault.at(place.unsigned_abs());
    }
    if let Some(name) = name {
        fault = fault.named(&name);
    }
    Ok(Some(fault))
}

fn record_name(record: &str) -> &'static str {
    const NAMES: [&str; 8] = [
        "message",
        "entry",
        "note",
        "suspension",
        "audit",
        "field",
        "label",
        "session",
    ];
    let known = NAMES.into_iter().find(|name| *name == record);
    known.unwrap_or("session")
}
