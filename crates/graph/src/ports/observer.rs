//! Observers of the nodes of a run, and the delivery of their events.
//!
//! The engine puts events into a queue and continues. The queue is drained beside the run, in the
//! same task, whenever the run is polled: an observer that waits delays later events, but never a
//! node. Events left at the end of the run wait for
//! [`CompiledGraph::drain`](crate::CompiledGraph::drain) or for the next observed run of the graph.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use crate::error::{EngineError, NodeError};
use crate::pause::suspension::SignalDescriptor;
use crate::run::info::{NodeLocation, RunInfo};
use crate::state::snapshot::State;
use futures_util::future::BoxFuture;

/// Observes nodes. Events arrive one at a time and in order.
pub trait Observer: Send + Sync {
    /// Receives an event.
    ///
    /// # Errors
    /// An error is written to the program's log, as is a panic; neither affects the run or the
    /// events of other observers, and later events still arrive.
    fn observe<'a>(
        &'a self,
        event: &'a NodeEvent,
        run: &'a RunInfo,
    ) -> BoxFuture<'a, Result<(), NodeError>>;
}

impl<O: Observer + ?Sized> Observer for Arc<O> {
    fn observe<'a>(
        &'a self,
        event: &'a NodeEvent,
        run: &'a RunInfo,
    ) -> BoxFuture<'a, Result<(), NodeError>> {
        (**self).observe(event, run)
    }
}

/// The begin or end of an attempt of a node.
///
/// Each attempt produces one event when it begins and one when it ends. When a middleware repeats a
/// failed attempt, the end of that attempt is reported before the next one begins; a run that
/// suspends reports the suspended node and every node around it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeEvent {
    /// The node and its attempt.
    pub place: NodeLocation,
    /// The phase of the attempt.
    pub phase: Phase,
    /// The state that the node started from.
    pub pre_state: State,
    /// The states of the outer graphs, outermost first.
    pub parent_states: Vec<State>,
}

/// The phase of an attempt of a node.
#[derive(Clone, Debug)]
pub enum Phase {
    /// The attempt began.
    Started,
    /// The attempt ended, with the updated state or with an error.
    Completed(Result<State, Box<EngineError>>),
    /// The attempt waits for a signal.
    Suspended(SignalDescriptor),
}

impl Phase {
    /// Returns `started`, `completed` or `suspended`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Completed(_) => "completed",
            Self::Suspended(_) => "suspended",
        }
    }
}

impl NodeEvent {
    /// Returns the state with the node's update, if the node succeeded.
    pub fn post_state(&self) -> Option<&State> {
        match &self.phase {
            Phase::Completed(Ok(state)) => Some(state),
            _ => None,
        }
    }

    /// Returns the error of the node, its update or its edge, if any.
    pub fn error(&self) -> Option<&EngineError> {
        match &self.phase {
            Phase::Completed(Err(error)) => Some(error),
            _ => None,
        }
    }

    /// Returns the signal that the node waits for, if it suspended.
    pub fn descriptor(&self) -> Option<&SignalDescriptor> {
        match &self.phase {
            Phase::Suspended(descriptor) => Some(descriptor),
            _ => None,
        }
    }
}

/// The queue of events of one run for its observers.
pub(crate) struct Delivery {
    observers: Arc<[Arc<dyn Observer>]>,
    info: Arc<RunInfo>,
    queue: Mutex<VecDeque<NodeEvent>>,
    /// The current delivery.
    current: Mutex<Option<BoxFuture<'static, ()>>>,
}

impl Delivery {
    /// Creates the delivery of a run; none without observers.
    pub(crate) fn new(
        of_graph: &[Arc<dyn Observer>],
        of_run: &[Arc<dyn Observer>],
        info: &Arc<RunInfo>,
    ) -> Option<Arc<Self>> {
        let observers: Arc<[_]> = of_graph.iter().chain(of_run).map(Arc::clone).collect();
        (!observers.is_empty()).then(|| {
            Arc::new(Self {
                observers,
                info: Arc::clone(info),
                queue: Mutex::default(),
                current: Mutex::default(),
            })
        })
    }

