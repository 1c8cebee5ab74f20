//! Watches a running turn for the loss of its lease and for cancel requests.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::store::{CancelMode, Lease, StoreError};

use super::Inner;

/// The interval at which the store is checked for a request to cancel.
///
/// A request from this process is noticed at once.
const LOOK: Duration = Duration::from_millis(500);

/// The reason to end a turn early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It was asked to.
    Cancelled(CancelMode),
    /// Another process has the session.
    Fenced,
}

impl<E: Send + 'static> Inner<E> {
    /// Keeps the lease, and completes when the turn has to end.
    pub(super) async fn watch(&self, lease: &Lease) -> Stop {
        let pause = LOOK.min(self.settings.config.lease / 3);
        loop {
            // A wish of this process need not wait for the next look.
            race(self.clock.sleep(pause), self.changed.notified()).await;
            let now = self.clock.now();
            match self
                .store
                .renew(lease, now, self.settings.config.lease)
                .await
            {
                Ok(Some(mode)) => return Stop::Cancelled(mode),
                Err(StoreError::Fenced { .. }) => return Stop::Fenced,
                // The store may come back before the lease ends; what is written is fenced anyway.
                Ok(None) | Err(_) => {}
            }
        }
    }
}

/// The output of the first of two futures to complete.
pub(super) enum First<A, B> {
    One(A),
    Other(B),
}

/// Runs two futures until one of them is done, and drops the other. The first one wins a tie.
pub(super) async fn race<A, B>(one: A, other: B) -> First<A::Output, B::Output>
where
    A: Future,
    B: Future,
{
    let (mut one, mut other) = (pin!(one), pin!(other));
    std::future::poll_fn(|cx| {
        if let Poll::Ready(value) = one.as_mut().poll(cx) {
            return Poll::Ready(First::One(value));
        }
        match other.as_mut().poll(cx) {
            Poll::Ready(value) => Poll::Ready(First::Other(value)),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
