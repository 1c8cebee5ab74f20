//! One session in memory: its inbox, lease, history, journals and outcomes.
//!
//! Entries are processed in the order in which they were put, and each has one outcome. So the
//! number of outcomes equals the number of settled entries, entry and cursor are the same number,
//! and the entry after them is the one that runs or comes next.

mod record;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::clock::Timestamp;
use crate::store::{
    AuditEntry, CancelMode, ClaimedEntry, Commit, Disposition, EnqueueResult, EntryPayload,
    EntryState, InboxEntry, IntegrityFault, IntegrityReport, JournalNote, Lease, LeaseResult,
    NewEntry, NewOutcome, OutcomeKind, QuarantineRecord, SessionInfo, SessionLocation, StoreError,
    StoredOutcome, clock_of, is_same_holder,
};

/// The data of a session.
#[derive(Clone, Debug)]
pub(super) struct Session {
    entries: Vec<Entry>,
    keys: BTreeMap<String, u64>,
    pub(super) outcomes: Vec<StoredOutcome>,
    epoch: u64,
    holder: Option<(String, Timestamp)>,
    history: Vec<Arc<Value>>,
    fields: Map<String, Value>,
    schema_version: Option<String>,
    has_state: bool,
    labels: Map<String, Value>,
    journals: BTreeMap<String, Vec<Value>>,
    audit: Vec<AuditEntry>,
    /// The records that a repair of another store took out.
    quarantined: Vec<QuarantineRecord>,
    created_at: Timestamp,
    pub(super) updated_at: Timestamp,
}

#[derive(Clone, Debug)]
struct Entry {
    work: Option<EntryPayload>,
    resumes: bool,
    key: Option<String>,
    digest: Option<String>,
    invocation_id: Option<String>,
    cancel: Option<CancelMode>,
    accepted_at: Timestamp,
}

impl Session {
    pub(super) fn new(epoch: u64, now: Timestamp) -> Self {
        Self {
            entries: Vec::new(),
            keys: BTreeMap::new(),
            outcomes: Vec::new(),
            epoch,
            holder: None,
            history: Vec::new(),
            fields: Map::new(),
            schema_version: None,
            has_state: false,
            labels: Map::new(),
            journals: BTreeMap::new(),
            audit: Vec::new(),
            quarantined: Vec::new(),
            created_at: now,
            updated_at: now,
        }
    }

    /// Returns the number of the entry to which a key leads.
    pub(super) fn entry_of(&self, key: &str) -> Option<u64> {
        self.keys.get(key).copied()
    }

    pub(super) const fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// Puts an entry, or refuses it. `is_signalled` says whether the entry to retry is a signal.
    pub(super) fn enqueue(&mut self, entry: NewEntry, is_signalled: bool) -> EnqueueResult {
        let known = entry.key.as_ref().and_then(|key| self.keys.get(key));
        if let Some(&number) = known {
            let bound = self.digest_of(number);
            if bound.is_some() && entry.digest.is_some() && bound != entry.digest.as_ref() {
                return EnqueueResult::OtherWork { entry: number };
            }
            if entry.retries != Some(number) || number > self.cursor() {
                return EnqueueResult::Entry {
                    entry: number,
                    is_new: false,
                    ahead: self.ahead(number),
                };
            }
        } else if let Some(retried) = entry.retries {
            let is_last = retried == as_count(self.entries.len());
            if retried > self.cursor() || !(is_last || is_signalled) {
                return EnqueueResult::Superseded;
            }
        }
        let cursor = self.cursor();
        let is_later = entry.only_after.is_some_and(|after| after != cursor);
        let is_only = entry.only_if_idle || entry.only_after.is_some();
        if is_later || is_only && self.front().is_some() {
            return EnqueueResult::Busy;
        }
        if let Some(mode) = entry.cancel {
            self.cancel(mode);
        }
        let mut moved = (entry.key, entry.digest);
        if let Some(retried) = entry.retries.and_then(|number| self.entry_mut(number)) {
            moved = (retried.key.take(), retried.digest.take());
        }
        let number = self.put(entry.work, moved, entry.now);
        EnqueueResult::Entry {
            entry: number,
            is_new: true,
            ahead: self.ahead(number),
        }
    }

