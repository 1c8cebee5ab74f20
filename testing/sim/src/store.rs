//! A slow store with injected failures.
//!
//! An operation fails before it has an effect, or after it, so that its result is unknown.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use logue_harness::store::{MemoryStore, Store, StoreError, StoreLayer, StoreResult};
use testkit::Random;

/// The view that all nodes have of one memory store.
#[derive(Clone)]
pub(crate) struct SimStore {
    memory: Arc<MemoryStore>,
    chance: Arc<Mutex<Chance>>,
}

struct Chance {
    random: Random,
    /// The mean number of operations per failure; 0 disables failures.
    one_in: usize,
}

#[derive(Clone, Copy)]
enum Fate {
    Works,
    FailsBefore,
    FailsAfter,
}

impl SimStore {
    pub(crate) fn new(seed: u64, one_in: usize) -> Self {
        let random = Random::new(seed);
        Self {
            memory: Arc::new(MemoryStore::new()),
            chance: Arc::new(Mutex::new(Chance { random, one_in })),
        }
    }

    /// Returns the underlying memory store, which never fails.
    pub(crate) fn memory(&self) -> &Arc<MemoryStore> {
        &self.memory
    }

    /// Disables failures.
    pub(crate) fn heal(&self) {
        self.lock().one_in = 0;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Chance> {
        self.chance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fate(&self) -> (usize, Fate) {
        let mut chance = self.lock();
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
            let failed = || StoreError::Unavailable {
                message: "the disk is away".to_owned(),
                source: None,
            };
            match fate {
                Fate::Works => {
                    let result = work.await;
                    // The response is delayed, so a crash may lose it.
                    give_way(delay).await;
                    result
                }
                Fate::FailsBefore => Err(failed()),
                Fate::FailsAfter => {
                    drop(work.await);
                    Err(failed())
                }
            }
        })
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
        self.weather(operation(&*self.memory))
    }
}
