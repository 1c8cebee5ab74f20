//! Integrity checks of the stored content.

use std::path::Path;

use logue_harness::store::{IntegrityFault, IntegrityReport};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OptionalExtension as _, Row};

use super::column::{Id, Range, position};
use super::error::{SqliteError, SqliteResult};
use super::seal::{self, Sealed};
use super::tally::{self, Tally};
use super::{message_body, schema};

/// A row whose checksum differs from that of its content.
pub(super) struct DamagedRow {
    pub(super) sealed: Sealed,
    /// The values of its key columns.
    pub(super) key: Vec<Value>,
    pub(super) fault: IntegrityFault,
}

/// Checks one session, or all sessions and the file.
///
/// What cannot be read is a fault, and the rest is checked.
pub(super) fn verify(
    conn: &Connection,
    path: &Path,
    only: Option<&str>,
) -> SqliteResult<IntegrityReport> {
    let mut report = IntegrityReport::default();
    if let Some(session) = only {
        let sid: Option<i64> = conn
            .prepare_cached("SELECT sid FROM session WHERE id = ?1")?
            .query_row([session], |row| row.get(0))
            .optional()?;
        if let Some(sid) = sid {
            one(conn, session, sid, &mut report);
        }
        return Ok(report);
    }
    let mut faults = Vec::new();
    for (sid, session) in all_sessions(conn, &mut faults) {
        one(conn, &session, sid, &mut report);
    }
    attempt("file", &mut faults, |faults| {
        faults.extend(schema::difference(conn)?.faults());
        Ok(())
    });
    for sealed in tally::tables() {
        attempt("file", &mut faults, |faults| strays(conn, sealed, faults));
    }
    attempt("file", &mut faults, |faults| {
        each(conn, "PRAGMA foreign_key_check", |row| {
            let table: String = row.get(0)?;
            let problem = format!("a row of `{table}` refers to nothing");
            faults.push(IntegrityFault::new("file", problem));
            Ok(())
        })
    });
    faults.extend(file(conn, path));
    report.faults.append(&mut faults);
    Ok(report)
}

/// Checks the pages and indexes of the file.
///
/// A repair needs sound pages, so the faults of a file with damaged ones are of the record `page`.
fn file(conn: &Connection, path: &Path) -> Vec<IntegrityFault> {
    let mut faults = Vec::new();
    attempt("file", &mut faults, |faults| {
        each(conn, "PRAGMA integrity_check(20)", |row| {
            let found: String = row.get(0)?;
            if found != "ok" {
                let problem = format!("{}: {found}", path.display());
                faults.push(IntegrityFault::new("file", problem));
            }
            Ok(())
        })
    });
    if !faults.is_empty() && !has_sound_pages(conn) {
        for fault in &mut faults {
            fault.record = "page";
        }
    }
    faults
}

fn has_sound_pages(conn: &Connection) -> bool {
    let found = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    found.is_ok_and(|found| found == "ok")
}

/// Runs a check; its failure is a fault, once.
fn attempt(
    record: &'static str,
    faults: &mut Vec<IntegrityFault>,
    check: impl FnOnce(&mut Vec<IntegrityFault>) -> SqliteResult<()>,
) {
    let mut found = Vec::new();
    if let Err(error) = check(&mut found) {
        let cause = match error {
            SqliteError::Refused(error) => error.to_string(),
            SqliteError::Database(error) => error.to_string(),
        };
        let fault = IntegrityFault::new(record, format!("cannot be read as a whole: {cause}"));
        found.push(fault);
    }
    found.retain(|fault| !faults.contains(fault));
    faults.append(&mut found);
}

/// Returns the numbers and ids of all sessions.
///
/// An id that damage made invalid UTF-8 is shown with replacement characters.
pub(super) fn sessions(conn: &Connection) -> SqliteResult<Vec<(i64, String)>> {
    listed(conn, "SELECT sid, id FROM session NOT INDEXED ORDER BY sid")
}

