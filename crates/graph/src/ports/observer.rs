//! Who watches the nodes of a run: what they are told, and how it reaches them.
//!
//! The engine puts events into a queue and goes on. The queue is emptied beside the run, in the
//! same task, whenever the run is polled: an observer that waits holds up later events, but never a
//! node. What is left when the run ends waits for [`CompiledGraph::drain`](crate::CompiledGraph::drain)
//! or for the next observed run of the graph.

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

/// Watches nodes. Events come one at a time and in order.
pub trait Observer: Send + Sync {
    /// Takes an event.
    ///
    /// # Errors
    /// An error goes to the program's log, as does a panic; neither touches the run nor what other
    /// observers see, and later events still come.
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

/// An attempt of a node began or ended.
///
/// Each attempt gives one event when it begins and one when it ends. When an attempt fails that a
/// middleware repeats, its end is told before the next one begins; a run that suspends tells the
/// node that suspended and every node around it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeEvent {
    /// The node, and which attempt of it.
    pub place: NodeLocation,
    /// What happened.
    pub phase: Phase,
    /// The state that the node started from.
    pub pre_state: State,
    /// The states of the graphs around the node's own, outermost first.
    pub parent_states: Vec<State>,
}

/// What happened to an attempt of a node.
#[derive(Clone, Debug)]
pub enum Phase {
    /// It began.
    Started,
    /// It ended, with the state that holds its update, or with why there is none.
    Completed(Result<State, Box<EngineError>>),
    /// It waits for a signal.
    Suspended(SignalDescriptor),
}

impl Phase {
    /// `started`, `completed` or `suspended`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Completed(_) => "completed",
            Self::Suspended(_) => "suspended",
        }
    }
}

impl NodeEvent {
    /// The state with the node's update, if it completed well.
    pub fn post_state(&self) -> Option<&State> {
        match &self.phase {
            Phase::Completed(Ok(state)) => Some(state),
            _ => None,
        }
    }

    /// Why the node, its update or its edge failed, if it did.
    pub fn error(&self) -> Option<&EngineError> {
        match &self.phase {
            Phase::Completed(Err(error)) => Some(error),
            _ => None,
        }
    }

    /// What the node waits for, if it suspended.
    pub fn descriptor(&self) -> Option<&SignalDescriptor> {
        match &self.phase {
            Phase::Suspended(descriptor) => Some(descriptor),
            _ => None,
        }
    }
}

/// The events of one run on their way to its observers.
pub(crate) struct Delivery {
    observers: Arc<[Arc<dyn Observer>]>,
    info: Arc<RunInfo>,
    queue: Mutex<VecDeque<NodeEvent>>,
    /// The event that is being delivered.
    current: Mutex<Option<BoxFuture<'static, ()>>>,
}

impl Delivery {
    /// None if nobody observes.
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

/// What was not delivered when its run ended.
#[derive(Default)]
pub(crate) struct Undelivered(Mutex<VecDeque<Arc<Delivery>>>);

impl Undelivered {
    /// Takes over what was left, and a new run's events behind it.
    pub(crate) fn take(&self, new: Option<Arc<Delivery>>) -> Deliverer<'_> {
        let mut deliveries = std::mem::take(&mut *lock(&self.0));
        deliveries.extend(new);
        Deliverer {
            left: self,
            deliveries,
        }
    }
}

/// Delivers in order; what it has not delivered when it is dropped is left for another one.
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

    /// Runs something, and delivers beside it. A run of which nothing was polled tells nothing.
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
            tell(&**observer, &event, &info).await;
        }
    })
}

/// Tells one observer, and survives whatever it does.
async fn tell(observer: &dyn Observer, event: &NodeEvent, info: &RunInfo) {
    let begun = catch_unwind(AssertUnwindSafe(|| observer.observe(event, info)));
    let Ok(mut told) = begun else {
        return complain(event, "it panicked");
    };
    let polled = std::future::poll_fn(|cx| {
        match catch_unwind(AssertUnwindSafe(|| told.as_mut().poll(cx))) {
            Ok(polled) => polled.map(Some),
            Err(_) => Poll::Ready(None),
        }
    });
    match polled.await {
        Some(Ok(())) => {}
        Some(Err(error)) => complain(event, error.category().unwrap_or("it failed")),
        None => complain(event, "it panicked"),
    }
    // What it holds may panic too when it is dropped.
    if catch_unwind(AssertUnwindSafe(move || drop(told))).is_err() {
        complain(event, "it panicked");
    }
}

fn complain(event: &NodeEvent, cause: &str) {
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
