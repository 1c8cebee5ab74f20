//! Leases by the clock of the machine, bound to processes.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::layer::claim_under;
use super::leave::{LeaveReason, note_left};
use super::{
    BeginResult, CancelMode, Commit, EntryState, Lease, LeaseResult, SessionLocation, SharedStore,
    Store, StoreError, StoreLayer, StoreResult, clock_of,
};
use crate::clock::Timestamp;
use crate::machine::Machine;

/// A clock of leases, and the processes that share it.
///
/// The machine's own one is the default of [`ProcessLeases`]; a simulation has others.
pub trait LeaseClock: Send + Sync {
    /// Returns the time, which no change of a wall clock affects.
    fn now(&self) -> Timestamp;

    /// Returns the name of an owner of this process, which states the clock ([`clock_of`]).
    fn owner(&self, owner: &str) -> String;

    /// Returns whether the process of another owner of this clock has ended.
    fn is_gone(&self, owner: &str) -> bool;
}

/// A store whose leases do not depend on wall clocks.
///
/// Times of leases are those of a monotonic clock of the machine, whatever the caller passes, so that
/// a wrong or stepped wall clock changes nothing. The names of owners get the boot of the machine and
/// the process. A lease whose process is gone is taken over at once, if both processes are of one
/// boot and one namespace of processes. A lease of another machine or an earlier boot is taken over
/// when its owner has not renewed it for a whole lease, by the clock of the observer.
///
/// [`release_all`](Self::release_all) gives the sessions of a process that ends to the next one.
pub struct ProcessLeases {
    inner: SharedStore,
    clock: Box<dyn LeaseClock>,
    /// The name of the clock.
    name: String,
    held: Mutex<Vec<Lease>>,
    /// The foreign leases that were seen: owner, end and the time when they were first seen so.
    seen: Mutex<HashMap<String, (String, Timestamp, Timestamp)>>,
}

impl ProcessLeases {
    /// Wraps a store.
    pub fn new(inner: SharedStore) -> Self {
        Self::with_clock(inner, Machine::this())
    }

    /// Wraps a store, with leases by another clock than that of the machine.
    pub fn with_clock(inner: SharedStore, clock: impl LeaseClock + 'static) -> Self {
        Self {
            inner,
            name: clock_of(&clock.owner("")).to_owned(),
            clock: Box::new(clock),
            held: Mutex::default(),
            seen: Mutex::default(),
        }
    }

    /// Gives back every lease that this process has.
    ///
    /// Its turns must have ended or been dropped before. The journals of those that were dropped state
    /// that their owner left, so that the next one does not count a crash. A lease that cannot be given
    /// back expires.
    pub async fn release_all(&self) {
        let held = std::mem::take(&mut *lock(&self.held));
        for lease in held {
            // Without the note, the end counts as a crash.
            drop(self.leave_running(&lease).await);
            drop(self.inner.release(&lease).await);
        }
    }

    /// Notes in the journal of the running turn that its owner leaves it.
    async fn leave_running(&self, lease: &Lease) -> Result<(), StoreError> {
        let inbox = self.inner.inbox(&lease.session).await?;
        let mut entries = inbox.into_iter();
        let running = entries.find(|entry| entry.state == EntryState::Running);
        let Some(invocation_id) = running.and_then(|entry| entry.invocation_id) else {
            return Ok(());
        };
        note_left(
            &*self.inner,
            lease,
            &invocation_id,
            LeaveReason::ProcessEnds,
        )
        .await
    }

    /// Keeps a lease of this process.
    fn took(&self, lease: &Lease) {
        lock(&self.seen).remove(&lease.session);
        let mut held = lock(&self.held);
        held.retain(|other| other.session != lease.session);
        held.push(lease.clone());
    }

    /// Forgets a lease that this process had.
    fn gave_back(&self, lease: &Lease) {
        lock(&self.held).retain(|held| held != lease);
    }

    /// Returns whether the owner of a lease can no longer renew it.
    fn is_gone(&self, session: &str, owner: &str, until: Timestamp, ttl: Duration) -> bool {
        if clock_of(owner) == self.name {
            return self.clock.is_gone(owner);
        }
        let now = self.clock.now();
        let mut seen = lock(&self.seen);
        match seen.get(session) {
            Some((known, end, since)) if known == owner && *end == until => now >= since.after(ttl),
            _ => {
                seen.insert(session.to_owned(), (owner.to_owned(), until, now));
                false
            }
        }
    }
}

