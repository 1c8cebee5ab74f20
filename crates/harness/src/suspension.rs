//! How a node stops a run to wait for a signal, and why nothing it calls can prevent that.
//!
//! A suspension is not an error that travels up through the node: a helper that catches every
//! error would swallow it. The innermost future leaves its request where the engine looks and then
//! stays pending. The engine looks after every poll, before it considers what the node returned,
//! and drops the whole chain of futures. What stands behind the `await` in the node, in its helpers
//! and in whatever wraps it never runs; destructors do.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use serde_json::Value;

use crate::node::BoxFuture;

/// What a suspended run waits for. The engine passes it on exactly as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct SignalDescriptor {
    /// The name under which the signal is to come.
    pub signal_id: String,
    /// Anything that whoever gives the signal should know.
    pub metadata: Option<Value>,
}

impl SignalDescriptor {
    /// A descriptor without metadata.
    pub fn new(signal_id: impl Into<String>) -> Self {
        Self {
            signal_id: signal_id.into(),
            metadata: None,
        }
    }

    /// Adds metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Value) -> Self {
        self.metadata = Some(metadata);
        self
    }
}

/// A future that suspends the run when it is first polled, and never completes.
///
/// A node writes `match ctx.suspend(descriptor).await {}`, which has any type that is asked for.
/// Polled after its node has ended, it does nothing and never completes either.
#[derive(Debug)]
#[must_use = "nothing is suspended until it is awaited"]
pub struct Suspend {
    pub(crate) request: Option<SuspendRequest>,
    pub(crate) slot: Arc<SuspendSlot>,
}

impl Future for Suspend {
    type Output = Infallible;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Infallible> {
        if let Some(request) = self.request.take() {
            self.slot.put(request);
        }
        Poll::Pending
    }
}

/// What a node asks for when it suspends.
#[derive(Debug)]
pub(crate) struct SuspendRequest {
    pub(crate) descriptor: SignalDescriptor,
    pub(crate) node_completed: bool,
}

/// Where one attempt of a node leaves its request.
#[derive(Debug, Default)]
pub(crate) struct SuspendSlot {
    inner: Mutex<Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    request: Option<SuspendRequest>,
    /// The task of the engine: a node may suspend from another task than its own.
    engine: Option<Waker>,
}

impl SuspendSlot {
    /// Leaves a request, unless there is one: the first suspension of an attempt counts.
    fn put(&self, request: SuspendRequest) {
        let mut slot = self.lock();
        slot.request.get_or_insert(request);
        let engine = slot.engine.take();
        drop(slot);
        if let Some(engine) = engine {
            engine.wake();
        }
    }

    fn listen(&self, waker: &Waker) {
        let mut slot = self.lock();
        match &mut slot.engine {
            Some(engine) => engine.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    fn take(&self) -> Option<SuspendRequest> {
        self.lock().request.take()
    }

    fn lock(&self) -> MutexGuard<'_, Slot> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How an attempt of a node ended.
pub(crate) enum Attempt<T> {
    Returned(T),
    Suspended(SuspendRequest),
}

/// Runs an attempt until it returns or suspends. Its future is gone when this completes.
pub(crate) async fn attempt<T>(mut future: BoxFuture<'_, T>, slot: &SuspendSlot) -> Attempt<T> {
    std::future::poll_fn(|cx| {
        slot.listen(cx.waker());
        let polled = future.as_mut().poll(cx);
        match (slot.take(), polled) {
            (Some(request), _) => Poll::Ready(Attempt::Suspended(request)),
            (None, Poll::Ready(value)) => Poll::Ready(Attempt::Returned(value)),
            (None, Poll::Pending) => Poll::Pending,
        }
    })
    .await
}
