//! How a node stops a run to wait for a signal, and why nothing it calls can prevent that.
//!
//! A suspension is not an error that travels up through the node: a helper that catches every
//! error would swallow it. The innermost future leaves its request where the engine looks and then
//! stays pending. The engine looks after every poll, before it considers what the node returned,
//! and drops the whole chain of futures. What stands behind the `await` in the node, in its helpers
//! and in whatever wraps it never runs; destructors do.
//!
//! All nodes of a run share one place for their requests. So the engine also finds the request of a
//! node that has ended, which somebody has kept and awaits too late, and can fail the run.

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
///
/// It belongs to one attempt of one node. Polled later, while the run still goes on, it ends the run
/// with the error `suspension_in_unsupported_context`; it could not be what the run waits for, and
/// whoever awaits it would wait for ever. When the run is over too, nobody is left who could be
/// told: the future stays pending and does nothing. So a [`NodeContext`](crate::NodeContext) must
/// not be carried from one run into another.
#[derive(Debug)]
#[must_use = "nothing is suspended until it is awaited"]
pub struct Suspend {
    pub(crate) request: Option<SuspendRequest>,
    pub(crate) place: Place,
    pub(crate) desk: Arc<SuspendDesk>,
}

impl Future for Suspend {
    type Output = Infallible;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Infallible> {
        if let Some(request) = self.request.take() {
            self.desk.put(&self.place, request);
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

/// The attempt of a node to which a suspension belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) node: Arc<str>,
    pub(crate) step: usize,
    pub(crate) attempt_index: usize,
}

/// A suspension that was asked for outside the attempt to which it belongs.
#[derive(Debug)]
pub(crate) struct Misplaced {
    pub(crate) node: Arc<str>,
    pub(crate) signal_id: String,
}

/// Where the nodes of one run leave their requests, and the engine looks for them.
#[derive(Debug, Default)]
pub(crate) struct SuspendDesk {
    inner: Mutex<Desk>,
}

#[derive(Debug, Default)]
struct Desk {
    /// The attempt that may suspend now.
    open: Option<Place>,
    request: Option<SuspendRequest>,
    misplaced: Option<Misplaced>,
    /// The task of the engine: a node may suspend from another task than its own.
    engine: Option<Waker>,
}

impl SuspendDesk {
    /// A suspension that came when its attempt was over. The first one is kept.
    pub(crate) fn misplaced(&self) -> Option<Misplaced> {
        self.lock().misplaced.take()
    }

    /// Leaves a request, unless there is one: the first suspension of an attempt counts.
    fn put(&self, place: &Place, request: SuspendRequest) {
        let mut desk = self.lock();
        if desk.open.as_ref() == Some(place) {
            desk.request.get_or_insert(request);
        } else {
            desk.misplaced.get_or_insert_with(|| Misplaced {
                node: Arc::clone(&place.node),
                signal_id: request.descriptor.signal_id,
            });
        }
        let engine = desk.engine.take();
        drop(desk);
        if let Some(engine) = engine {
            engine.wake();
        }
    }

    fn open(&self, place: Place) -> Open<'_> {
        self.lock().open = Some(place);
        Open(self)
    }

    fn listen(&self, waker: &Waker) {
        let mut desk = self.lock();
        match &mut desk.engine {
            Some(engine) => engine.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    fn found<T>(&self) -> Option<Attempt<T>> {
        let mut desk = self.lock();
        // A mistake is told even if something else could be done: nobody else will tell it.
        let misplaced = desk.misplaced.take().map(Attempt::Misplaced);
        misplaced.or_else(|| desk.request.take().map(Attempt::Suspended))
    }

    fn lock(&self) -> MutexGuard<'_, Desk> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time in which an attempt may suspend; it ends however the attempt does.
struct Open<'a>(&'a SuspendDesk);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let mut desk = self.0.lock();
        desk.open = None;
        desk.request = None;
        let engine = desk.engine.take();
        drop(desk);
        drop(engine);
    }
}

/// How an attempt of a node ended.
pub(crate) enum Attempt<T> {
    Returned(T),
    Suspended(SuspendRequest),
    Misplaced(Misplaced),
}

/// Runs an attempt until it returns or suspends. Its future is gone when this completes.
pub(crate) async fn attempt<T>(
    mut future: BoxFuture<'_, T>,
    place: Place,
    desk: &SuspendDesk,
) -> Attempt<T> {
    let _open = desk.open(place);
    std::future::poll_fn(|cx| {
        desk.listen(cx.waker());
        let polled = future.as_mut().poll(cx);
        match (desk.found(), polled) {
            (Some(found), _) => Poll::Ready(found),
            (None, Poll::Ready(value)) => Poll::Ready(Attempt::Returned(value)),
            (None, Poll::Pending) => Poll::Pending,
        }
    })
    .await
}
