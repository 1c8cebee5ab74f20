//! Repair: damaged rows go to quarantine, and indexes are built again.
//!
//! What is sound keeps its position. A placeholder takes the place of what others refer to, and the
//! removed row stays readable in the table `quarantine`.

use std::path::Path;

use logue_harness::Timestamp;
use logue_harness::store::{IntegrityFault, RepairReport};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::column::{Range, TimestampColumn};
use super::error::{SqliteResult, damaged};
use super::quarantine::{
    MAX_GAP, QUARANTINED, QUARANTINED_WORK, keep, keep_statement, mark_lost_labels,
    put_placeholder, remove, repair_entry, replace,
};
use super::seal::{self, AUDIT, ENTRY, FIELD, LABEL, MESSAGE, NOTE, SESSION, SUSPENSION, WORK};
use super::tally::{self, Tally};
use super::verify::{
    DamagedRow, ENTRY_RULES, INCONSISTENT, INVALID_LEASE, MAX_EPOCH, NO_INVOCATION, NO_SIGNAL,
    damaged_rows, entry_rows, missing_rows, rows_with, sessions, verify,
};
use super::{message_body, restore, schema};

/// The greatest number of a session whose rows have places.
const MAX_SESSION: i64 = 0x7fff_ffff;

/// Repairs the file in the transaction of the caller.
pub(super) fn repair(conn: &Connection, path: &Path, now: Timestamp) -> SqliteResult<RepairReport> {
    // Rows on pages that cannot be read would look as if they were missing.
    let pages: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if pages != "ok" {
        return Err(damaged(path, &pages).into());
    }
    let mut report = RepairReport::default();
    tables(conn, &mut report, now)?;
    foreign_sessions(conn, &mut report, now)?;
    for (sid, session) in sessions(conn)? {
        one(conn, sid, &session, &mut report, now)?;
    }
    without_session(conn, &mut report, now)?;
    keys(conn, &mut report, now)?;
    for object in schema::difference(conn)?.missing {
        conn.execute_batch(&object.sql)?;
        report.rebuilt.push(object.name);
    }
    for (sid, _) in sessions(conn)? {
        for sealed in tally::tables() {
            let range = Range::from_session(sid)?;
            let tally = Tally::of(conn, sealed, [range.first(), range.last(), sid])?;
            if tally.kept != tally.counted {
                tally::set(conn, sid, &tally)?;
            }
        }
    }
    report.remaining = verify(conn, path, None)?.faults;
    Ok(report)
}

/// Moves the records of the given faults to quarantine.
///
/// Returns the faults that have no record here.
pub(super) fn quarantine(
    conn: &Connection,
    faults: Vec<IntegrityFault>,
    now: Timestamp,
) -> SqliteResult<RepairReport> {
    let mut report = RepairReport::default();
    for fault in faults {
        let session = fault.session.as_deref().unwrap_or_default();
        let sid: Option<i64> = conn
            .prepare_cached("SELECT sid FROM session WHERE id = ?1")?
            .query_row([session], |row| row.get(0))
            .optional()?;
        let row = match sid {
            Some(sid) => record_of(conn, sid, &fault)?.map(|row| (sid, row)),
            None => None,
        };
        let Some((sid, row)) = row else {
            report.remaining.push(fault);
            continue;
        };
        keep(conn, &row, &fault, now)?;
        replace(conn, sid, &row, now)?;
        report.quarantined.push(fault);
    }
    Ok(report)
}

/// Finds the row of a record.
fn record_of(
    conn: &Connection,
    sid: i64,
    fault: &IntegrityFault,
) -> SqliteResult<Option<DamagedRow>> {
    let sealed = match fault.record {
        "message" => MESSAGE,
        "entry" => WORK,
        "outcome" => ENTRY,
        "note" => NOTE,
        "suspension" => SUSPENSION,
        "label" => LABEL,
        "field" => FIELD,
        _ => return Ok(None),
    };
    let rows = rows_with(conn, sealed, sid, "true", &fault.problem)?;
    let found = rows.into_iter().find(|row| {
        row.fault.position == fault.position
            && (fault.name.is_none() || row.fault.name == fault.name)
    });
    Ok(found.filter(|_| fault.position.is_some() || fault.name.is_some()))
}

