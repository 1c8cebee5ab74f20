//! A store that lives as long as its process.
//!
//! Everything is plain data in one mutex, which is held for one operation and never across a wait.
//! The store keeps all promises of the port except durability. So it serves tests, simulations and
//! temporary conversations, and it is the reference for the other stores.

mod session;
mod suspensions;
mod transfer;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};

use self::session::{Session, limited};
use self::suspensions::Suspensions;
use super::{
    AuditEntry, BeginResult, BegunTurn, BoundLabel, CancelMode, ClaimedEntry, Commit, Disposition,
    EnqueueResult, EntryPayload, ImportResult, InboxEntry, IntegrityFault, IntegrityReport,
    JournalNote, LabelResult, Lease, LeaseResult, NewEntry, RecordArrival, RecordHash, RecordSink,
    RecordSource, RepairReport, SessionFilter, SessionFork, SessionInfo, SessionLocation,
    SignalResult, Store, StoreError, StoreResult, StoredOutcome, Suspension, SuspensionFilter,
    SuspensionStatus, check_session_id,
};
use crate::clock::Timestamp;

/// Keeps sessions in memory.
///
/// An operation costs what it adds or returns, and the logarithm of the number of sessions; forking
/// costs a pointer for each message. Listings look at everything that there is.
///
/// ```
/// use logue_harness::Timestamp;
/// use logue_harness::store::{EnqueueResult, MemoryStore, NewEntry, Store, EntryPayload};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = MemoryStore::new();
/// let hello = NewEntry {
///     work: EntryPayload::Message { message: json!({ "role": "user", "content": "Hello." }) },
///     key: Some("delivery-1".to_owned()),
///     digest: None,
///     retries: None,
///     only_if_idle: false,
///     only_after: None,
///     only_created_at: None,
///     cancel: None,
///     now: Timestamp(0),
/// };
/// let first = store.enqueue("s1", hello.clone()).await?;
/// let again = store.enqueue("s1", hello).await?;
/// assert_eq!(first, EnqueueResult::Entry { entry: 1, is_new: true, ahead: 0 });
/// assert_eq!(again, EnqueueResult::Entry { entry: 1, is_new: false, ahead: 0 });
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct MemoryStore {
    data: Mutex<Data>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies `operation` to the data when the future is polled.
    fn with<'a, T: Send + 'a>(
        &'a self,
        operation: impl FnOnce(&mut Data) -> Result<T, StoreError> + Send + 'a,
    ) -> StoreResult<'a, T> {
        Box::pin(async move {
            // No operation panics in the middle of a change, so the data is whole in any case.
            let mut data = self.data.lock().unwrap_or_else(PoisonError::into_inner);
            operation(&mut data)
        })
    }
}

impl Clone for MemoryStore {
    /// Copies what the store has at this moment; the two continue on their own.
    fn clone(&self) -> Self {
        let data = self.data.lock().unwrap_or_else(PoisonError::into_inner);
        Self {
            data: Mutex::new(data.clone()),
        }
    }
}

impl Store for MemoryStore {
    fn enqueue<'a>(&'a self, session: &'a str, entry: NewEntry) -> StoreResult<'a, EnqueueResult> {
        self.with(move |data| data.enqueue(session, entry))
    }

    fn entry<'a>(&'a self, session: &'a str, entry: u64) -> StoreResult<'a, Option<InboxEntry>> {
        self.with(move |data| {
            Ok(data
                .sessions
                .get(session)
                .and_then(|session| session.entry(entry)))
        })
    }

