//! The suspensions of all sessions, found by their invocation.
//!
//! An invocation may be suspended more than once, one time after the other. Each has its place in
//! the list; only the latest one can be signalled.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::clock::Timestamp;
use crate::store::{
    NewSuspension, SignalResult, StoreError, Suspension, SuspensionFilter, SuspensionRecord,
    SuspensionStatus,
};

/// The current and the past suspensions.
#[derive(Clone, Debug, Default)]
pub(super) struct Suspensions {
    /// By the order in which they came.
    all: BTreeMap<u64, Suspension>,
    latest: BTreeMap<String, u64>,
    made: u64,
}

impl Suspensions {
    pub(super) fn latest(&self, invocation_id: &str) -> Option<&Suspension> {
        self.all.get(self.latest.get(invocation_id)?)
    }

    pub(super) fn latest_mut(&mut self, invocation_id: &str) -> Option<&mut Suspension> {
        self.all.get_mut(self.latest.get(invocation_id)?)
    }

    /// Refuses an invocation of another session or with a suspension in effect.
    ///
    /// `resumed` means that its own suspension is about to end.
    pub(super) fn expect_free(
        &self,
        session: &str,
        invocation_id: &str,
        resumed: bool,
    ) -> Result<(), StoreError> {
        let free = self.latest(invocation_id).is_none_or(|latest| {
            latest.session == session && (resumed || latest.status == SuspensionStatus::Resumed)
        });
        if free {
            return Ok(());
        }
        Err(StoreError::Exists {
            what: format!("a suspension of `{invocation_id}`"),
        })
    }

    pub(super) fn begin(
        &mut self,
        session: &str,
        invocation_id: &str,
        new: NewSuspension,
        now: Timestamp,
    ) {
        self.made += 1;
        self.latest.insert(invocation_id.to_owned(), self.made);
        let suspension = Suspension {
            invocation_id: invocation_id.to_owned(),
            session: session.to_owned(),
            signal_id: new.signal_id,
            metadata: new.metadata,
            status: SuspensionStatus::Suspended,
            entry: None,
            record: new.record,
            since: now,
        };
        self.all.insert(self.made, suspension);
    }

    /// Refuses an invocation that another session has.
    pub(super) fn expect_unused(
        &self,
        session: &str,
        invocation_id: &str,
    ) -> Result<(), StoreError> {
        match self.latest(invocation_id) {
            Some(latest) if latest.session != session => Err(StoreError::Exists {
                what: format!("a suspension of `{invocation_id}`"),
            }),
            _ => Ok(()),
        }
    }

    /// Adds a suspension of a record.
    pub(super) fn restore(&mut self, session: &str, record: SuspensionRecord) {
        self.made += 1;
        self.latest.insert(record.invocation_id.clone(), self.made);
        let suspension = Suspension {
            invocation_id: record.invocation_id,
            session: session.to_owned(),
            signal_id: record.signal_id,
            metadata: record.metadata,
            status: record.status,
            entry: record.entry,
            record: record.record,
            since: record.since,
        };
        self.all.insert(self.made, suspension);
    }

    /// Marks the latest suspension of an invocation as over and drops its record.
    pub(super) fn end(&mut self, invocation_id: &str) {
        if let Some(latest) = self.latest_mut(invocation_id) {
            latest.status = SuspensionStatus::Resumed;
            latest.record = Value::Null;
        }
    }

    /// Returns whether an entry of a session is the signal of a suspension.
    pub(super) fn is_signalled(&self, session: &str, entry: u64) -> bool {
        let mut all = self.all.values();
        all.any(|one| one.session == session && one.entry == Some(entry))
    }

    /// Leads the signals that became an entry to a later one.
    pub(super) fn follow(&mut self, session: &str, from: u64, to: u64) {
        for one in self.all.values_mut() {
            if one.session == session && one.entry == Some(from) {
                one.entry = Some(to);
            }
        }
    }

    pub(super) fn listed(&self, filter: &SuspensionFilter) -> Vec<Suspension> {
        let fits = |wanted: &Option<String>, found: &String| {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        };
        self.iter()
            .filter(|found| fits(&filter.session, &found.session))
            .filter(|found| fits(&filter.signal_id, &found.signal_id))
            .filter(|found| filter.status.is_none_or(|status| status == found.status))
            .map(|found| Suspension {
                record: Value::Null,
                invocation_id: found.invocation_id.clone(),
                session: found.session.clone(),
                signal_id: found.signal_id.clone(),
                metadata: found.metadata.clone(),
                ..*found
            })
            .collect()
    }

    /// The result of a signal for an earlier suspension of an invocation.
    ///
    /// `None` if the signal is for the latest one.
    pub(super) fn earlier(&self, invocation_id: &str, signal_id: &str) -> Option<SignalResult> {
        if self.latest(invocation_id)?.signal_id == signal_id {
            return None;
        }
        let mut earlier = self
            .all
            .values()
            .rev()
            .filter(|one| one.invocation_id == invocation_id && one.signal_id == signal_id);
        let entry = earlier.next().and_then(|one| {
            Some(SignalResult::Entry {
                session: one.session.clone(),
                entry: one.entry?,
                is_new: false,
            })
        });
        Some(entry.unwrap_or(SignalResult::Unknown))
    }

    /// Removes those of a session.
    pub(super) fn forget(&mut self, session: &str) {
        self.all
            .retain(|_, suspension| suspension.session != session);
        let all = &self.all;
        self.latest.retain(|_, number| all.contains_key(number));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Suspension> {
        self.all.values()
    }
}