/// Returns the sessions that can be read, if necessary from an index.
fn all_sessions(conn: &Connection, faults: &mut Vec<IntegrityFault>) -> Vec<(i64, String)> {
    let mut found = Vec::new();
    attempt("file", faults, |_| {
        found = sessions(conn)?;
        Ok(())
    });
    if faults.is_empty() {
        return found;
    }
    attempt("file", faults, |_| {
        found = listed(
            conn,
            "SELECT sid, id FROM session INDEXED BY session_changed ORDER BY updated_at",
        )?;
        found.sort_unstable();
        Ok(())
    });
    found
}

fn listed(conn: &Connection, sql: &str) -> SqliteResult<Vec<(i64, String)>> {
    let found = conn
        .prepare(sql)?
        .query_map([], |row| {
            let id = match row.get_ref(1)? {
                ValueRef::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                _ => String::new(),
            };
            Ok((row.get(0)?, id))
        })?
        .collect::<Result<_, _>>()?;
    Ok(found)
}

/// Finds the rows of a table that belong to no session.
fn strays(conn: &Connection, sealed: Sealed, faults: &mut Vec<IntegrityFault>) -> SqliteResult<()> {
    let table = sealed.table;
    let of = if sealed.has_places() {
        "pos >> 32"
    } else {
        "sid"
    };
    let strays: i64 = conn.query_row(
        &format!("SELECT count(*) FROM {table} WHERE {of} NOT IN (SELECT sid FROM session)"),
        [],
        |row| row.get(0),
    )?;
    if strays > 0 {
        let problem = format!("{strays} rows of `{table}` have no session");
        faults.push(IntegrityFault::new("file", problem));
    }
    Ok(())
}

/// Checks one session. A page that cannot be read is a fault too.
fn one(conn: &Connection, session: &str, sid: i64, report: &mut IntegrityReport) {
    report.sessions += 1;
    let mut faults = Vec::new();
    attempt("session", &mut faults, |faults| {
        report.messages += counts(conn, sid, faults)?;
        Ok(())
    });
    attempt("session", &mut faults, |faults| lease(conn, sid, faults));
    attempt("entry", &mut faults, |faults| entries(conn, sid, faults));
    attempt("session", &mut faults, |faults| bodies(conn, sid, faults));
    let mut damaged = Vec::new();
    for sealed in seal::TABLES {
        attempt(sealed.table, &mut faults, |faults| {
            let rows = damaged_rows_of(conn, *sealed, sid)?;
            if !rows.is_empty() {
                damaged.push(sealed.table);
            }
            faults.extend(rows.into_iter().map(|row| row.fault));
            Ok(())
        });
    }
    for sealed in tally::tables() {
        attempt(sealed.table, &mut faults, |faults| {
            let has_damage = damaged.contains(&sealed.table);
            faults.extend(missing_rows(conn, sealed, sid, has_damage)?);
            Ok(())
        });
    }
    let faults = faults.into_iter().map(|fault| fault.in_session(session));
    report.faults.extend(faults);
}

/// The greatest number of leases that a session can have had.
pub(super) const MAX_EPOCH: i64 = 1 << 53;

/// The condition of a session whose lease no program has written.
pub(super) const INVALID_LEASE: &str = "epoch NOT BETWEEN 0 AND 9007199254740992 OR until < 0
    OR (owner IS NULL AND until <> 0) OR length(owner) NOT BETWEEN 1 AND 4096";

/// Checks the lease of a session, which has no checksum.
fn lease(conn: &Connection, sid: i64, faults: &mut Vec<IntegrityFault>) -> SqliteResult<()> {
    let invalid = conn
        .prepare_cached(&format!(
            "SELECT 1 FROM session WHERE sid = ?1 AND ({INVALID_LEASE})"
        ))?
        .exists([sid])?;
    if invalid {
        faults.push(IntegrityFault::new("session", "has an invalid lease"));
    }
    Ok(())
}

/// The maximum number of missing rows that are named.
const MAX_NAMED: usize = 20;