    fn entry_with_key<'a>(
        &'a self,
        session: &'a str,
        key: &'a str,
    ) -> StoreResult<'a, Option<InboxEntry>> {
        self.with(move |data| {
            Ok(data
                .sessions
                .get(session)
                .and_then(|session| session.entry(session.entry_of(key)?)))
        })
    }

    fn inbox<'a>(&'a self, session: &'a str) -> StoreResult<'a, Vec<InboxEntry>> {
        self.with(move |data| {
            Ok(data
                .sessions
                .get(session)
                .map(Session::inbox)
                .unwrap_or_default())
        })
    }

    fn request_cancel<'a>(&'a self, session: &'a str, mode: CancelMode) -> StoreResult<'a, bool> {
        self.with(move |data| {
            let Some(kept) = data.sessions.get_mut(session) else {
                return Ok(false);
            };
            kept.location().check(session)?;
            Ok(kept.cancel(mode))
        })
    }

    fn request_cancel_of<'a>(
        &'a self,
        session: &'a str,
        entry: u64,
        mode: CancelMode,
    ) -> StoreResult<'a, bool> {
        self.with(move |data| {
            let Some(kept) = data.sessions.get_mut(session) else {
                return Ok(false);
            };
            kept.location().check(session)?;
            Ok(kept.cancel_entry(entry, mode))
        })
    }

    fn acquire<'a>(
        &'a self,
        session: &'a str,
        owner: &'a str,
        now: Timestamp,
        ttl: Duration,
    ) -> StoreResult<'a, LeaseResult> {
        self.with(move |data| {
            let kept = usable(&mut data.sessions, session)?;
            Ok(kept.acquire(session, owner, None, now, ttl))
        })
    }

    fn take_over<'a>(
        &'a self,
        session: &'a str,
        owner: &'a str,
        gone: (&'a str, Timestamp),
        now: Timestamp,
        ttl: Duration,
    ) -> StoreResult<'a, LeaseResult> {
        self.with(move |data| {
            let kept = usable(&mut data.sessions, session)?;
            Ok(kept.acquire(session, owner, Some(gone), now, ttl))
        })
    }

    fn renew<'a>(
        &'a self,
        lease: &'a Lease,
        now: Timestamp,
        ttl: Duration,
    ) -> StoreResult<'a, Option<CancelMode>> {
        self.with(move |data| Ok(owned(&mut data.sessions, lease)?.renew(now.after(ttl))))
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> StoreResult<'a, ()> {
        self.with(move |data| {
            if let Ok(session) = owned(&mut data.sessions, lease) {
                session.release();
            }
            Ok(())
        })
    }

    fn claim_next<'a>(
        &'a self,
        lease: &'a Lease,
        invocation_id: &'a str,
        _now: Timestamp,
    ) -> StoreResult<'a, Option<ClaimedEntry>> {
        self.with(move |data| Ok(owned(&mut data.sessions, lease)?.claim_next(invocation_id)))
    }

    fn journal<'a>(
        &'a self,
        lease: &'a Lease,
        invocation_id: &'a str,
        notes: Vec<Value>,
    ) -> StoreResult<'a, ()> {
        self.with(move |data| owned(&mut data.sessions, lease)?.journal(invocation_id, notes))
    }

    fn begin<'a>(
        &'a self,
        session: &'a str,
        owner: &'a str,
        invocation_id: &'a str,
        now: Timestamp,
        ttl: Duration,
    ) -> StoreResult<'a, BeginResult> {
        self.with(move |data| {
            let kept = usable(&mut data.sessions, session)?;
            let is_idle = kept.info(session).pending == 0;
            // A session that is held is not idle for its next owner.
            if is_idle && kept.holder_beside(owner, None, now).is_none() {
                return Ok(BeginResult::Idle);
            }
            let lease = match kept.acquire(session, owner, None, now, ttl) {
                LeaseResult::Lease(lease) => lease,
                LeaseResult::Held { owner, until } => {
                    return Ok(BeginResult::Held { owner, until });
                }
            };
            Ok(match kept.claim_next(invocation_id) {
                Some(claimed) => BeginResult::Turn(Box::new(BegunTurn {
                    lease,
                    claimed,
                    info: Some(kept.info(session)),
                })),
                None => BeginResult::Idle,
            })
        })
    }

    fn commit<'a>(&'a self, lease: &'a Lease, commit: Commit) -> StoreResult<'a, ()> {
        self.with(move |data| data.commit(lease, commit))
    }

    fn commit_and_release<'a>(&'a self, lease: &'a Lease, commit: Commit) -> StoreResult<'a, ()> {
        self.with(move |data| {
            data.commit(lease, commit)?;
            owned(&mut data.sessions, lease)?.release();
            Ok(())
        })
    }

    fn signal<'a>(
        &'a self,
        invocation_id: &'a str,
        signal_id: Option<&'a str>,
        payload: Map<String, Value>,
        now: Timestamp,
    ) -> StoreResult<'a, SignalResult> {
        self.with(move |data| data.signal(invocation_id, signal_id, payload, now))
    }

    fn suspension<'a>(&'a self, invocation_id: &'a str) -> StoreResult<'a, Option<Suspension>> {
        self.with(move |data| Ok(data.suspensions.latest(invocation_id).cloned()))
    }

    fn suspensions(&self, filter: SuspensionFilter) -> StoreResult<'_, Vec<Suspension>> {
        self.with(move |data| {
            let mut found = data.suspensions.listed(&filter);
            if filter.is_usable {
                let is_here = |session: &str| {
                    matches!(data.location(session), Some(SessionLocation::Here { .. }))
                };
                found.retain(|one| is_here(&one.session));
            }
            Ok(found)
        })
    }

    fn session<'a>(&'a self, session: &'a str) -> StoreResult<'a, Option<SessionInfo>> {
        self.with(move |data| Ok(data.sessions.get(session).map(|kept| kept.info(session))))
    }

    fn history<'a>(
        &'a self,
        session: &'a str,
        from: u64,
        limit: usize,
    ) -> StoreResult<'a, Vec<Value>> {
        self.with(move |data| {
            Ok(data
                .sessions
                .get(session)
                .map(|session| session.history(from, limit))
                .unwrap_or_default())
        })
    }

    fn notes<'a>(
        &'a self,
        session: &'a str,
        invocation_id: &'a str,
    ) -> StoreResult<'a, Vec<JournalNote>> {
        self.with(move |data| {
            Ok(data
                .sessions
                .get(session)
                .map(|session| session.notes(invocation_id))
                .unwrap_or_default())
        })
    }

    fn audit<'a>(
        &'a self,
        session: &'a str,
        invocation_id: &'a str,
        records: Vec<Value>,
        now: Timestamp,
    ) -> StoreResult<'a, ()> {
        self.with(move |data| {
            let kept = data.made(session, now)?;
            kept.audit(invocation_id, records, now);
            Ok(())
        })
    }

    fn audited<'a>(
        &'a self,
        session: &'a str,
        from: u64,
        limit: usize,
    ) -> StoreResult<'a, Vec<AuditEntry>> {
        self.with(move |data| {
            Ok(data
                .sessions
                .get(session)
                .map(|session| session.audited(from, limit))
                .unwrap_or_default())
        })
    }

    fn outcomes_since<'a>(
        &'a self,
        session: &'a str,
        cursor: u64,
        limit: usize,
    ) -> StoreResult<'a, Vec<StoredOutcome>> {
        self.with(move |data| {
            Ok(data
                .sessions
                .get(session)
                .map(|session| limited(&session.outcomes, cursor, limit).cloned().collect())
                .unwrap_or_default())
        })
    }

    fn outcome_of<'a>(
        &'a self,
        session: &'a str,
        entry: u64,
    ) -> StoreResult<'a, Option<StoredOutcome>> {
        self.with(move |data| {
            Ok(data
                .sessions
                .get(session)
                .and_then(|session| session.outcome_of(entry)))
        })
    }

    fn list(&self, filter: SessionFilter) -> StoreResult<'_, Vec<SessionInfo>> {
        self.with(move |data| Ok(data.list(&filter)))
    }

    fn set_label<'a>(
        &'a self,
        session: &'a str,
        name: &'a str,
        value: Value,
        now: Timestamp,
    ) -> StoreResult<'a, ()> {
        self.with(move |data| {
            data.made(session, now)?.set_label(name, value, now);
            Ok(())
        })
    }

    fn set_label_once<'a>(
        &'a self,
        session: &'a str,
        name: &'a str,
        value: Value,
        now: Timestamp,
    ) -> StoreResult<'a, Option<Value>> {
        self.with(move |data| Ok(data.made(session, now)?.set_label_once(name, value, now)))
    }

    fn set_bound_label<'a>(
        &'a self,
        session: &'a str,
        label: BoundLabel,
    ) -> StoreResult<'a, LabelResult> {
        self.with(move |data| {
            let found = data.sessions.get(session).map(Session::created_at);
            if found != Some(label.only_created_at) {
                return Ok(LabelResult::OtherSession);
            }
            let (name, value, now) = (label.name, label.value, label.now);
            let session = data.made(session, now)?;
            if label.only_if_new {
                let earlier = session.set_label_once(&name, value, now);
                return Ok(LabelResult::from_earlier(earlier));
            }
            session.set_label(&name, value, now);
            Ok(LabelResult::Set)
        })
    }

    fn fork<'a>(&'a self, session: &'a str, fork: SessionFork) -> StoreResult<'a, ()> {
        self.with(move |data| data.fork(session, fork))
    }

    fn delete<'a>(&'a self, session: &'a str) -> StoreResult<'a, bool> {
        self.with(move |data| {
            if let Some(moved @ SessionLocation::Moved { .. }) = data.location(session) {
                moved.check(session)?;
            }
            Ok(data.delete(session))
        })
    }

    fn prune<'a>(
        &'a self,
        session: &'a str,
        unchanged_since: Timestamp,
        busy_too: bool,
    ) -> StoreResult<'a, bool> {
        self.with(move |data| Ok(data.prune(session, unchanged_since, busy_too)))
    }

    fn location<'a>(&'a self, session: &'a str) -> StoreResult<'a, Option<SessionLocation>> {
        self.with(move |data| Ok(data.location(session)))
    }

    fn export<'a>(
        &'a self,
        session: &'a str,
        mut sink: Box<dyn RecordSink>,
    ) -> StoreResult<'a, bool> {
        self.with(move |data| data.export(session, &mut *sink))
    }

    fn import<'a>(
        &'a self,
        session: &'a str,
        arrival: RecordArrival,
        mut record: Box<dyn RecordSource>,
    ) -> StoreResult<'a, ImportResult> {
        self.with(move |data| data.import(session, &arrival, &mut *record))
    }

    fn mark_moved<'a>(
        &'a self,
        lease: &'a Lease,
        hash: RecordHash,
        to: &'a str,
    ) -> StoreResult<'a, bool> {
        self.with(move |data| data.mark_moved(lease, hash, to))
    }

    fn mark_arrived<'a>(&'a self, session: &'a str) -> StoreResult<'a, bool> {
        self.with(move |data| data.mark_arrived(session))
    }

    fn version(&self) -> StoreResult<'_, Option<u64>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn verify<'a>(&'a self, session: Option<&'a str>) -> StoreResult<'a, IntegrityReport> {
        self.with(move |data| Ok(data.verify(session)))
    }

    fn repair(&self, _now: Timestamp) -> StoreResult<'_, RepairReport> {
        self.with(|data| {
            Ok(RepairReport {
                remaining: data.verify(None).faults,
                ..RepairReport::default()
            })
        })
    }

    fn quarantine(
        &self,
        faults: Vec<IntegrityFault>,
        _now: Timestamp,
    ) -> StoreResult<'_, RepairReport> {
        self.with(|_| {
            Ok(RepairReport {
                remaining: faults,
                ..RepairReport::default()
            })
        })
    }
}

