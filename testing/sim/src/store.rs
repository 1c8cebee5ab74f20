//! A slow store with injected failures.
//!
//! An operation fails before it has an effect, or after it, so that its result is unknown. The store
//! compares leases with the true time: none may be taken from a process that keeps it, and no process
//! waits for one of its machine that ended.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use logue_harness::Timestamp;
use logue_harness::store::{
    CancelMode, ClaimedEntry, Commit, Lease, LeaseResult, SessionLocation, Store, StoreError,
    StoreLayer, StoreResult, is_same_holder,
};
use testkit::Random;

use crate::clock::{Processes, TrueTime, is_dead_beside, is_running};
use crate::settings::Settings;
use crate::shards::{Counts, Shards};
use crate::world::{lock, now_or_never};

/// The view that all nodes have of the stores.
#[derive(Clone)]
pub(crate) struct SimStore {
    stores: Arc<Shards>,
    /// The view of the simulator.
    memory: Arc<Shards>,
    /// Whether leases end by the clock of the store.
    has_clock: bool,
    chance: Arc<Mutex<Chance>>,
    time: TrueTime,
    running: Processes,
    leases: Arc<Mutex<Leases>>,
    recoveries: Arc<Mutex<Recoveries>>,
    claimed: Arc<Mutex<BTreeMap<String, u64>>>,
}

/// The number of times that the turn of an entry was taken over.
type Recoveries = BTreeMap<(String, u64), u64>;

/// The leases as they are by the true time.
#[derive(Default)]
struct Leases {
    /// The owner of each session, and the end of its lease.
    held: BTreeMap<String, (String, u64)>,
    /// The dead owners of one machine for which another process there waits.
    awaited: BTreeMap<String, String>,
    /// The first lease that was taken too early or too late.
    wrong: Option<String>,
}

struct Chance {
    random: Random,
    /// The mean number of operations per failure; 0 disables failures.
    one_in: usize,
    /// The number of commits that took effect and failed.
    unacknowledged: u64,
}

#[derive(Clone, Copy)]
enum Fate {
    Works,
    FailsBefore,
    FailsAfter,
}

impl SimStore {
    pub(crate) fn new(seed: u64, settings: Settings, time: &TrueTime, running: &Processes) -> Self {
        let random = Random::new(seed);
        let chance = Chance {
            random,
            one_in: settings.failures,
            unacknowledged: 0,
        };
        let memory = Shards::new(settings.shards);
        Self {
            memory: Arc::new(memory.view()),
            stores: Arc::new(memory),
            has_clock: settings.shards > 0,
            chance: Arc::new(Mutex::new(chance)),
            time: time.clone(),
            running: Arc::clone(running),
            leases: Arc::default(),
            recoveries: Arc::default(),
            claimed: Arc::default(),
        }
    }

    /// Returns the number of times that the turn of an entry was taken over.
    pub(crate) fn recoveries(&self, session: &str, entry: u64) -> u64 {
        let recoveries = lock(&self.recoveries);
        let key = (session.to_owned(), entry);
        recoveries.get(&key).copied().unwrap_or(0)
    }

    /// Returns the number of commits that took effect and failed.
    pub(crate) fn unacknowledged(&self) -> u64 {
        lock(&self.chance).unacknowledged
    }

    /// Returns the first lease that was taken too early or too late.
    pub(crate) fn wrong_lease(&self) -> Option<String> {
        lock(&self.leases).wrong.clone()
    }

    /// Returns the entry of a session that was claimed last.
    pub(crate) fn claimed(&self, session: &str) -> u64 {
        let claimed = lock(&self.claimed);
        claimed.get(session).copied().unwrap_or(0)
    }

