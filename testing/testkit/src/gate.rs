//! A stream that continues when the test permits it.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The interval at which a waiting server checks whether it was stopped.
const CHECK: Duration = Duration::from_millis(50);

/// A count of permits, which a test grants and a server consumes. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    shared: Arc<(Mutex<usize>, Condvar)>,
}

impl Gate {
    /// Creates a gate without permits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Grants one permit.
    pub fn open(&self) {
        let (count, changed) = &*self.shared;
        *count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        changed.notify_all();
    }

    /// Waits for a permit and consumes it; returns `false` if `is_stopped` first.
    pub(crate) fn pass(&self, is_stopped: impl Fn() -> bool) -> bool {
        let (count, changed) = &*self.shared;
        let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
        while *count == 0 {
            if is_stopped() {
                return false;
            }
            let waited = changed.wait_timeout(count, CHECK);
            count = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *count -= 1;
        true
    }
}