    pub(crate) fn push(&self, event: NodeEvent) {
        lock(&self.queue).push_back(event);
    }

    /// Delivers until the queue is empty or an observer waits.
    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let taken = lock(&self.current).take();
            let mut current = match taken {
                Some(current) => current,
                None => match lock(&self.queue).pop_front() {
                    Some(event) => {
                        deliver(Arc::clone(&self.observers), Arc::clone(&self.info), event)
                    }
                    None => return Poll::Ready(()),
                },
            };
            if current.as_mut().poll(cx).is_pending() {
                *lock(&self.current) = Some(current);
                return Poll::Pending;
            }
        }
    }

    fn is_done(&self) -> bool {
        lock(&self.current).is_none() && lock(&self.queue).is_empty()
    }
}

/// The events that were not delivered when their run ended.
#[derive(Default)]
pub(crate) struct Undelivered(Mutex<VecDeque<Arc<Delivery>>>);

impl Undelivered {
    /// Takes the undelivered events, followed by the events of a new run.
    pub(crate) fn take(&self, new: Option<Arc<Delivery>>) -> Deliverer<'_> {
        let mut deliveries = std::mem::take(&mut *lock(&self.0));
        deliveries.extend(new);
        Deliverer {
            left: self,
            deliveries,
        }
    }
}

/// Delivers in order, and leaves undelivered events to another deliverer when dropped.
pub(crate) struct Deliverer<'a> {
    left: &'a Undelivered,
    deliveries: VecDeque<Arc<Delivery>>,
}

impl Deliverer<'_> {
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, keep_last: bool) -> Poll<()> {
        while let Some(delivery) = self.deliveries.front() {
            if delivery.poll(cx).is_pending() {
                return Poll::Pending;
            }
            if keep_last && self.deliveries.len() == 1 {
                return Poll::Ready(());
            }
            self.deliveries.pop_front();
        }
        Poll::Ready(())
    }

    /// Runs a future and delivers events beside it.
    ///
    /// A run that was never polled emits no events.
    pub(crate) async fn beside<T>(&mut self, mut run: BoxFuture<'_, T>) -> T {
        std::future::poll_fn(|cx| {
            let polled = run.as_mut().poll(cx);
            let _waiting = self.poll(cx, true);
            polled
        })
        .await
    }
}

impl Drop for Deliverer<'_> {
    fn drop(&mut self) {
        let left = self.deliveries.drain(..).filter(|left| !left.is_done());
        let left: Vec<_> = left.collect();
        if !left.is_empty() {
            let mut waiting = lock(&self.left.0);
            for delivery in left.into_iter().rev() {
                waiting.push_front(delivery);
            }
        }
    }
}

fn deliver(
    observers: Arc<[Arc<dyn Observer>]>,
    info: Arc<RunInfo>,
    event: NodeEvent,
) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        for observer in observers.iter() {
            notify(&**observer, &event, &info).await;
        }
    })
}

/// Sends an event to one observer, and survives its errors and panics.
async fn notify(observer: &dyn Observer, event: &NodeEvent, info: &RunInfo) {
    let begun = catch_unwind(AssertUnwindSafe(|| observer.observe(event, info)));
    let Ok(mut delivery) = begun else {
        return warn_failure(event, "it panicked");
    };
    let polled = std::future::poll_fn(|cx| {
        match catch_unwind(AssertUnwindSafe(|| delivery.as_mut().poll(cx))) {
            Ok(polled) => polled.map(Some),
            Err(_) => Poll::Ready(None),
        }
    });
    match polled.await {
        Some(Ok(())) => {}
        Some(Err(error)) => warn_failure(event, error.category().unwrap_or("it failed")),
        None => warn_failure(event, "it panicked"),
    }
    // The drop of the future may panic too.
    if catch_unwind(AssertUnwindSafe(move || drop(delivery))).is_err() {
        warn_failure(event, "it panicked");
    }
}

fn warn_failure(event: &NodeEvent, cause: &str) {
    tracing::warn!(
        node = event.place.node_name(),
        phase = event.phase.as_str(),
        cause,
        "an observer failed"
    );
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery").finish_non_exhaustive()
    }
}