/// Removes what does not belong to the format, and creates missing tables and sound indexes.
fn tables(conn: &Connection, report: &mut RepairReport, now: Timestamp) -> SqliteResult<()> {
    let difference = schema::difference(conn)?;
    for object in difference.missing.iter().filter(|one| one.kind == "table") {
        conn.execute_batch(&object.sql)?;
        report.rebuilt.push(object.name.clone());
    }
    tally::watch(conn)?;
    // An added trigger would change rows during the repair. An added table stays.
    for object in difference.added.iter().filter(|one| one.kind != "table") {
        let problem = format!(
            "the {} `{}` does not belong to a session store",
            object.kind, object.name
        );
        let fault = IntegrityFault::new("file", problem);
        keep_statement(conn, &fault, &object.sql, now)?;
        let name = object.name.replace('"', "\"\"");
        conn.execute_batch(&format!("DROP {} IF EXISTS \"{name}\"", object.kind))?;
        report.quarantined.push(fault);
    }
    // An index that disagrees with its table would hide rows from what follows. That of the keys is
    // built at the end, because it needs keys that differ.
    for object in difference.missing.iter().filter(|one| one.kind == "index") {
        let name = object.name.replace('"', "\"\"");
        conn.execute_batch(&format!("DROP INDEX IF EXISTS \"{name}\""))?;
    }
    let duplicates: Vec<i64> = conn
        .prepare(
            "SELECT sid FROM (SELECT sid, row_number() OVER (PARTITION BY id ORDER BY sid) AS n
                 FROM session NOT INDEXED) WHERE n > 1",
        )?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for sid in duplicates {
        let id = restore::rename(conn, sid)?;
        let problem = format!("another session has its id; it is kept as `{id}`");
        report.lost.push(IntegrityFault::new("session", problem));
    }
    let rebuilt = conn.execute_batch("REINDEX");
    if rebuilt.is_err() {
        // Two entries have one key, and the index hides it.
        conn.execute_batch("DROP INDEX IF EXISTS entry_key; REINDEX")?;
    }
    Ok(())
}

/// Moves sessions to quarantine whose numbers no session can have, and adopts rows without one.
fn foreign_sessions(
    conn: &Connection,
    report: &mut RepairReport,
    now: Timestamp,
) -> SqliteResult<()> {
    let problem = format!("has a number outside 1 to {MAX_SESSION}");
    let outside = format!("sid NOT BETWEEN 1 AND {MAX_SESSION}");
    // Entries are numbered from 1, so no session would have this one.
    for sealed in [WORK, ENTRY] {
        let removed = remove(conn, sealed, "pos & 0xffffffff = 0", "has position 0", now)?;
        report.quarantined.extend(removed);
    }
    for sealed in [FIELD, LABEL, NOTE, SUSPENSION, SESSION] {
        let removed = remove(conn, sealed, &outside, &problem, now)?;
        report.quarantined.extend(removed);
    }
    let strays: Vec<i64> = conn
        .prepare(&format!(
            "SELECT sid FROM (SELECT pos >> 32 AS sid FROM message
                 UNION SELECT pos >> 32 FROM entry UNION SELECT pos >> 32 FROM audit
                 UNION SELECT sid FROM field UNION SELECT sid FROM label
                 UNION SELECT sid FROM note UNION SELECT sid FROM suspension)
             WHERE sid BETWEEN 1 AND {MAX_SESSION} AND sid NOT IN (SELECT sid FROM session)"
        ))?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for sid in strays {
        conn.prepare_cached(
            "INSERT INTO session (sid, id, has_state, epoch, created_at, updated_at)
             VALUES (?1, 'recovered-' || ?1 || '-' || lower(hex(randomblob(4))), 1,
                 ifnull((SELECT value FROM meta WHERE name = 'epochs'), 0), ?2, ?2)",
        )?
        .execute(params![sid, TimestampColumn(now)])?;
        seal::seal_session(conn, sid)?;
        let id: String = conn
            .prepare_cached("SELECT id FROM session WHERE sid = ?1")?
            .query_row([sid], |row| row.get(0))?;
        let problem = format!("its row is missing; what is left is kept as `{id}`");
        report.lost.push(IntegrityFault::new("session", problem));
    }
    Ok(())
}