/// Compares the rows of a session in a table with the tally of them.
pub(super) fn missing_rows(
    conn: &Connection,
    sealed: Sealed,
    sid: i64,
    has_damage: bool,
) -> SqliteResult<Vec<IntegrityFault>> {
    let range = Range::from_session(sid)?;
    let tally = Tally::of(conn, sealed, [range.first(), range.last(), sid])?;
    let table = sealed.table;
    let missing = tally.missing();
    let mut faults = Vec::new();
    if missing > 0 {
        let first = match table {
            "message" | "audit" => Some(0),
            "entry" => Some(1),
            _ => None,
        };
        if let Some(first) = first {
            let places = range.first() + first..range.first() + first + tally.kept.0;
            faults = gaps(conn, table, places)?;
        }
        if faults.is_empty() {
            let (found, kept) = (tally.counted.0, tally.kept.0);
            let problem = format!("{found} rows of `{table}`, {kept} were stored");
            faults.push(IntegrityFault::new(table, problem));
        }
    } else if missing < 0 {
        let (found, kept) = (tally.counted.0, tally.kept.0);
        let problem = format!("{found} rows of `{table}`, only {kept} were stored");
        faults.push(IntegrityFault::new(table, problem));
    } else if tally.kept.1 != tally.counted.1 && !has_damage {
        let problem = format!("the rows of `{table}` are not those that were stored last");
        faults.push(IntegrityFault::new(table, problem));
    }
    Ok(faults)
}

/// Names the places of a range without a row.
fn gaps(
    conn: &Connection,
    table: &'static str,
    places: std::ops::Range<i64>,
) -> SqliteResult<Vec<IntegrityFault>> {
    let mut faults = Vec::new();
    let mut next = places.start;
    let mut statement = conn.prepare_cached(&format!(
        "SELECT pos FROM {table} WHERE pos >= ?1 AND pos < ?2 ORDER BY pos"
    ))?;
    let mut rows = statement.query([places.start, places.end])?;
    while faults.len() < MAX_NAMED {
        let place = match rows.next()? {
            Some(row) => row.get(0)?,
            None => places.end,
        };
        let missing = (next..place).take(MAX_NAMED - faults.len());
        faults.extend(
            missing.map(|place| IntegrityFault::new(table, "is missing").at(position(place))),
        );
        if place == places.end {
            break;
        }
        next = place + 1;
    }
    Ok(faults)
}

/// Compares the numbers of a session's row with its rows; returns the number of messages.
fn counts(conn: &Connection, sid: i64, faults: &mut Vec<IntegrityFault>) -> SqliteResult<u64> {
    let range = Range::from_session(sid)?;
    let ends = [range.first(), range.last()];
    let count = |sql: &str| -> SqliteResult<i64> {
        Ok(conn
            .prepare_cached(sql)?
            .query_row(ends, |row| row.get(0))?)
    };
    let (seq, entries, cursor): (i64, i64, i64) = conn
        .prepare_cached("SELECT seq, entries, cursor FROM session WHERE sid = ?1")?
        .query_row([sid], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;

    let messages = count("SELECT count(*) FROM message WHERE pos BETWEEN ?1 AND ?2")?;
    let end = count(
        "SELECT ifnull(max(pos) + 1, ?1) - ?1 + 0 * ?2 FROM message WHERE pos BETWEEN ?1 AND ?2",
    )?;
    if messages != seq || end != seq {
        let problem = format!("{messages} messages up to position {end}, expected {seq}");
        faults.push(IntegrityFault::new("session", problem));
    }
    let found = count("SELECT count(*) FROM entry WHERE pos BETWEEN ?1 AND ?2")?;
    let last =
        count("SELECT ifnull(max(pos), ?1) - ?1 + 0 * ?2 FROM entry WHERE pos BETWEEN ?1 AND ?2")?;
    if found != entries || last != entries || cursor > entries || cursor < 0 {
        let problem =
            format!("{found} entries up to {last}, expected {entries} with {cursor} settled");
        faults.push(IntegrityFault::new("session", problem));
    }
    Ok(messages.unsigned_abs())
}

/// The conditions of entries that break a rule, with the problems.
pub(super) const ENTRY_RULES: [(&str, &str); 9] = [
    (
        "has an invalid key, digest or invocation",
        "NOT is_id(key) OR NOT is_id(digest) OR NOT is_id(invocation)",
    ),
    (
        "has a negative number",
        "min(accepted_at, ifnull(at, 0), ifnull(replies_from, 0), ifnull(replies_to, 0)) < 0",
    ),
    (
        "is settled without a complete outcome",
        "pos & 0xffffffff <= SETTLED AND (kind IS NULL OR at IS NULL OR invocation IS NULL
         OR replies_from IS NULL
         OR ifnull(replies_to > (SELECT seq FROM session WHERE sid = pos >> 32), true))",
    ),
    (
        "has an outcome and is not settled",
        "pos & 0xffffffff > SETTLED AND kind IS NOT NULL",
    ),
    (
        "has an outcome of an unknown kind",
        "kind IS NOT NULL AND kind NOT BETWEEN 0 AND 3",
    ),
    (
        "has an unknown kind of cancellation",
        "cancel IS NOT NULL AND cancel NOT BETWEEN 0 AND 1",
    ),
    (
        "runs and is not the next one",
        "pos & 0xffffffff > SETTLED + 1 AND invocation IS NOT NULL",
    ),
    (
        "is pending without a payload",
        "pos & 0xffffffff > SETTLED AND pos NOT IN (SELECT pos FROM work)",
    ),
    (
        "has an outcome with invalid JSON",
        "body IS NOT NULL AND NOT json_valid(body)",
    ),
];