/// All that is stored.
#[derive(Clone, Debug, Default)]
struct Data {
    sessions: BTreeMap<String, Session>,
    suspensions: Suspensions,
    /// The highest epoch of a session that was deleted. New ones count from it, so that a lease of
    /// a deleted session does not fit another session with its name.
    epochs: u64,
}

impl Data {
    /// The session, made if there is none.
    fn made(&mut self, session: &str, now: Timestamp) -> Result<&mut Session, StoreError> {
        if !self.sessions.contains_key(session) {
            check_session_id(session)?;
        }
        let epochs = self.epochs;
        let made = self
            .sessions
            .entry(session.to_owned())
            .or_insert_with(|| Session::new(epochs, now));
        made.location().check(session)?;
        Ok(made)
    }

    fn enqueue(&mut self, session: &str, entry: NewEntry) -> Result<EnqueueResult, StoreError> {
        let retried = entry.retries;
        let is_signalled =
            retried.is_some_and(|retried| self.suspensions.is_signalled(session, retried));
        let found = self.sessions.get(session).map(Session::created_at);
        if entry.only_created_at.is_some_and(|at| found != Some(at)) {
            return Ok(EnqueueResult::OtherSession);
        }
        let result = self.made(session, entry.now)?.enqueue(entry, is_signalled);
        if let (
            Some(retried),
            EnqueueResult::Entry {
                entry,
                is_new: true,
                ..
            },
        ) = (retried, &result)
        {
            self.suspensions.follow(session, retried, *entry);
        }
        Ok(result)
    }

