//! The port through which time comes in.

use std::sync::Arc;
use std::time::Duration;

use logue_graph::BoxFuture;
use serde::{Deserialize, Serialize};

/// A moment, as milliseconds since the beginning of 1970, UTC.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The moment that lies `duration` later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(millis))
    }

    /// The time until `later`; zero if that is past.
    pub fn until(self, later: Self) -> Duration {
        Duration::from_millis(later.0.saturating_sub(self.0))
    }
}

/// A source of time and timers.
///
/// A program passes the machine's clock, a simulator its own.
pub trait Clock: Send + Sync {
    /// The moment it is.
    fn now(&self) -> Timestamp;

    /// Completes when `duration` has passed.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        (**self).sleep(duration)
    }
}
