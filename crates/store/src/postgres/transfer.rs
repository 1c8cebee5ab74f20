//! Complete records of sessions: reading one in pages, writing one in pieces, and the marks of a move.
//!
//! The pages of a record are several statements. A fingerprint of the session before the first and
//! after the last shows whether they are of one moment. The pieces of a new session are invisible to
//! turns, because the session is arriving until its record is complete and has the expected hash.

mod pieces;

use logue_harness::store::{
    AuditEntry, EntryPayload, EntryRecord, ImportResult, Lease, OutcomeRecord, QuarantineRecord,
    RecordArrival, RecordDigest, RecordHash, RecordHead, RecordPart, RecordSink, RecordSource,
    SessionLocation, StoreError, SuspensionRecord, check_session_id,
};
use serde_json::Value;
use tokio_postgres::Row;

use self::pieces::Pieces;
use super::PostgresStore;
use super::call::Call;
use super::column::{count, get, read_count, read_id, read_time, text, time};
use super::error::{damaged, missing, unavailable};
use super::inbox::{json, read_mode};
use super::lease::refusal;
use super::{inbox, session, suspension, turn};
use crate::encoding::parsed_message;

/// The number of rows of a page.
const PAGE: usize = 64;
/// The number of attempts to read a record that changes meanwhile.
const ATTEMPTS: usize = 10;

/// The state of a session before its pages are read.
struct Start {
    sid: i64,
    fingerprint: String,
}

impl PostgresStore {
    /// Emits the record of a session. Returns its fingerprint, or `None` if there is no session.
    pub(super) async fn export_record(
        &self,
        session: &str,
        sink: &mut dyn RecordSink,
    ) -> Result<Option<String>, StoreError> {
        for _ in 0..ATTEMPTS {
            let Some(start) = self.start(session, sink).await? else {
                return Ok(None);
            };
            self.export_pages(session, start.sid, sink).await?;
            let call = Call::new("SELECT coalesce(logue.fingerprint($1), '') AS fingerprint");
            let end = self.one(Ok(call.number(start.sid)), |row| {
                get::<String>(row, "fingerprint")
            });
            if end.await? == start.fingerprint {
                return Ok(Some(start.fingerprint));
            }
        }
        let shown = &self.link.shared.address.shown;
        Err(unavailable(
            shown,
            &format!("the session `{session}` changes too often to be read; try again"),
        ))
    }

    /// Checks a session and emits the head of its record.
    async fn start(
        &self,
        session: &str,
        sink: &mut dyn RecordSink,
    ) -> Result<Option<Start>, StoreError> {
        let call = Call::new(concat!(
            "SELECT s.sid, s.epoch, s.has_state, s.schema_version, s.seq, s.entries, s.cursor,
                 s.created_at, s.updated_at, logue.fingerprint(s.sid) AS fingerprint,
                 (SELECT f.record || ' ' || coalesce(f.place::text, '') || ': ' || f.problem
                  FROM logue.faults(s.sid) f LIMIT 1) AS fault
             FROM logue.session s WHERE ",
            of_session!()
        ));
        let call = call.bytes(session.as_bytes().to_vec()).long();
        let read = self.maybe(call, |row| {
            if let Some(fault) = get::<Option<String>>(row, "fault")? {
                return Err(damaged(session, &fault));
            }
            let number = |column| read_count(get(row, column)?);
            let version: Option<Vec<u8>> = get(row, "schema_version")?;
            let head = RecordHead {
                session: session.to_owned(),
                epoch: number("epoch")?,
                has_state: get(row, "has_state")?,
                schema_version: version.as_deref().map(text).transpose()?,
                messages: number("seq")?,
                entries: number("entries")?,
                settled: number("cursor")?,
                created_at: read_time(get(row, "created_at")?)?,
                updated_at: read_time(get(row, "updated_at")?)?,
            };
            let start = Start {
                sid: get(row, "sid")?,
                fingerprint: get(row, "fingerprint")?,
            };
            Ok((head, start))
        });
        let Some((head, start)) = read.await? else {
            return Ok(None);
        };
        sink.put(RecordPart::Head(head))?;
        Ok(Some(start))
    }