/// Moves rows to quarantine that belong to no session or entry.
fn without_session(
    conn: &Connection,
    report: &mut RepairReport,
    now: Timestamp,
) -> SqliteResult<()> {
    for sealed in [MESSAGE, ENTRY, WORK, AUDIT] {
        let stray = "pos >> 32 NOT IN (SELECT sid FROM session)";
        let removed = remove(conn, sealed, stray, "has no session", now)?;
        report.quarantined.extend(removed);
    }
    let stray = "pos NOT IN (SELECT pos FROM entry)";
    let removed = remove(conn, WORK, stray, "has no entry", now)?;
    report.quarantined.extend(removed);
    Ok(())
}

/// Leaves each key of a session to its first entry.
fn keys(conn: &Connection, report: &mut RepairReport, now: Timestamp) -> SqliteResult<()> {
    for (sid, session) in sessions(conn)? {
        let range = Range::from_session(sid)?;
        let condition = format!(
            "pos IN (SELECT pos FROM (SELECT pos,
                 row_number() OVER (PARTITION BY key ORDER BY pos) AS n FROM entry NOT INDEXED
                 WHERE key IS NOT NULL AND pos BETWEEN {} AND {}) WHERE n > 1)",
            range.first(),
            range.last()
        );
        let problem = "has the key of an earlier entry";
        for row in rows_with(conn, ENTRY, sid, &condition, problem)? {
            let fault = row.fault.clone().in_session(&session);
            keep(conn, &row, &fault, now)?;
            let place = range.at(fault.position.unwrap_or_default())?;
            conn.prepare_cached("UPDATE entry SET key = NULL, digest = NULL WHERE pos = ?1")?
                .execute([place])?;
            seal::seal_entry(conn, place)?;
            report.quarantined.push(fault);
        }
    }
    Ok(())
}

/// Repairs one session.
fn one(
    conn: &Connection,
    sid: i64,
    session: &str,
    report: &mut RepairReport,
    now: Timestamp,
) -> SqliteResult<()> {
    let rows = damaged_rows(conn, sid)?;
    let has_damage = |table: &str| rows.iter().any(|row| row.sealed.table == table);
    let mut lost_notes = 0;
    let lost_before = report.lost.len();
    for sealed in tally::tables() {
        let missing = missing_rows(conn, sealed, sid, has_damage(sealed.table))?;
        let missing = missing.into_iter().map(|fault| fault.in_session(session));
        report.lost.extend(missing);
        if sealed.table == NOTE.table {
            let range = Range::from_session(sid)?;
            let tally = Tally::of(conn, sealed, [range.first(), range.last(), sid])?;
            lost_notes = tally.missing();
        }
    }
    let lost = report.lost.iter().skip(lost_before);
    let has_lost_labels = lost.into_iter().any(|fault| fault.record == LABEL.table);
    let mut session_row = None;
    for row in rows {
        if row.sealed.table == SESSION.table {
            keep(conn, &row, &row.fault.clone().in_session(session), now)?;
            session_row = Some(row);
        }
    }
    let is_sound = match &session_row {
        Some(_) => restore::sole_flip(conn, sid)?,
        None => true,
    };
    if !is_sound {
        count_again(conn, sid)?;
    }
    lost_notes = lost_notes.max(0) + remove_notes(conn, sid, session, report, now)?;
    quarantine_rows(conn, sid, session, report, now)?;
    if has_lost_labels || lost_notes > 0 {
        mark_lost_labels(conn, sid)?;
    }
    fill_messages(conn, sid, is_sound, now)?;
    fill_entries(conn, sid, is_sound, now)?;
    fill_notes(conn, sid, lost_notes)?;
    fill_audit(conn, sid, now)?;
    count_again(conn, sid)?;
    invalid_rows(conn, sid, session, report, now)?;
    count_again(conn, sid)?;
    restore::lease(conn, sid, INVALID_LEASE, MAX_EPOCH)?;
    if let Some(row) = session_row {
        let fault = row.fault.in_session(session);
        report
            .quarantined
            .push(restore::settle(conn, sid, is_sound, fault)?);
    }
    Ok(())
}