    /// Notes a lease that was taken, and compares it with the one before.
    fn took(&self, session: &str, by: &str, taken: &LeaseResult, until: u64) {
        let mut leases = lock(&self.leases);
        let LeaseResult::Lease(lease) = taken else {
            return;
        };
        if let Some(dead) = leases.awaited.remove(session) {
            let wrong = format!("{by} waited in {session} for {dead}, which had ended");
            leases.wrong.get_or_insert(wrong);
        }
        let now = self.time.now();
        if let Some((owner, until)) = leases.held.get(&lease.session)
            && !is_same_holder(owner, &lease.owner)
            && now < *until
            && is_running(&self.running, owner)
        {
            let (session, new) = (&lease.session, &lease.owner);
            let left = until - now;
            let wrong = format!("{new} took {session} from {owner}, which kept it for {left} ms");
            leases.wrong.get_or_insert(wrong);
        }
        let held = (lease.owner.clone(), until);
        leases.held.insert(lease.session.clone(), held);
    }

    /// Returns the end of a lease that is requested now.
    fn until(&self, ttl: Duration) -> u64 {
        Timestamp(self.time.now()).after(ttl).0
    }

    /// Returns the underlying stores, which never fail.
    pub(crate) fn memory(&self) -> &Arc<Shards> {
        &self.memory
    }

    /// Returns the operations of the nodes on the stores.
    pub(crate) fn counts(&self) -> Counts {
        self.stores.counts()
    }

    /// Ends one of the stores, which loses what it has not flushed, and starts it again.
    ///
    /// Returns the number of operations that it lost.
    pub(crate) fn crash(&self, shard: usize) -> u64 {
        let lost = self.memory.crash(shard);
        let sessions = now_or_never(self.memory.sessions_of(shard));
        for session in sessions.into_iter().flatten().flatten() {
            let session = session.session;
            let location = now_or_never(self.memory.location(&session));
            let mut leases = lock(&self.leases);
            leases.held.remove(&session);
            if let Some(Ok(Some(SessionLocation::Here { lease: Some(lease) }))) = location {
                leases.held.insert(session, (lease.0, lease.1.0));
            }
        }
        lost
    }

    /// Returns the time of an operation on a lease.
    fn lease_time(&self, now: Timestamp) -> Timestamp {
        if self.has_clock {
            Timestamp(self.time.now())
        } else {
            now
        }
    }

    /// Disables failures.
    pub(crate) fn heal(&self) {
        lock(&self.chance).one_in = 0;
    }

    /// Decides whether a commit takes effect and fails, more often than other operations.
    fn loses_commit(&self) -> bool {
        let mut chance = lock(&self.chance);
        let one_in = chance.one_in / 2;
        one_in > 0 && chance.random.below(one_in) == 0
    }

    fn fate(&self) -> (usize, Fate) {
        let mut chance = lock(&self.chance);
        let delay = chance.random.below(3);
        let one_in = chance.one_in;
        if one_in == 0 || chance.random.below(one_in) != 0 {
            return (delay, Fate::Works);
        }
        match chance.random.below(2) {
            0 => (delay, Fate::FailsBefore),
            _ => (delay, Fate::FailsAfter),
        }
    }

    /// Runs an operation with a delay, and may fail before or after it.
    fn weather<'a, T: Send + 'a>(&'a self, work: StoreResult<'a, T>) -> StoreResult<'a, T> {
        Box::pin(async move {
            let (delay, fate) = self.fate();
            give_way(delay).await;
            match fate {
                Fate::Works => {
                    let result = work.await;
                    // The response is delayed, so a crash may lose it.
                    give_way(delay).await;
                    result
                }
                Fate::FailsBefore => Err(away()),
                Fate::FailsAfter => {
                    drop(work.await);
                    Err(away())
                }
            }
        })
    }
}

fn away() -> StoreError {
    StoreError::Unavailable {
        message: "the disk is away".to_owned(),
        source: None,
    }
}

/// Returns `Pending` the given number of times.
pub(crate) async fn give_way(mut times: usize) {
    std::future::poll_fn(|_| {
        if times == 0 {
            return Poll::Ready(());
        }
        times -= 1;
        Poll::Pending
    })
    .await;
}