    async fn export_pages(
        &self,
        session: &str,
        sid: i64,
        sink: &mut dyn RecordSink,
    ) -> Result<(), StoreError> {
        let value = |row: &Row| -> Result<(String, Value), StoreError> {
            let name = text(&get::<Vec<u8>>(row, "name")?)?;
            let value: Option<String> = get(row, "value")?;
            let value = value.ok_or_else(|| damaged(session, &format!("the field `{name}`")))?;
            Ok((name, json(&value)?))
        };
        self.pages(FIELDS, sid, sink, |row| {
            let (name, value) = value(row)?;
            Ok(RecordPart::Field { name, value })
        })
        .await?;
        self.pages(LABELS, sid, sink, |row| {
            let (name, value) = value(row)?;
            Ok(RecordPart::Label { name, value })
        })
        .await?;
        self.pages(MESSAGES, sid, sink, |row| {
            let seq = read_count(get(row, "place")?)?;
            let body: Option<String> = get(row, "body")?;
            let message = body.and_then(|body| parsed_message(&body).ok());
            let message = message.ok_or_else(|| damaged(session, &format!("message {seq}")))?;
            Ok(RecordPart::Message { seq, message })
        })
        .await?;
        self.pages(ENTRIES, sid, sink, |row| {
            Ok(RecordPart::Entry(read_entry(row)?))
        })
        .await?;
        self.export_notes(session, sid, sink).await?;
        self.pages(SUSPENSIONS, sid, sink, |row| {
            let one = suspension::read(row)?;
            Ok(RecordPart::Suspension(SuspensionRecord {
                invocation_id: one.invocation_id,
                signal_id: one.signal_id,
                metadata: one.metadata,
                status: one.status,
                entry: one.entry,
                record: one.record,
                since: one.since,
            }))
        })
        .await?;
        self.pages(AUDIT, sid, sink, |row| {
            Ok(RecordPart::Audit(AuditEntry {
                seq: read_count(get(row, "place")?)?,
                invocation_id: read_id(&get::<Vec<u8>>(row, "invocation")?)?,
                record: json(&get::<String>(row, "body")?)?,
                at: read_time(get(row, "at")?)?,
            }))
        })
        .await?;
        self.pages(QUARANTINE, sid, sink, |row| {
            Ok(RecordPart::Quarantined(QuarantineRecord {
                record: get(row, "record")?,
                position: get(row, "place")?,
                reason: get(row, "reason")?,
                content: get(row, "content")?,
                at: read_time(get(row, "at")?)?,
            }))
        })
        .await
    }