    /// Puts an entry at the end of the inbox.
    ///
    /// A key comes with the hash to which it is bound.
    pub(super) fn put(
        &mut self,
        work: EntryPayload,
        (key, digest): (Option<String>, Option<String>),
        now: Timestamp,
    ) -> u64 {
        let number = as_count(self.entries.len()) + 1;
        if let Some(key) = &key {
            self.keys.insert(key.clone(), number);
        }
        self.entries.push(Entry {
            resumes: matches!(work, EntryPayload::Resume { .. }),
            work: Some(work),
            digest: digest.filter(|_| key.is_some()),
            key,
            invocation_id: None,
            cancel: None,
            accepted_at: now,
        });
        self.touch(now);
        number
    }

    pub(super) fn entry(&self, number: u64) -> Option<InboxEntry> {
        let index = as_index(number.checked_sub(1)?);
        let entry = self.entries.get(index)?;
        let state = if index < self.outcomes.len() {
            EntryState::Settled
        } else if entry.invocation_id.is_some() {
            EntryState::Running
        } else {
            EntryState::Waiting
        };
        Some(InboxEntry {
            entry: number,
            work: entry.work.clone(),
            key: entry.key.clone(),
            state,
            invocation_id: entry.invocation_id.clone(),
            accepted_at: entry.accepted_at,
        })
    }

    pub(super) fn inbox(&self) -> Vec<InboxEntry> {
        let numbers = self.cursor() + 1..=as_count(self.entries.len());
        numbers.filter_map(|number| self.entry(number)).collect()
    }

    /// Asks the running entry to end; whether one runs.
    pub(super) fn cancel(&mut self, mode: CancelMode) -> bool {
        let running = self.running_mut();
        let runs = running.is_some();
        if let Some(entry) = running {
            entry.cancel = Some(mode);
        }
        runs
    }

    /// Asks that an entry ends; whether it is not settled.
    pub(super) fn cancel_entry(&mut self, number: u64, mode: CancelMode) -> bool {
        if number <= self.cursor() {
            return false;
        }
        let entry = self.entry_mut(number);
        entry.map(|entry| entry.cancel = Some(mode)).is_some()
    }

    /// Returns the other owner of the session, and the end of its lease.
    pub(super) fn holder_beside(
        &self,
        owner: &str,
        gone: Option<(&str, Timestamp)>,
        now: Timestamp,
    ) -> Option<(&str, Timestamp)> {
        let (holder, until) = self.holder.as_ref()?;
        let is_held = !is_same_holder(holder, owner)
            && (now < *until || clock_of(holder) != clock_of(owner))
            && gone != Some((holder, *until));
        is_held.then_some((holder, *until))
    }

    pub(super) fn acquire(
        &mut self,
        id: &str,
        owner: &str,
        gone: Option<(&str, Timestamp)>,
        now: Timestamp,
        ttl: Duration,
    ) -> LeaseResult {
        if let Some((holder, until)) = self.holder_beside(owner, gone, now) {
            return LeaseResult::Held {
                owner: holder.to_owned(),
                until,
            };
        }
        self.epoch += 1;
        self.holder = Some((owner.to_owned(), now.after(ttl)));
        LeaseResult::Lease(Lease {
            session: id.to_owned(),
            owner: owner.to_owned(),
            epoch: self.epoch,
        })
    }

    /// Refuses a lease that is not current.
    pub(super) fn fence(&self, lease: &Lease) -> Result<(), StoreError> {
        let holds = self
            .holder
            .as_ref()
            .is_some_and(|(owner, _)| *owner == lease.owner);
        if self.epoch == lease.epoch && holds {
            return Ok(());
        }
        Err(StoreError::Fenced {
            session: lease.session.clone(),
            epoch: lease.epoch,
            current: self.epoch,
        })
    }

    pub(super) fn renew(&mut self, until: Timestamp) -> Option<CancelMode> {
        if let Some((_, end)) = &mut self.holder {
            *end = until;
        }
        self.running_mut().and_then(|entry| entry.cancel)
    }

    pub(super) fn release(&mut self) {
        self.holder = None;
    }

    pub(super) fn claim_next(&mut self, invocation_id: &str) -> Option<ClaimedEntry> {
        let front = self.front_mut()?;
        let recovered = front.invocation_id.is_some();
        if !recovered {
            let own = front.work.as_ref().and_then(EntryPayload::invocation_id);
            front.invocation_id = Some(own.unwrap_or(invocation_id).to_owned());
        }
        let cancel = front.cancel;
        let entry = self.entry(self.cursor() + 1)?;
        let journal = entry
            .invocation_id
            .as_ref()
            .filter(|_| recovered)
            .and_then(|id| self.journals.get(id));
        Some(ClaimedEntry {
            notes: journal.cloned().unwrap_or_default(),
            entry,
            recovered,
            cancel,
        })
    }

