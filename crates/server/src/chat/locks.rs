//! Locks of sessions between a look at their end and the acceptance of a message.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;

/// Locks by session. A lock exists as long as it is held or awaited.
#[derive(Default)]
pub(crate) struct SessionLocks {
    locks: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl SessionLocks {
    /// Waits for the lock of a session.
    pub(crate) async fn lock(&self, session: &str) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(locks.entry(session.to_owned()).or_default())
        };
        lock.lock_owned().await
    }
}