/// Moves the notes to quarantine with an invalid invocation; returns their number.
fn remove_notes(
    conn: &Connection,
    sid: i64,
    session: &str,
    report: &mut RepairReport,
    now: Timestamp,
) -> SqliteResult<i64> {
    let condition = format!("sid = {sid} AND {NO_INVOCATION}");
    let removed = remove(conn, NOTE, &condition, "has an invalid invocation", now)?;
    let count = i64::try_from(removed.len()).unwrap_or(i64::MAX);
    let removed = removed.into_iter().map(|fault| fault.in_session(session));
    report.quarantined.extend(removed);
    Ok(count)
}

/// Moves the rows of a session with wrong checksums to quarantine.
fn quarantine_rows(
    conn: &Connection,
    sid: i64,
    session: &str,
    report: &mut RepairReport,
    now: Timestamp,
) -> SqliteResult<()> {
    for row in damaged_rows(conn, sid)? {
        if row.sealed.table == SESSION.table {
            continue;
        }
        let fault = row.fault.clone().in_session(session);
        keep(conn, &row, &fault, now)?;
        replace(conn, sid, &row, now)?;
        report.quarantined.push(fault);
    }
    Ok(())
}

/// Moves rows to quarantine that have a checksum and break a rule.
fn invalid_rows(
    conn: &Connection,
    sid: i64,
    session: &str,
    report: &mut RepairReport,
    now: Timestamp,
) -> SqliteResult<()> {
    let json = "is invalid JSON";
    let rules = [
        (MESSAGE, message_body::INVALID, json),
        (AUDIT, "NOT json_valid(body)", json),
        (WORK, "NOT json_valid(body)", json),
        (NOTE, "NOT json_valid(body)", json),
        (FIELD, "NOT json_valid(value)", json),
        (LABEL, "NOT json_valid(value)", json),
        (AUDIT, NO_INVOCATION, "has an invalid invocation"),
        (SUSPENSION, NO_SIGNAL, "has an invalid invocation or signal"),
        (SUSPENSION, INCONSISTENT, "disagrees with its entry"),
    ];
    let mut rows = Vec::new();
    for (sealed, condition, problem) in rules {
        rows.append(&mut rows_with(conn, sealed, sid, condition, problem)?);
    }
    for (problem, condition) in ENTRY_RULES {
        rows.append(&mut entry_rows(conn, sid, condition, problem)?);
    }
    for row in rows {
        let fault = row.fault.clone().in_session(session);
        keep(conn, &row, &fault, now)?;
        replace(conn, sid, &row, now)?;
        report.quarantined.push(fault);
    }
    Ok(())
}

/// Returns whether a session can have this number of rows.
fn is_length(rows: i64) -> bool {
    u32::try_from(rows).is_ok_and(|rows| rows < u32::MAX)
}

/// Puts a placeholder at each position without a message.
fn fill_messages(conn: &Connection, sid: i64, is_sound: bool, now: Timestamp) -> SqliteResult<()> {
    let range = Range::from_session(sid)?;
    let seq = number(conn, "seq", sid)?;
    let is_sound = is_sound && is_length(seq);
    let end = range.first() + if is_sound { seq } else { 0 };
    for missing in gaps(conn, "message", range.first()..end, range)? {
        put_placeholder(conn, missing, now)?;
    }
    Ok(())
}