    /// Emits a part for each row of a statement, page by page.
    async fn pages(
        &self,
        sql: &'static str,
        sid: i64,
        sink: &mut dyn RecordSink,
        part: impl Fn(&Row) -> Result<RecordPart, StoreError> + Send + Sync,
    ) -> Result<(), StoreError> {
        let mut from = 0;
        loop {
            let call = Call::new(sql)
                .number(sid)
                .number(from)
                .number(i64::try_from(PAGE).unwrap_or(i64::MAX));
            let parts = self.each(call, &part).await?;
            let is_last = parts.len() < PAGE;
            from += i64::try_from(parts.len()).unwrap_or(i64::MAX);
            for part in parts {
                sink.put(part)?;
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Emits the notes. Their order is that of the texts of the ids, not of the columns.
    async fn export_notes(
        &self,
        session: &str,
        sid: i64,
        sink: &mut dyn RecordSink,
    ) -> Result<(), StoreError> {
        let call = Call::new("SELECT DISTINCT n.invocation FROM logue.note n WHERE n.sid = $1");
        let read = self.each(call.number(sid), |row| {
            read_id(&get::<Vec<u8>>(row, "invocation")?)
        });
        let mut invocations = read.await?;
        invocations.sort_unstable();
        for invocation_id in invocations {
            let notes = self.each(inbox::notes(session, &invocation_id), inbox::read_note);
            for found in notes.await? {
                sink.put(RecordPart::Note {
                    invocation_id: invocation_id.clone(),
                    seq: found.seq,
                    note: found.note,
                })?;
            }
        }
        Ok(())
    }

    pub(super) async fn mark_as_moved(
        &self,
        lease: &Lease,
        hash: RecordHash,
        to: &str,
    ) -> Result<bool, StoreError> {
        let mut digest = RecordDigest::default();
        let Some(fingerprint) = self.export_record(&lease.session, &mut digest).await? else {
            return Err(missing(&lease.session));
        };
        let is_equal = digest.hash() == Some(hash);
        let call = Call::new("SELECT * FROM logue.mark_moved($1, $2, $3, $4, $5, $6)")
            .bytes(lease.session.as_bytes().to_vec())
            .number(count(lease.epoch))
            .bytes(lease.owner.as_bytes().to_vec())
            // Another record than the expected one is refused like one that changed.
            .text(if is_equal { fingerprint } else { String::new() })
            .bytes(SessionLocation::moved_owner(to).into_bytes())
            .flagged();
        self.one(Ok(call), |row| {
            match get::<String>(row, "status")?.as_str() {
                "ok" => Ok(true),
                "changed" => Ok(false),
                status => Err(refusal(lease, row, status)?),
            }
        })
        .await
    }

    pub(super) async fn import_record(
        &self,
        session: &str,
        arrival: &RecordArrival,
        record: &mut dyn RecordSource,
    ) -> Result<ImportResult, StoreError> {
        check_session_id(session)?;
        record.rewind()?;
        let Some(RecordPart::Head(head)) = record.next_part()? else {
            return Err(StoreError::Damaged("a record without its head".to_owned()));
        };
        let Some(sid) = self.begin_import(session, &head, &arrival.from).await? else {
            let location = self.maybe(session::location(session), session::read_location);
            if let Some(SessionLocation::Moved { .. }) = location.await? {
                return Ok(ImportResult::Elsewhere);
            }
            return self.compare(session, arrival.hash, head.epoch).await;
        };
        let written = self.write(sid, session, arrival.hash, record).await;
        if written.is_err() {
            let undo = Call::new("SELECT logue.undo_import($1)").number(sid);
            // What is left is arriving, and the next import replaces it.
            drop(self.all(Ok(undo), |_| Ok(())).await);
        }
        written.map(|()| ImportResult::Arriving)
    }

    /// Creates the row of an arriving session; `None` if a session stays.
    ///
    /// One that had moved to the address `from` is replaced.
    async fn begin_import(
        &self,
        session: &str,
        head: &RecordHead,
        from: &str,
    ) -> Result<Option<i64>, StoreError> {
        self.one(Ok(begin(session, head, from)), |row| {
            Ok(match get::<String>(row, "status")?.as_str() {
                "ok" => Some(get::<i64>(row, "sid")?),
                _ => None,
            })
        })
        .await
    }

    /// Compares a session that stays with the record that was to become one.
    async fn compare(
        &self,
        session: &str,
        expected: RecordHash,
        epoch: u64,
    ) -> Result<ImportResult, StoreError> {
        let mut digest = RecordDigest::default();
        self.export_record(session, &mut digest).await?;
        if digest.hash() != Some(expected) {
            return Ok(ImportResult::Different);
        }
        // The owner of a lease keeps its epoch.
        let raise = Call::new(concat!(
            "UPDATE logue.session s SET epoch = $2 WHERE s.epoch < $2 AND s.owner IS NULL AND ",
            of_session!()
        ));
        let raise = raise
            .bytes(session.as_bytes().to_vec())
            .number(count(epoch));
        self.all(Ok(raise), |_| Ok(())).await?;
        Ok(ImportResult::Equal)
    }

    async fn write(
        &self,
        sid: i64,
        session: &str,
        expected: RecordHash,
        record: &mut dyn RecordSource,
    ) -> Result<(), StoreError> {
        let mut pieces = Pieces::new(sid);
        while let Some(part) = record.next_part()? {
            for call in pieces.add(part)? {
                self.send(session, call).await?;
            }
        }
        for call in pieces.finish()? {
            self.send(session, call).await?;
        }
        let mut digest = RecordDigest::default();
        self.export_record(session, &mut digest).await?;
        if digest.hash() == Some(expected) {
            return Ok(());
        }
        Err(StoreError::Damaged(format!(
            "the copy of `{session}` differs from its source"
        )))
    }

    async fn send(&self, session: &str, piece: pieces::Piece) -> Result<(), StoreError> {
        let (call, invocation) = piece;
        self.one(Ok(call), |row| {
            match get::<String>(row, "status")?.as_str() {
                "ok" => Ok(()),
                "waits" => Err(turn::waits(&invocation)),
                _ => Err(StoreError::Unavailable {
                    message: format!("another process moves the session `{session}`; try again"),
                    source: None,
                }),
            }
        })
        .await
    }
}

fn begin(session: &str, head: &RecordHead, from: &str) -> Call {
    Call::new("SELECT * FROM logue.import($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)")
        .bytes(session.as_bytes().to_vec())
        .bytes(SessionLocation::arriving_owner(from).into_bytes())
        .bytes(SessionLocation::moved_owner(from).into_bytes())
        .number(count(head.epoch))
        .number(count(head.messages))
        .number(count(head.entries))
        .number(count(head.settled))
        .flag(head.has_state)
        .maybe_bytes(head.schema_version.clone().map(String::into_bytes))
        .number(time(head.created_at))
        .number(time(head.updated_at))
}

pub(super) fn mark_arrived(session: &str) -> Call {
    Call::new("SELECT * FROM logue.mark_arrived($1, $2)")
        .bytes(session.as_bytes().to_vec())
        .flagged()
        .long()
}

pub(super) fn arrived(session: &str, row: &Row) -> Result<bool, StoreError> {
    match get::<String>(row, "status")?.as_str() {
        "ok" => Ok(get::<Option<bool>>(row, "arrived")?.unwrap_or_default()),
        "missing" => Err(missing(session)),
        what => Err(damaged(session, what)),
    }
}

const FIELDS: &str = "SELECT f.name, logue.whole(f.value) AS value FROM logue.field f \
                      WHERE f.sid = $1 ORDER BY f.name OFFSET $2 LIMIT $3";
const LABELS: &str = "SELECT l.name, l.value FROM logue.label l WHERE l.sid = $1 \
                      ORDER BY l.name OFFSET $2 LIMIT $3";
const MESSAGES: &str = "SELECT m.pos - ($1 << 32) AS place, logue.whole(m.body) AS body \
                        FROM logue.message m WHERE m.pos >= ($1 << 32) + $2 \
                            AND m.pos <= ($1 << 32) + 4294967295 ORDER BY m.pos LIMIT $3";
const ENTRIES: &str = "SELECT e.pos - ($1 << 32) AS place, e.resumes, e.key, e.digest, \
                           e.invocation, e.cancel, e.accepted_at, e.work, e.kind, e.replies_from, \
                           e.replies_to, e.body, e.at \
                       FROM logue.entry e WHERE e.pos > ($1 << 32) + $2 \
                           AND e.pos <= ($1 << 32) + 4294967295 ORDER BY e.pos LIMIT $3";
const SUSPENSIONS: &str = "SELECT w.invocation, s.id, w.signal, w.metadata, w.status, w.entry, \
                               w.since, w.record \
                           FROM logue.suspension w JOIN logue.session s USING (sid) \
                           WHERE w.sid = $1 ORDER BY w.num OFFSET $2 LIMIT $3";
const AUDIT: &str = "SELECT a.pos - ($1 << 32) AS place, a.invocation, a.body, a.at \
                     FROM logue.audit a WHERE a.pos >= ($1 << 32) + $2 \
                         AND a.pos <= ($1 << 32) + 4294967295 ORDER BY a.pos LIMIT $3";
const QUARANTINE: &str = "SELECT q.record, q.\"position\" AS place, q.reason, q.content, q.at \
                          FROM logue.quarantine q JOIN logue.session s ON q.session = s.id \
                          WHERE s.sid = $1 ORDER BY q.num OFFSET $2 LIMIT $3";

fn read_entry(row: &Row) -> Result<EntryRecord, StoreError> {
    let id = |column| -> Result<Option<String>, StoreError> {
        let bytes: Option<Vec<u8>> = get(row, column)?;
        bytes.as_deref().map(read_id).transpose()
    };
    let digest: Option<Vec<u8>> = get(row, "digest")?;
    let work: Option<String> = get(row, "work")?;
    let work: Option<EntryPayload> = work.as_deref().map(json).transpose()?;
    let number = |column| read_count(get(row, column)?);
    let outcome = match get::<Option<i16>>(row, "kind")? {
        Some(kind) => {
            let body: Option<String> = get(row, "body")?;
            Some(OutcomeRecord {
                kind: turn::read_kind(kind)?,
                replies_from: number("replies_from")?,
                replies_to: number("replies_to")?,
                body: body.as_deref().map_or(Ok(Value::Null), json)?,
                at: read_time(get(row, "at")?)?,
            })
        }
        None => None,
    };
    Ok(EntryRecord {
        entry: number("place")?,
        resumes: get(row, "resumes")?,
        key: id("key")?,
        digest: digest.as_deref().map(text).transpose()?,
        invocation_id: id("invocation")?,
        cancel: get::<Option<i16>>(row, "cancel")?
            .map(read_mode)
            .transpose()?,
        accepted_at: read_time(get(row, "accepted_at")?)?,
        work,
        outcome,
    })
}
