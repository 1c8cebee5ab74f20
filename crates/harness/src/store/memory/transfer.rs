//! Complete records of sessions in memory.

use super::session::Session;
use super::{Data, no_session, owned};
use crate::store::transfer::{
    ImportResult, RecordArrival, RecordDigest, RecordHash, RecordPart, RecordSink, RecordSource,
    SessionLocation, SuspensionRecord,
};
use crate::store::{Lease, StoreError, check_session_id};

impl Data {
    pub(super) fn location(&self, session: &str) -> Option<SessionLocation> {
        self.sessions.get(session).map(Session::location)
    }

    pub(super) fn export(
        &self,
        session: &str,
        sink: &mut dyn RecordSink,
    ) -> Result<bool, StoreError> {
        let Some(found) = self.sessions.get(session) else {
            return Ok(false);
        };
        found.export(session, sink)?;
        for one in self.suspensions.iter().filter(|one| one.session == session) {
            sink.put(RecordPart::Suspension(SuspensionRecord {
                invocation_id: one.invocation_id.clone(),
                signal_id: one.signal_id.clone(),
                metadata: one.metadata.clone(),
                status: one.status,
                entry: one.entry,
                record: one.record.clone(),
                since: one.since,
            }))?;
        }
        found.export_rest(sink)?;
        Ok(true)
    }

    pub(super) fn import(
        &mut self,
        session: &str,
        arrival: &RecordArrival,
        record: &mut dyn RecordSource,
    ) -> Result<ImportResult, StoreError> {
        record.rewind()?;
        let Some(RecordPart::Head(head)) = record.next_part()? else {
            return Err(StoreError::Damaged("a record without its head".to_owned()));
        };
        if let Some(found) = self.sessions.get(session)
            && !found.location().permits_arrival(&arrival.from)
        {
            if matches!(found.location(), SessionLocation::Moved { .. }) {
                return Ok(ImportResult::Elsewhere);
            }
            if self.hash(session)? != Some(arrival.hash) {
                return Ok(ImportResult::Different);
            }
            if let Some(found) = self.sessions.get_mut(session) {
                found.raise_epoch(head.epoch);
            }
            return Ok(ImportResult::Equal);
        }
        check_session_id(session)?;
        let earlier = self.sessions.get(session).map_or(0, Session::epoch);
        let epoch = head.epoch.max(earlier).max(self.epochs) + 1;

        let mut copy = Session::from_head(&head, epoch, &arrival.from);
        let mut suspensions = Vec::new();
        while let Some(part) = record.next_part()? {
            match part {
                RecordPart::Suspension(one) => {
                    self.suspensions
                        .expect_unused(session, &one.invocation_id)?;
                    suspensions.push(one);
                }
                part => copy.restore(part),
            }
        }
        let mut written = Self {
            sessions: std::iter::once((session.to_owned(), copy)).collect(),
            ..Self::default()
        };
        for one in &suspensions {
            written.suspensions.restore(session, one.clone());
        }
        if written.hash(session)? != Some(arrival.hash) {
            return Err(StoreError::Damaged(format!(
                "the copy of `{session}` differs from its source"
            )));
        }
        self.delete(session);
        self.sessions.append(&mut written.sessions);
        for one in suspensions {
            self.suspensions.restore(session, one);
        }
        Ok(ImportResult::Arriving)
    }

    pub(super) fn mark_moved(
        &mut self,
        lease: &Lease,
        hash: RecordHash,
        to: &str,
    ) -> Result<bool, StoreError> {
        owned(&mut self.sessions, lease)?;
        if self.hash(&lease.session)? != Some(hash) {
            return Ok(false);
        }
        let session = owned(&mut self.sessions, lease)?;
        session.hand_over(SessionLocation::moved_owner(to));
        Ok(true)
    }

    pub(super) fn mark_arrived(&mut self, session: &str) -> Result<bool, StoreError> {
        let found = self
            .sessions
            .get_mut(session)
            .ok_or_else(|| no_session(session))?;
        let is_arriving = matches!(found.location(), SessionLocation::Arriving { .. });
        if is_arriving {
            found.release();
        }
        Ok(is_arriving)
    }

    fn hash(&self, session: &str) -> Result<Option<RecordHash>, StoreError> {
        let mut digest = RecordDigest::default();
        self.export(session, &mut digest)?;
        Ok(digest.hash())
    }
}
