//! The parts of a session's record, except its suspensions.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Entry, Session, as_count};
use crate::clock::Timestamp;
use crate::store::transfer::{
    EntryRecord, OutcomeRecord, RecordHead, RecordPart, RecordSink, SessionLocation,
};
use crate::store::{StoreError, StoredOutcome};

impl Session {
    /// Creates an arriving session without its rows.
    pub(in crate::store::memory) fn from_head(head: &RecordHead, epoch: u64, from: &str) -> Self {
        let mut session = Self::new(epoch, head.created_at);
        session.updated_at = head.updated_at;
        session.has_state = head.has_state;
        session.schema_version.clone_from(&head.schema_version);
        session.holder = Some((SessionLocation::arriving_owner(from), Timestamp(u64::MAX)));
        session
    }

    pub(in crate::store::memory) fn location(&self) -> SessionLocation {
        let lease = self.holder.as_ref();
        SessionLocation::from_lease(lease.map(|(owner, until)| (owner.as_str(), *until)))
    }

    /// Gives the session to an owner that marks its location.
    pub(in crate::store::memory) fn hand_over(&mut self, owner: String) {
        self.epoch += 1;
        self.holder = Some((owner, Timestamp(u64::MAX)));
    }

    pub(in crate::store::memory) fn raise_epoch(&mut self, epoch: u64) {
        self.epoch = self.epoch.max(epoch);
    }

    /// Emits the parts before the suspensions.
    pub(in crate::store::memory) fn export(
        &self,
        id: &str,
        sink: &mut dyn RecordSink,
    ) -> Result<(), StoreError> {
        sink.put(RecordPart::Head(RecordHead {
            session: id.to_owned(),
            epoch: self.epoch,
            has_state: self.has_state,
            schema_version: self.schema_version.clone(),
            messages: self.seq(),
            entries: as_count(self.entries.len()),
            settled: self.cursor(),
            created_at: self.created_at,
            updated_at: self.updated_at,
        }))?;
        for (name, value) in sorted(&self.fields) {
            sink.put(RecordPart::Field { name, value })?;
        }
        for (name, value) in sorted(&self.labels) {
            sink.put(RecordPart::Label { name, value })?;
        }
        for (seq, message) in (0..).zip(&self.history) {
            let message = (**message).clone();
            sink.put(RecordPart::Message { seq, message })?;
        }
        for (number, entry) in (1..).zip(&self.entries) {
            let outcome = self.outcome_of(number);
            sink.put(RecordPart::Entry(EntryRecord {
                entry: number,
                resumes: entry.resumes,
                key: entry.key.clone(),
                digest: entry.digest.clone(),
                invocation_id: entry.invocation_id.clone(),
                cancel: entry.cancel,
                accepted_at: entry.accepted_at,
                work: entry.work.clone(),
                outcome: outcome.map(|outcome| OutcomeRecord {
                    kind: outcome.kind,
                    replies_from: outcome.replies_from,
                    replies_to: outcome.replies_to,
                    body: outcome.body,
                    at: outcome.at,
                }),
            }))?;
        }
        for (invocation_id, notes) in &self.journals {
            for (seq, note) in (0..).zip(notes) {
                let (invocation_id, note) = (invocation_id.clone(), note.clone());
                sink.put(RecordPart::Note {
                    invocation_id,
                    seq,
                    note,
                })?;
            }
        }
        Ok(())
    }

    /// Emits the parts after the suspensions.
    pub(in crate::store::memory) fn export_rest(
        &self,
        sink: &mut dyn RecordSink,
    ) -> Result<(), StoreError> {
        for entry in &self.audit {
            sink.put(RecordPart::Audit(entry.clone()))?;
        }
        for one in &self.quarantined {
            sink.put(RecordPart::Quarantined(one.clone()))?;
        }
        Ok(())
    }

    /// Adds a part of a record.
    pub(in crate::store::memory) fn restore(&mut self, part: RecordPart) {
        match part {
            RecordPart::Head(_) | RecordPart::Suspension(_) => {}
            RecordPart::Field { name, value } => drop(self.fields.insert(name, value)),
            RecordPart::Label { name, value } => drop(self.labels.insert(name, value)),
            RecordPart::Message { message, .. } => self.history.push(Arc::new(message)),
            RecordPart::Entry(entry) => self.restore_entry(entry),
            RecordPart::Note {
                invocation_id,
                note,
                ..
            } => self.journals.entry(invocation_id).or_default().push(note),
            RecordPart::Audit(entry) => self.audit.push(entry),
            RecordPart::Quarantined(one) => self.quarantined.push(one),
        }
    }

    fn restore_entry(&mut self, record: EntryRecord) {
        if let Some(key) = &record.key {
            self.keys.insert(key.clone(), record.entry);
        }
        if let Some(outcome) = record.outcome {
            self.outcomes.push(StoredOutcome {
                cursor: record.entry,
                entry: record.entry,
                invocation_id: record.invocation_id.clone().unwrap_or_default(),
                resumed: record.resumes,
                kind: outcome.kind,
                replies_from: outcome.replies_from,
                replies_to: outcome.replies_to,
                body: outcome.body,
                at: outcome.at,
            });
        }
        self.entries.push(Entry {
            work: record.work,
            resumes: record.resumes,
            key: record.key,
            digest: record.digest,
            invocation_id: record.invocation_id,
            cancel: record.cancel,
            accepted_at: record.accepted_at,
        });
    }
}

/// Returns the members in the order of their names.
fn sorted(members: &Map<String, Value>) -> Vec<(String, Value)> {
    let mut sorted: Vec<_> = members
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    sorted
}