impl StoreLayer for ProcessLeases {
    fn forward<'a, T: Send + 'static>(
        &'a self,
        operation: impl for<'s> FnOnce(&'s (dyn Store + 'a)) -> StoreResult<'s, T> + Send + 'a,
    ) -> StoreResult<'a, T> {
        operation(&*self.inner)
    }

    fn acquire<'a>(
        &'a self,
        session: &'a str,
        owner: &'a str,
        _now: Timestamp,
        ttl: Duration,
    ) -> StoreResult<'a, LeaseResult> {
        Box::pin(async move {
            let named = self.clock.owner(owner);
            let now = self.clock.now();
            let mut acquired = self.inner.acquire(session, &named, now, ttl).await?;
            if let LeaseResult::Held { owner, until } = &acquired
                && self.is_gone(session, owner, *until, ttl)
            {
                let gone = (owner.as_str(), *until);
                let now = self.clock.now();
                let taken = self.inner.take_over(session, &named, gone, now, ttl);
                acquired = taken.await?;
            }
            if let LeaseResult::Lease(lease) = &acquired {
                self.took(lease);
            }
            Ok(acquired)
        })
    }

    fn begin<'a>(
        &'a self,
        session: &'a str,
        owner: &'a str,
        invocation_id: &'a str,
        now: Timestamp,
        ttl: Duration,
    ) -> StoreResult<'a, BeginResult> {
        Box::pin(async move {
            let named = self.clock.owner(owner);
            let begun = self
                .inner
                .begin(session, &named, invocation_id, self.clock.now(), ttl);
            match begun.await? {
                BeginResult::Turn(begun) => {
                    self.took(&begun.lease);
                    Ok(BeginResult::Turn(begun))
                }
                BeginResult::Held {
                    owner: holder,
                    until,
                } if self.is_gone(session, &holder, until, ttl) => {
                    let gone = (holder.as_str(), until);
                    let time = self.clock.now();
                    let taken = self.inner.take_over(session, &named, gone, time, ttl);
                    let lease = match taken.await? {
                        LeaseResult::Lease(lease) => lease,
                        LeaseResult::Held { owner, until } => {
                            return Ok(BeginResult::Held { owner, until });
                        }
                    };
                    self.took(&lease);
                    let begun = claim_under(self, &lease, invocation_id, now).await;
                    if !matches!(begun, Ok(BeginResult::Turn(_))) {
                        drop(StoreLayer::release(self, &lease).await);
                    }
                    begun
                }
                other => Ok(other),
            }
        })
    }

    fn commit_and_release<'a>(&'a self, lease: &'a Lease, commit: Commit) -> StoreResult<'a, ()> {
        Box::pin(async move {
            self.inner.commit_and_release(lease, commit).await?;
            self.gave_back(lease);
            Ok(())
        })
    }

    fn renew<'a>(
        &'a self,
        lease: &'a Lease,
        _now: Timestamp,
        ttl: Duration,
    ) -> StoreResult<'a, Option<CancelMode>> {
        self.inner.renew(lease, self.clock.now(), ttl)
    }

    /// A lease of this clock that is over, or whose process is gone, holds nothing.
    fn location<'a>(&'a self, session: &'a str) -> StoreResult<'a, Option<SessionLocation>> {
        Box::pin(async move {
            let found = self.inner.location(session).await?;
            let Some(SessionLocation::Here {
                lease: Some((owner, until)),
            }) = &found
            else {
                return Ok(found);
            };
            let is_over = clock_of(owner) == self.name
                && (self.clock.now() >= *until || self.clock.is_gone(owner));
            Ok(if is_over {
                Some(SessionLocation::Here { lease: None })
            } else {
                found
            })
        })
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> StoreResult<'a, ()> {
        Box::pin(async move {
            let released = self.inner.release(lease).await;
            self.gave_back(lease);
            released
        })
    }
}

impl std::fmt::Debug for ProcessLeases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessLeases")
            .field("clock", &self.name)
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // The data is whole after each change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