    fn commit(&mut self, lease: &Lease, commit: Commit) -> Result<(), StoreError> {
        let session = owned(&mut self.sessions, lease)?;
        session.expect_length(&lease.session, commit.expected_seq)?;
        session.expect_running(&commit.invocation_id, commit.settle.is_some())?;
        let resumed = session.resumes();
        if let Some(Disposition::Suspended { .. }) = &commit.settle {
            self.suspensions
                .expect_free(&lease.session, &commit.invocation_id, resumed)?;
        }

        let id = commit.invocation_id.clone();
        let now = commit.now;
        let settled = session.apply(commit);
        let Some(settle) = settled else {
            return Ok(());
        };
        let is_kept = matches!(
            settle,
            Disposition::Done {
                keep_suspension: true,
                ..
            }
        );
        if resumed && !is_kept {
            self.suspensions.end(&id);
        }
        if let Disposition::Suspended { suspension, .. } = settle {
            self.suspensions.begin(&lease.session, &id, suspension, now);
        }
        Ok(())
    }

    fn signal(
        &mut self,
        invocation_id: &str,
        signal_id: Option<&str>,
        payload: Map<String, Value>,
        now: Timestamp,
    ) -> Result<SignalResult, StoreError> {
        if let Some(signal_id) = signal_id
            && let Some(earlier) = self.suspensions.earlier(invocation_id, signal_id)
        {
            return Ok(earlier);
        }
        let Some(suspension) = self.suspensions.latest_mut(invocation_id) else {
            return Ok(SignalResult::Unknown);
        };
        let Some(session) = self.sessions.get_mut(&suspension.session) else {
            return Ok(SignalResult::Unknown);
        };
        session.location().check(&suspension.session)?;
        if let Some(entry) = suspension.entry {
            return Ok(SignalResult::Entry {
                session: suspension.session.clone(),
                entry,
                is_new: false,
            });
        }
        let work = EntryPayload::Resume {
            invocation_id: invocation_id.to_owned(),
            payload,
        };
        let entry = session.put(work, (None, None), now);
        suspension.entry = Some(entry);
        suspension.status = SuspensionStatus::Signalled;
        Ok(SignalResult::Entry {
            session: suspension.session.clone(),
            entry,
            is_new: true,
        })
    }