/// Puts an entry at each position without one: a failed one, or one whose turn will fail.
///
/// An entry that had not begun and whose payload is there is pending again.
fn fill_entries(conn: &Connection, sid: i64, is_sound: bool, now: Timestamp) -> SqliteResult<()> {
    let range = Range::from_session(sid)?;
    let (entries, cursor) = (number(conn, "entries", sid)?, number(conn, "cursor", sid)?);
    let is_sound = is_sound && is_length(entries) && is_length(cursor);
    let cursor = cursor.clamp(0, i64::from(u32::MAX) - 1);
    let end = range.first() + 1 + if is_sound { entries } else { 0 };
    let places = gaps(conn, "entry", range.first() + 1..end, range)?;
    for place in places {
        // The journal of no other entry is that of the missing one, which had begun.
        let begun = if place == range.first() + cursor + 1 {
            "(SELECT invocation FROM note WHERE sid = ?3 AND invocation NOT IN
                 (SELECT invocation FROM entry WHERE pos BETWEEN ?4 AND ?5
                  AND invocation IS NOT NULL) LIMIT 1)"
        } else {
            "NULL"
        };
        conn.prepare_cached(&format!(
            "INSERT INTO entry (pos, resumes, invocation, accepted_at)
             SELECT ?1, EXISTS (SELECT 1 FROM suspension WHERE sid = ?3
                 AND entry = ?1 & 0xffffffff), {begun}, ?2 WHERE ?4 <= ?5"
        ))?
        .execute(params![
            place,
            TimestampColumn(now),
            sid,
            range.first(),
            range.last()
        ])?;
        seal::seal_entry(conn, place)?;
        let rows = entry_rows(conn, sid, &format!("pos = {place}"), "is missing")?;
        for row in rows {
            let resumes: bool = resumes(conn, place)?;
            repair_entry(conn, sid, &row, now)?;
            conn.prepare_cached("UPDATE entry SET resumes = ?2 WHERE pos = ?1")?
                .execute(params![place, resumes])?;
            seal::seal_entry(conn, place)?;
        }
    }
    conn.prepare_cached(
        "INSERT INTO work SELECT pos, ?3, row_sum(pos, ?3) FROM entry
         WHERE pos > ?1 AND pos <= ?2 AND kind IS NULL AND pos NOT IN (SELECT pos FROM work)",
    )?
    .execute(params![
        range.first() + cursor,
        range.last(),
        QUARANTINED_WORK
    ])?;
    Ok(())
}

fn resumes(conn: &Connection, place: i64) -> SqliteResult<bool> {
    Ok(conn
        .prepare_cached(
            "SELECT resumes OR EXISTS (SELECT 1 FROM work WHERE work.pos = entry.pos
                 AND json_valid(body) AND json_extract(body, '$.kind') = 'resume')
             FROM entry WHERE pos = ?1",
        )?
        .query_row([place], |row| row.get(0))?)
}