    pub(super) fn journal(&mut self, id: &str, notes: Vec<Value>) -> Result<(), StoreError> {
        self.expect_running(id, true)?;
        if !notes.is_empty() {
            self.journals
                .entry(id.to_owned())
                .or_default()
                .extend(notes);
        }
        Ok(())
    }

    pub(super) fn notes(&self, invocation_id: &str) -> Vec<JournalNote> {
        let notes = self.journals.get(invocation_id);
        (0..)
            .zip(notes.into_iter().flatten().cloned())
            .map(|(seq, note)| JournalNote { seq, note })
            .collect()
    }

    pub(super) fn audit(&mut self, invocation_id: &str, records: Vec<Value>, now: Timestamp) {
        for record in records {
            self.audit.push(AuditEntry {
                seq: self.audit.len() as u64,
                invocation_id: invocation_id.to_owned(),
                record,
                at: now,
            });
        }
    }

    pub(super) fn audited(&self, from: u64, limit: usize) -> Vec<AuditEntry> {
        limited(&self.audit, from, limit).cloned().collect()
    }

    pub(super) fn expect_length(&self, id: &str, expected: u64) -> Result<(), StoreError> {
        let found = self.seq();
        if found == expected {
            return Ok(());
        }
        Err(StoreError::Conflict {
            session: id.to_owned(),
            expected,
            found,
        })
    }

    /// Refuses an invocation other than the running one.
    ///
    /// Without a running one, it refuses only if one is `needed`.
    pub(super) fn expect_running(&self, id: &str, needed: bool) -> Result<(), StoreError> {
        let running = self
            .front()
            .and_then(|entry| entry.invocation_id.as_deref());
        let fits = running.map_or(!needed, |running| running == id);
        if fits {
            return Ok(());
        }
        Err(StoreError::NotFound {
            what: format!("running invocation `{id}`"),
        })
    }

    /// Returns whether the running entry resumes after a signal.
    pub(super) fn resumes(&self) -> bool {
        self.front()
            .is_some_and(|entry| entry.invocation_id.is_some() && entry.resumes)
    }

    /// Applies a valid commit and returns how it settles the entry, if it does.
    pub(super) fn apply(&mut self, commit: Commit) -> Option<Disposition> {
        self.has_state |= changes_state(&commit);
        let appends = !commit.messages.is_empty();
        self.history
            .extend(commit.messages.into_iter().map(Arc::new));
        self.fields.extend(commit.fields);
        if commit.schema_version.is_some() {
            self.schema_version = commit.schema_version;
        }
        self.touch(commit.now);

        let keeps = match commit.settle.as_ref()? {
            Disposition::Done {
                outcome,
                keep_journal,
                ..
            } => {
                self.settle(outcome, &commit.invocation_id, appends, commit.now);
                *keep_journal
            }
            Disposition::Suspended { outcome, .. } => {
                self.settle(outcome, &commit.invocation_id, appends, commit.now);
                false
            }
            Disposition::Requeue => {
                if let Some(entry) = self.front_mut() {
                    entry.invocation_id = None;
                    entry.cancel = None;
                }
                self.journals.remove(&commit.invocation_id);
                return None;
            }
        };
        if !keeps {
            self.journals.remove(&commit.invocation_id);
        }
        commit.settle
    }

    pub(super) fn outcome_of(&self, entry: u64) -> Option<StoredOutcome> {
        let index = as_index(entry.checked_sub(1)?);
        self.outcomes.get(index).cloned()
    }

    pub(super) fn history(&self, from: u64, limit: usize) -> Vec<Value> {
        limited(&self.history, from, limit)
            .map(|message| (**message).clone())
            .collect()
    }

    pub(super) fn set_label(&mut self, name: &str, value: Value, now: Timestamp) {
        self.labels.insert(name.to_owned(), value);
        self.touch(now);
    }

    pub(super) fn set_label_once(
        &mut self,
        name: &str,
        value: Value,
        now: Timestamp,
    ) -> Option<Value> {
        let earlier = self.labels.get(name).cloned();
        if earlier.is_none() {
            self.set_label(name, value, now);
        }
        earlier
    }

    pub(super) fn fork(
        &self,
        id: &str,
        upto: u64,
        epoch: u64,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let Some(shared) = self.history.get(..as_index(upto)) else {
            return Err(StoreError::Conflict {
                session: id.to_owned(),
                expected: upto,
                found: self.seq(),
            });
        };
        Ok(Self {
            history: shared.to_vec(),
            fields: self.fields.clone(),
            schema_version: self.schema_version.clone(),
            has_state: self.has_state,
            labels: self.labels.clone(),
            ..Self::new(epoch, now)
        })
    }

