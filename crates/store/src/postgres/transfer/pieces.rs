//! The statements that write a record, each with many parts.

use logue_harness::store::{EntryPayload, EntryRecord, RecordPart, StoreError};
use serde_json::{Value, json};

use super::super::call::Call;
use super::super::column::{count, id, time};
use super::super::inbox::mode;
use super::super::payload::Bodies;
use super::super::suspension::status;
use super::super::turn::kind;
use crate::encoding::{optional, stored_work, written};

/// The length of the texts of a piece from which it is sent.
const LARGE: usize = 256 * 1024;
/// The number of parts of a piece.
const MANY: usize = 256;

/// A statement, and the invocation that it may refuse.
pub(super) type Piece = (Call, String);

/// The parts that were not sent yet.
#[derive(Default)]
pub(super) struct Pieces {
    sid: i64,
    /// The parts of one statement, all of one kind.
    batch: Option<Batch>,
    parts: usize,
    bytes: usize,
    suspensions: i64,
    quarantined: i64,
}

/// Parts of one kind.
enum Batch {
    Messages {
        first: i64,
        bodies: Vec<String>,
        payloads: Bodies,
    },
    Values {
        names: Vec<Vec<u8>>,
        values: Vec<String>,
        payloads: Bodies,
        are_labels: bool,
    },
    Rows {
        sql: &'static str,
        rows: Vec<Value>,
    },
}

const ENTRIES: &str = "SELECT logue.import_entries($1, $2) AS status";
const NOTES: &str = "SELECT logue.import_notes($1, $2) AS status";
const AUDITS: &str = "SELECT logue.import_audits($1, $2) AS status";

impl Pieces {
    /// Creates the pieces of the session with this number.
    pub(super) fn new(sid: i64) -> Self {
        Self {
            sid,
            ..Self::default()
        }
    }

    /// Adds a part, and returns the statements to send.
    pub(super) fn add(&mut self, part: RecordPart) -> Result<Vec<Piece>, StoreError> {
        let mut ready = Vec::new();
        match part {
            RecordPart::Head(_) => {}
            RecordPart::Field { name, value } => {
                self.value(&mut ready, name, written(&value)?, false)?;
            }
            RecordPart::Label { name, value } => {
                self.value(&mut ready, name, written(&value)?, true)?;
            }
            RecordPart::Message { seq, message } => {
                if !matches!(self.batch, Some(Batch::Messages { .. })) {
                    self.begin(
                        &mut ready,
                        Batch::Messages {
                            first: count(seq),
                            bodies: Vec::new(),
                            payloads: Bodies::default(),
                        },
                    )?;
                }
                if let Some(Batch::Messages {
                    bodies, payloads, ..
                }) = &mut self.batch
                {
                    let kept = payloads.messages(std::slice::from_ref(&message))?;
                    self.bytes += kept.iter().map(String::len).sum::<usize>();
                    self.bytes += payloads.payloads.last().map_or(0, String::len);
                    bodies.extend(kept);
                }
            }
            RecordPart::Entry(entry) => self.row(&mut ready, ENTRIES, entry_row(&entry)?)?,
            RecordPart::Note {
                invocation_id,
                seq,
                note,
            } => {
                let row = json!({
                    "invocation": hex(&id(&invocation_id)), "seq": count(seq),
                    "body": written(&note)?,
                });
                self.row(&mut ready, NOTES, row)?;
            }
            RecordPart::Audit(entry) => {
                let row = json!({
                    "place": count(entry.seq), "invocation": hex(&id(&entry.invocation_id)),
                    "body": written(&entry.record)?, "at": time(entry.at),
                });
                self.row(&mut ready, AUDITS, row)?;
            }
            RecordPart::Suspension(one) => {
                self.end(&mut ready)?;
                let call = Call::new(
                    "SELECT logue.import_suspension($1, $2, $3, $4, $5, $6, $7, $8, $9) AS status",
                );
                let call = call
                    .number(self.sid)
                    .number(self.suspensions)
                    .bytes(id(&one.invocation_id))
                    .bytes(id(&one.signal_id))
                    .maybe_text(one.metadata.as_ref().map(written).transpose()?)
                    .maybe_small(Some(status(one.status)))
                    .maybe_number(one.entry.map(count))
                    .maybe_text(optional(&one.record)?)
                    .number(time(one.since));
                self.suspensions += 1;
                ready.push((call, one.invocation_id));
            }
            RecordPart::Quarantined(one) => {
                self.end(&mut ready)?;
                let call = Call::new(
                    "SELECT logue.import_quarantine($1, $2, $3, $4, $5, $6, $7) AS status",
                );
                let call = call
                    .number(self.sid)
                    .number(self.quarantined)
                    .text(one.record)
                    .maybe_number(one.position)
                    .text(one.reason)
                    .text(one.content)
                    .number(time(one.at));
                self.quarantined += 1;
                ready.push((call, String::new()));
            }
        }
        self.parts += 1;
        if self.parts >= MANY || self.bytes >= LARGE {
            self.end(&mut ready)?;
        }
        Ok(ready)
    }