    fn list(&self, filter: &SessionFilter) -> Vec<SessionInfo> {
        let prefix = filter.prefix.as_deref().unwrap_or_default();
        let mut found: Vec<(&String, &Session)> = self
            .sessions
            .range(prefix.to_owned()..)
            .take_while(|(id, _)| id.starts_with(prefix))
            .filter(|(id, session)| !filter.is_pending || session.info(id).pending > 0)
            .collect();
        // The sort is stable: what changed at the same time stays in the order of the ids.
        found.sort_by_key(|(_, session)| std::cmp::Reverse(session.updated_at));
        found.truncate(filter.limit.unwrap_or(usize::MAX));
        found
            .into_iter()
            .map(|(id, session)| session.info(id))
            .collect()
    }

    fn fork(&mut self, session: &str, fork: SessionFork) -> Result<(), StoreError> {
        let origin = self
            .sessions
            .get(session)
            .ok_or_else(|| no_session(session))?;
        origin.location().check(session)?;
        let into = fork.into.as_str();
        check_session_id(into)?;
        if self.sessions.contains_key(into) {
            return Err(StoreError::Exists {
                what: format!("a session `{into}`"),
            });
        }
        for (invocation_id, _) in &fork.suspended {
            self.suspensions.expect_free(into, invocation_id, false)?;
        }
        let mut copy = origin.fork(session, fork.upto, self.epochs, fork.now)?;
        copy.append(fork.messages);
        if let Some(work) = fork.work {
            copy.put(work, (None, None), fork.now);
        }
        for (invocation_id, suspension) in fork.suspended {
            self.suspensions
                .begin(into, &invocation_id, suspension, fork.now);
        }
        self.sessions.insert(fork.into, copy);
        Ok(())
    }