    /// Adds messages that no turn committed.
    pub(super) fn append(&mut self, messages: Vec<Value>) {
        self.history.extend(messages.into_iter().map(Arc::new));
    }

    pub(super) fn info(&self, id: &str) -> SessionInfo {
        SessionInfo {
            session: id.to_owned(),
            seq: self.seq(),
            fields: self.fields.clone(),
            schema_version: self.schema_version.clone(),
            has_state: self.has_state,
            labels: self.labels.clone(),
            epoch: self.epoch,
            cursor: self.cursor(),
            pending: match self.location() {
                SessionLocation::Here { .. } => as_count(self.entries.len()) - self.cursor(),
                _ => 0,
            },
            elsewhere: self.location().elsewhere(),
            created_at: self.created_at,
            updated_at: self.updated_at,
        }
    }

    pub(super) const fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(super) fn verify(&self, id: &str, verified: &mut IntegrityReport) {
        verified.messages += self.seq();
        if self.outcomes.len() > self.entries.len() {
            let fault = IntegrityFault::new("session", "more outcomes than entries");
            verified.faults.push(fault.in_session(id));
        }
        for (position, outcome) in (1..).zip(&self.outcomes) {
            if outcome.entry != position || outcome.cursor != position {
                let fault = IntegrityFault::new("outcome", "out of order").at(position);
                verified.faults.push(fault.in_session(id));
            }
            if outcome.replies_to > self.seq() {
                let fault = IntegrityFault::new("outcome", "messages are missing").at(position);
                verified.faults.push(fault.in_session(id));
            }
        }
    }

    fn settle(&mut self, outcome: &NewOutcome, id: &str, appends: bool, now: Timestamp) {
        let replies_to = self.seq();
        let position = self.cursor() + 1;
        let Some(entry) = self.front_mut() else {
            return;
        };
        let resumed = entry.resumes;
        if appends && matches!(entry.work, Some(EntryPayload::Message { .. })) {
            entry.work = None;
        }
        entry.cancel = None;
        self.outcomes.push(StoredOutcome {
            cursor: position,
            entry: position,
            invocation_id: id.to_owned(),
            resumed,
            kind: outcome.kind,
            replies_from: outcome.replies_from,
            replies_to,
            body: outcome.body.clone(),
            at: now,
        });
    }

    fn entry_mut(&mut self, number: u64) -> Option<&mut Entry> {
        self.entries.get_mut(as_index(number.checked_sub(1)?))
    }

    fn digest_of(&self, number: u64) -> Option<&String> {
        let entry = self.entries.get(as_index(number.checked_sub(1)?))?;
        entry.digest.as_ref()
    }

    fn touch(&mut self, now: Timestamp) {
        self.updated_at = self.updated_at.max(now);
    }

    fn seq(&self) -> u64 {
        as_count(self.history.len())
    }

    fn cursor(&self) -> u64 {
        as_count(self.outcomes.len())
    }

    /// The number of entries processed before this one.
    fn ahead(&self, number: u64) -> u64 {
        number.saturating_sub(self.cursor() + 1)
    }

    /// The entry that runs or comes next.
    fn front(&self) -> Option<&Entry> {
        self.entries.get(self.outcomes.len())
    }

    fn front_mut(&mut self) -> Option<&mut Entry> {
        self.entries.get_mut(self.outcomes.len())
    }

    fn running_mut(&mut self) -> Option<&mut Entry> {
        self.front_mut()
            .filter(|entry| entry.invocation_id.is_some())
    }
}

/// The items from a position on, at most `limit` of them.
pub(super) fn limited<T>(items: &[T], from: u64, limit: usize) -> impl Iterator<Item = &T> {
    items.iter().skip(as_index(from)).take(limit)
}

/// Returns whether a commit leaves session state.
///
/// A turn that failed or gave up before it changed anything does not.
fn changes_state(commit: &Commit) -> bool {
    let settles_only = match &commit.settle {
        None | Some(Disposition::Suspended { .. }) => false,
        Some(Disposition::Done { outcome, .. }) => outcome.kind != OutcomeKind::Completed,
        Some(Disposition::Requeue) => true,
    };
    !settles_only || !commit.messages.is_empty() || !commit.fields.is_empty()
}

/// A position as an index; one that memory cannot hold is beyond the end.
fn as_index(position: u64) -> usize {
    usize::try_from(position).unwrap_or(usize::MAX)
}

fn as_count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