    /// Returns the last statements.
    pub(super) fn finish(mut self) -> Result<Vec<Piece>, StoreError> {
        let mut ready = Vec::new();
        self.end(&mut ready)?;
        Ok(ready)
    }

    fn value(
        &mut self,
        ready: &mut Vec<Piece>,
        name: String,
        value: String,
        is_label: bool,
    ) -> Result<(), StoreError> {
        let fits = matches!(
            self.batch,
            Some(Batch::Values { are_labels, .. }) if are_labels == is_label
        );
        if !fits {
            self.begin(
                ready,
                Batch::Values {
                    names: Vec::new(),
                    values: Vec::new(),
                    payloads: Bodies::default(),
                    are_labels: is_label,
                },
            )?;
        }
        if let Some(Batch::Values {
            names,
            values,
            payloads,
            ..
        }) = &mut self.batch
        {
            self.bytes += value.len();
            names.push(name.into_bytes());
            // Labels have no payloads.
            values.push(if is_label {
                value
            } else {
                payloads.kept(value)
            });
        }
        Ok(())
    }

    fn row(
        &mut self,
        ready: &mut Vec<Piece>,
        wanted: &'static str,
        row: Value,
    ) -> Result<(), StoreError> {
        let fits = matches!(self.batch, Some(Batch::Rows { sql, .. }) if sql == wanted);
        if !fits {
            let rows = Vec::new();
            self.begin(ready, Batch::Rows { sql: wanted, rows })?;
        }
        if let Some(Batch::Rows { rows, .. }) = &mut self.batch {
            let texts = ["work", "body"].iter();
            self.bytes += texts
                .filter_map(|name| row[*name].as_str().map(str::len))
                .sum::<usize>();
            rows.push(row);
        }
        Ok(())
    }

    fn begin(&mut self, ready: &mut Vec<Piece>, batch: Batch) -> Result<(), StoreError> {
        self.end(ready)?;
        self.batch = Some(batch);
        Ok(())
    }

    /// Turns the parts into a statement.
    fn end(&mut self, ready: &mut Vec<Piece>) -> Result<(), StoreError> {
        self.parts = 0;
        self.bytes = 0;
        let call = match self.batch.take() {
            None => return Ok(()),
            Some(Batch::Messages {
                first,
                bodies,
                payloads,
            }) => Call::new("SELECT logue.import_messages($1, $2, $3, $4, $5) AS status")
                .number(self.sid)
                .number(first)
                .texts(bodies)
                .byte_list(payloads.hashes)
                .texts(payloads.payloads),
            Some(Batch::Values {
                names,
                values,
                payloads,
                are_labels,
            }) => Call::new("SELECT logue.import_values($1, $2, $3, $4, $5, $6) AS status")
                .number(self.sid)
                .byte_list(names)
                .texts(values)
                .byte_list(payloads.hashes)
                .texts(payloads.payloads)
                .flag(are_labels),
            Some(Batch::Rows { sql, rows }) => {
                let rows = serde_json::to_string(&rows).map_err(StoreError::unavailable)?;
                Call::new(sql).number(self.sid).text(rows)
            }
        };
        ready.push((call, String::new()));
        Ok(())
    }
}

/// Returns an entry as a row of [`ENTRIES`].
fn entry_row(entry: &EntryRecord) -> Result<Value, StoreError> {
    let id_of = |name: Option<&str>| name.map(|name| hex(&id(name)));
    let work = entry.work.as_ref();
    let outcome = entry.outcome.as_ref();
    let body = outcome.map(|outcome| optional(&outcome.body)).transpose()?;
    Ok(json!({
        "place": count(entry.entry),
        "resumes": entry.resumes,
        "key": id_of(entry.key.as_deref()),
        "digest": entry.digest.as_deref().map(|digest| hex(digest.as_bytes())),
        "invocation": id_of(entry.invocation_id.as_deref()),
        "continues": id_of(work.and_then(EntryPayload::invocation_id)),
        "cancel": entry.cancel.map(mode),
        "accepted": time(entry.accepted_at),
        "work": work.map(stored_work).transpose()?,
        "kind": outcome.map(|outcome| kind(outcome.kind)).transpose()?,
        "replies_from": outcome.map(|outcome| count(outcome.replies_from)),
        "replies_to": outcome.map(|outcome| count(outcome.replies_to)),
        "body": body.flatten(),
        "at": outcome.map(|outcome| time(outcome.at)),
    }))
}

/// Returns bytes in hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or('0');
    let halves = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    halves.map(digit).collect()
}