impl StoreLayer for SimStore {
    fn forward<'a, T: Send + 'static>(
        &'a self,
        operation: impl for<'s> FnOnce(&'s (dyn Store + 'a)) -> StoreResult<'s, T> + Send + 'a,
    ) -> StoreResult<'a, T> {
        self.weather(operation(&*self.stores))
    }

    fn acquire<'a>(
        &'a self,
        session: &'a str,
        owner: &'a str,
        now: Timestamp,
        ttl: Duration,
    ) -> StoreResult<'a, LeaseResult> {
        let until = self.until(ttl);
        let acquiring = self.weather(Box::pin(async move {
            let now = self.lease_time(now);
            let mut taken = self.stores.acquire(session, owner, now, ttl).await?;
            // Owners of different machines have one clock, that of the store.
            if let LeaseResult::Held { owner: held, until } = &taken
                && self.has_clock
                && *until <= now
            {
                let over = (held.as_str(), *until);
                taken = self
                    .memory
                    .take_over(session, owner, over, now, ttl)
                    .await?;
            }
            self.took(session, owner, &taken, until);
            Ok(taken)
        }));
        Box::pin(async move {
            let taken = acquiring.await?;
            if let LeaseResult::Held { owner: holder, .. } = &taken
                && is_dead_beside(&self.running, holder, owner)
            {
                let mut leases = lock(&self.leases);
                leases.awaited.insert(session.to_owned(), holder.clone());
            }
            Ok(taken)
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
        let until = self.until(ttl);
        // An attempt that fails is made again.
        lock(&self.leases).awaited.remove(session);
        self.weather(Box::pin(async move {
            let now = self.lease_time(now);
            let taken = self
                .memory
                .take_over(session, owner, gone, now, ttl)
                .await?;
            self.took(session, owner, &taken, until);
            Ok(taken)
        }))
    }

    fn renew<'a>(
        &'a self,
        lease: &'a Lease,
        now: Timestamp,
        ttl: Duration,
    ) -> StoreResult<'a, Option<CancelMode>> {
        let until = self.until(ttl);
        self.weather(Box::pin(async move {
            let now = self.lease_time(now);
            let renewed = self.stores.renew(lease, now, ttl).await?;
            let held = (lease.owner.clone(), until);
            lock(&self.leases).held.insert(lease.session.clone(), held);
            Ok(renewed)
        }))
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> StoreResult<'a, ()> {
        self.weather(Box::pin(async move {
            self.stores.release(lease).await?;
            let mut leases = lock(&self.leases);
            let own = leases.held.get(&lease.session);
            if own.is_some_and(|(owner, _)| *owner == lease.owner) {
                leases.held.remove(&lease.session);
            }
            Ok(())
        }))
    }

    fn claim_next<'a>(
        &'a self,
        lease: &'a Lease,
        invocation_id: &'a str,
        now: Timestamp,
    ) -> StoreResult<'a, Option<ClaimedEntry>> {
        self.weather(Box::pin(async move {
            let claimed = self.stores.claim_next(lease, invocation_id, now).await?;
            if let Some(claimed) = &claimed {
                let key = (lease.session.clone(), claimed.entry.entry);
                lock(&self.claimed).insert(key.0.clone(), key.1);
                *lock(&self.recoveries).entry(key).or_default() += u64::from(claimed.recovered);
            }
            Ok(claimed)
        }))
    }

    fn commit<'a>(&'a self, lease: &'a Lease, commit: Commit) -> StoreResult<'a, ()> {
        if !self.loses_commit() {
            return self.weather(self.stores.commit(lease, commit));
        }
        Box::pin(async move {
            give_way(1).await;
            self.stores.commit(lease, commit).await?;
            lock(&self.chance).unacknowledged += 1;
            Err(away())
        })
    }
}