/// The condition of a note or record of the audit with an invalid invocation.
pub(super) const NO_INVOCATION: &str = "NOT is_id(invocation)";

/// The condition of a suspension with such an invocation or signal.
pub(super) const NO_SIGNAL: &str = "NOT is_id(invocation) OR NOT is_id(signal_id)";

/// Checks the entries of a session and their outcomes.
fn entries(conn: &Connection, sid: i64, faults: &mut Vec<IntegrityFault>) -> SqliteResult<()> {
    for (problem, condition) in ENTRY_RULES {
        let rows = entry_rows(conn, sid, condition, problem)?;
        faults.extend(rows.into_iter().take(MAX_NAMED).map(|row| row.fault));
    }
    Ok(())
}

/// Finds the entries of a session that satisfy a condition of [`ENTRY_RULES`].
pub(super) fn entry_rows(
    conn: &Connection,
    sid: i64,
    condition: &str,
    problem: &str,
) -> SqliteResult<Vec<DamagedRow>> {
    let settled = format!("(SELECT cursor FROM session WHERE sid = {sid})");
    let condition = condition.replace("SETTLED", &settled);
    rows_with(conn, seal::ENTRY, sid, &condition, problem)
}

/// The condition of a suspension that disagrees with its entry.
///
/// The entry is the signal, or the one that tried its failed turn again.
pub(super) const INCONSISTENT: &str =
    "status NOT BETWEEN 0 AND 2 OR (status = 0) <> (entry IS NULL)
    OR (entry IS NOT NULL AND NOT EXISTS
        (SELECT 1 FROM entry WHERE pos = (suspension.sid << 32) + suspension.entry))";