/// Puts a note that cannot be read at each position without one.
///
/// A turn with such a note fails, because a call that had begun must not run again. `lost` notes may
/// have been the last ones of the turn that runs.
fn fill_notes(conn: &Connection, sid: i64, lost: i64) -> SqliteResult<()> {
    let filled = conn
        .prepare_cached(
            "WITH RECURSIVE ends (invocation, last) AS
                 (SELECT invocation, min(max(seq), 100000) FROM note WHERE sid = ?1
                  GROUP BY invocation),
             place (invocation, seq, last) AS (SELECT invocation, 0, last FROM ends
                 UNION ALL SELECT invocation, seq + 1, last FROM place WHERE seq < last)
             INSERT INTO note SELECT ?1, invocation, seq, ?2, row_sum(?1, invocation, seq, ?2)
             FROM place WHERE true ON CONFLICT DO NOTHING",
        )?
        .execute(params![sid, QUARANTINED])?;
    let missing = lost - i64::try_from(filled).unwrap_or(i64::MAX);
    if missing > 0 {
        let front = Range::from_session(sid)?.first() + number(conn, "cursor", sid)? + 1;
        conn.prepare_cached(
            "INSERT INTO note SELECT ?1, invocation, seq, ?2, row_sum(?1, invocation, seq, ?2)
             FROM (SELECT invocation, (SELECT ifnull(max(seq) + 1, 0) FROM note
                     WHERE sid = ?1 AND note.invocation = entry.invocation) AS seq
                   FROM entry WHERE pos = ?3 AND invocation IS NOT NULL)",
        )?
        .execute(params![sid, QUARANTINED, front])?;
    }
    Ok(())
}

/// Puts a record that states the loss at each position of the audit without one.
fn fill_audit(conn: &Connection, sid: i64, now: Timestamp) -> SqliteResult<()> {
    let range = Range::from_session(sid)?;
    for place in gaps(conn, "audit", range.first()..range.first(), range)? {
        conn.prepare_cached(
            "INSERT INTO audit VALUES (?1, 'unknown', ?2, ?3, row_sum(?1, 'unknown', ?2, ?3))",
        )?
        .execute(params![place, QUARANTINED, TimestampColumn(now)])?;
    }
    Ok(())
}

/// Returns the places of a range, or before the last row, that have no row.
fn gaps(
    conn: &Connection,
    table: &str,
    expected: std::ops::Range<i64>,
    range: Range,
) -> SqliteResult<Vec<i64>> {
    let mut places: Vec<i64> = conn
        .prepare_cached(&format!(
            "SELECT pos FROM {table} WHERE pos BETWEEN ?1 AND ?2 ORDER BY pos"
        ))?
        .query_map([expected.start, range.last()], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    places.push(expected.end);
    let mut missing = Vec::new();
    let mut next = expected.start;
    for place in places {
        // More than this is damage of a place, and stays a fault.
        if place - next <= MAX_GAP {
            missing.extend(next..place);
        }
        next = next.max(place + 1);
    }
    Ok(missing)
}

fn number(conn: &Connection, column: &str, sid: i64) -> SqliteResult<i64> {
    Ok(conn
        .prepare_cached(&format!("SELECT {column} FROM session WHERE sid = ?1"))?
        .query_row([sid], |row| row.get(0))?)
}

/// Sets the numbers of a session from its rows. A wrong checksum stays wrong.
fn count_again(conn: &Connection, sid: i64) -> SqliteResult<()> {
    let range = Range::from_session(sid)?;
    let is_sealed = conn
        .prepare_cached(&format!(
            "SELECT 1 FROM session WHERE sid = ?1 AND sum IS row_sum({})",
            SESSION.columns
        ))?
        .exists([sid])?;
    let changed = conn
        .prepare_cached(
            "WITH found (seq, entries, cursor) AS (SELECT
                 (SELECT ifnull(max(pos) + 1, ?1) - ?1 FROM message WHERE pos BETWEEN ?1 AND ?2),
                 (SELECT ifnull(max(pos), ?1) - ?1 FROM entry WHERE pos BETWEEN ?1 AND ?2),
                 (SELECT ifnull(max(pos), ?1) - ?1 FROM entry
                  WHERE pos BETWEEN ?1 AND ?2 AND kind IS NOT NULL))
             UPDATE session SET (seq, entries, cursor) = (SELECT seq, entries, cursor FROM found)
             WHERE sid = ?3 AND (seq, entries, cursor) <> (SELECT seq, entries, cursor FROM found)",
        )?
        .execute([range.first(), range.last(), sid])?;
    if changed > 0 && is_sealed {
        seal::seal_session(conn, sid)?;
    }
    Ok(())
}
