//! Simulated time, advanced by the simulator: one true time, and wall clocks that step.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use logue_harness::store::{LeaseClock, clock_of};
use logue_harness::{BoxFuture, Clock, Timestamp};

use crate::world::lock;

/// The true time, which no node can read.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrueTime(Arc<AtomicU64>);

impl TrueTime {
    pub(crate) fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn pass(&self, millis: u64) {
        self.0.fetch_add(millis, Ordering::Relaxed);
    }
}

/// The difference between the clocks of two machines, and the least one to the true time.
const BASE: i64 = 7_000_000;

/// The wall clock of a machine.
#[derive(Clone, Debug)]
pub(crate) struct WallClock {
    time: TrueTime,
    /// The difference to the true time, in milliseconds.
    off: Arc<AtomicI64>,
}

impl WallClock {
    pub(crate) fn new(time: &TrueTime) -> Self {
        // Near the clocks of the machines, so that steps lead to both sides of them.
        let off = Arc::new(AtomicI64::new(2 * BASE));
        let time = time.clone();
        Self { time, off }
    }

    /// Sets the clock forward or back.
    pub(crate) fn step(&self, millis: i64) {
        self.off.fetch_add(millis, Ordering::Relaxed);
    }
}

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        let off = self.off.load(Ordering::Relaxed);
        Timestamp(self.time.now().saturating_add_signed(off))
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        // Timers run by a monotonic clock, as those of a machine do.
        let time = self.time.clone();
        let end = Timestamp(time.now()).after(duration).0;
        // The simulator polls every task repeatedly, so no waker is required.
        Box::pin(std::future::poll_fn(move |_| {
            if time.now() >= end {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        }))
    }
}

/// The processes that run, by number.
pub(crate) type Processes = Arc<Mutex<BTreeSet<u64>>>;

/// The monotonic clock of a machine, as one of its processes reads it.
#[derive(Clone, Debug)]
pub(crate) struct MachineClock {
    pub(crate) time: TrueTime,
    /// The number of the machine. Each begins at another time.
    pub(crate) machine: u64,
    pub(crate) process: u64,
    pub(crate) running: Processes,
}

impl LeaseClock for MachineClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.time.now() + (self.machine + 1) * BASE.unsigned_abs())
    }

    fn owner(&self, owner: &str) -> String {
        format!("{owner}@machine-{}/{}", self.machine, self.process)
    }

    fn is_gone(&self, owner: &str) -> bool {
        !is_running(&self.running, owner)
    }
}

/// Returns whether the process of an owner ended on the machine of another owner.
pub(crate) fn is_dead_beside(running: &Processes, owner: &str, other: &str) -> bool {
    clock_of(owner) == clock_of(other) && !is_running(running, owner)
}

/// Returns whether the process of an owner runs.
pub(crate) fn is_running(running: &Processes, owner: &str) -> bool {
    let process = owner.rsplit_once('/').map(|(_, process)| process);
    let process = process.and_then(|process| process.parse().ok());
    process.is_some_and(|process| lock(running).contains(&process))
}