/// Checks stored JSON, journals, and the entries of suspensions.
fn bodies(conn: &Connection, sid: i64, faults: &mut Vec<IntegrityFault>) -> SqliteResult<()> {
    let range = Range::from_session(sid)?;
    let inconsistent =
        format!("SELECT count(*) FROM suspension WHERE sid = ?3 AND ?1 <= ?2 AND ({INCONSISTENT})");
    let invalid_messages = format!(
        "SELECT count(*) FROM message WHERE pos BETWEEN ?1 AND ?2 AND ?3 AND {}",
        message_body::INVALID
    );
    let no_note =
        format!("SELECT count(*) FROM note WHERE sid = ?3 AND ?1 <= ?2 AND {NO_INVOCATION}");
    let no_audit = format!(
        "SELECT count(*) FROM audit WHERE pos BETWEEN ?1 AND ?2 AND ?3 AND {NO_INVOCATION}"
    );
    let no_signal =
        format!("SELECT count(*) FROM suspension WHERE sid = ?3 AND ?1 <= ?2 AND ({NO_SIGNAL})");
    let checks = [
        ("note", "notes with an invalid invocation", no_note.as_str()),
        ("audit", "records with an invalid invocation", no_audit.as_str()),
        ("suspension", "with an invalid invocation or signal", no_signal.as_str()),
        (
            "message",
            "messages with invalid JSON",
            invalid_messages.as_str(),
        ),
        (
            "audit",
            "records with invalid JSON",
            "SELECT count(*) FROM audit WHERE pos BETWEEN ?1 AND ?2 AND ?3 AND NOT json_valid(body)",
        ),
        (
            "work",
            "payloads with invalid JSON",
            "SELECT count(*) FROM work WHERE pos BETWEEN ?1 AND ?2 AND ?3 AND NOT json_valid(body)",
        ),
        (
            "field",
            "fields or labels with invalid JSON",
            "SELECT count(*) FROM (SELECT sid, value FROM field UNION ALL SELECT sid, value FROM label)
             WHERE sid = ?3 AND ?1 <= ?2 AND NOT json_valid(value)",
        ),
        (
            "note",
            "notes with invalid JSON",
            "SELECT count(*) FROM note WHERE sid = ?3 AND ?1 <= ?2 AND NOT json_valid(body)",
        ),
        (
            "note",
            "journals with gaps",
            "SELECT count(*) FROM (SELECT 1 FROM note WHERE sid = ?3 AND ?1 <= ?2
             GROUP BY invocation HAVING min(seq) <> 0 OR max(seq) <> count(*) - 1)",
        ),
        (
            "suspension",
            "inconsistent with their entries",
            inconsistent.as_str(),
        ),
    ];
    for (record, problem, sql) in checks {
        let found: i64 = conn
            .prepare_cached(sql)?
            .query_row([range.first(), range.last(), sid], |row| row.get(0))?;
        if found > 0 {
            faults.push(IntegrityFault::new(record, format!("{found} {problem}")));
        }
    }
    Ok(())
}

/// Finds the rows of a session whose content does not match their checksum.
pub(super) fn damaged_rows(conn: &Connection, sid: i64) -> SqliteResult<Vec<DamagedRow>> {
    let mut damaged = Vec::new();
    for sealed in seal::TABLES {
        damaged.append(&mut damaged_rows_of(conn, *sealed, sid)?);
    }
    Ok(damaged)
}

fn damaged_rows_of(conn: &Connection, sealed: Sealed, sid: i64) -> SqliteResult<Vec<DamagedRow>> {
    let condition = format!("sum IS NOT row_sum({})", sealed.columns);
    let problem = "the checksum does not match the content";
    rows_with(conn, sealed, sid, &condition, problem)
}

/// Finds the rows of a session that satisfy a condition, which is the problem.
pub(super) fn rows_with(
    conn: &Connection,
    sealed: Sealed,
    sid: i64,
    condition: &str,
    problem: &str,
) -> SqliteResult<Vec<DamagedRow>> {
    let range = Range::from_session(sid)?;
    let mut found = Vec::new();
    let Sealed {
        table,
        key,
        of_session,
        position,
        name,
        ..
    } = sealed;
    let mut statement = conn.prepare(&format!(
        "SELECT {position}, {name}, {key} FROM {table} WHERE {of_session} AND ({condition})"
    ))?;
    let keys = statement.column_count() - 2;
    let mut rows = statement.query([range.first(), range.last(), sid])?;
    while let Some(row) = rows.next()? {
        let mut fault = match name_of(row)? {
            Some(name) => IntegrityFault::new(table, format!("`{name}`: {problem}")).named(&name),
            None => IntegrityFault::new(table, problem),
        };
        let position: Option<i64> = row.get(0)?;
        if let Some(position) = position {
            fault = fault.at(position.unsigned_abs());
        }
        let key = (0..keys).map(|index| row.get(index + 2));
        found.push(DamagedRow {
            sealed,
            key: key.collect::<Result<_, _>>()?,
            fault,
        });
    }
    Ok(found)
}

/// Returns the name in the second column.
fn name_of(row: &Row<'_>) -> rusqlite::Result<Option<String>> {
    Ok(match row.get_ref(1)? {
        ValueRef::Null => None,
        ValueRef::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => row.get::<_, Id>(1).ok().map(|id| id.0),
    })
}

fn each(
    conn: &Connection,
    sql: &str,
    mut look: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<()>,
) -> SqliteResult<()> {
    let mut statement = conn.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        look(row)?;
    }
    Ok(())
}