    fn delete(&mut self, session: &str) -> bool {
        let Some(gone) = self.sessions.remove(session) else {
            return false;
        };
        self.epochs = self.epochs.max(gone.epoch());
        self.suspensions.forget(session);
        true
    }

    fn prune(&mut self, session: &str, unchanged_since: Timestamp, busy_too: bool) -> bool {
        let Some(found) = self.sessions.get(session) else {
            return false;
        };
        let info = found.info(session);
        let busy_too = match found.location() {
            SessionLocation::Arriving { .. } => return false,
            SessionLocation::Moved { .. } => true,
            SessionLocation::Here { .. } => busy_too,
        };
        let is_waiting = self
            .suspensions
            .iter()
            .any(|one| one.session == session && one.status != SuspensionStatus::Resumed);
        let is_busy = info.pending > 0 || is_waiting;
        let is_pruned = info.updated_at <= unchanged_since && (busy_too || !is_busy);
        is_pruned && self.delete(session)
    }

    fn verify(&self, only: Option<&str>) -> IntegrityReport {
        let mut verified = IntegrityReport::default();
        let wanted = |id: &str| only.is_none_or(|only| only == id);
        for (id, session) in self.sessions.iter().filter(|(id, _)| wanted(id)) {
            verified.sessions += 1;
            session.verify(id, &mut verified);
        }
        for suspension in self.suspensions.iter() {
            if wanted(&suspension.session) && !self.sessions.contains_key(&suspension.session) {
                let problem = format!("that of `{}` has no session", suspension.invocation_id);
                let fault = IntegrityFault::new("suspension", problem);
                verified.faults.push(fault.in_session(&suspension.session));
            }
        }
        verified
    }
}

/// The session of a current lease.
/// Returns a session, unless another store continues it.
fn usable<'d>(
    sessions: &'d mut BTreeMap<String, Session>,
    session: &str,
) -> Result<&'d mut Session, StoreError> {
    let kept = sessions
        .get_mut(session)
        .ok_or_else(|| no_session(session))?;
    kept.location().check(session)?;
    Ok(kept)
}

fn owned<'d>(
    sessions: &'d mut BTreeMap<String, Session>,
    lease: &Lease,
) -> Result<&'d mut Session, StoreError> {
    let session = sessions
        .get_mut(&lease.session)
        .ok_or_else(|| no_session(&lease.session))?;
    session.fence(lease)?;
    Ok(session)
}

fn no_session(session: &str) -> StoreError {
    StoreError::NotFound {
        what: format!("session `{session}`"),
    }
}
