//! Simulated time, advanced by the simulator.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use logue_harness::{BoxFuture, Clock, Timestamp};

/// The clock of all nodes, with a small offset per node.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimClock {
    now: Arc<AtomicU64>,
    /// The offset of this node, in milliseconds.
    ahead: u64,
}

impl SimClock {
    pub(crate) fn ahead(&self, ahead: u64) -> Self {
        Self {
            now: Arc::clone(&self.now),
            ahead,
        }
    }

    pub(crate) fn pass(&self, millis: u64) {
        self.now.fetch_add(millis, Ordering::Relaxed);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now.load(Ordering::Relaxed) + self.ahead)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let clock = self.clone();
        let end = clock.now().after(duration);
        // The simulator polls every task repeatedly, so no waker is required.
        Box::pin(std::future::poll_fn(move |_| {
            if clock.now() >= end {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        }))
    }
}
