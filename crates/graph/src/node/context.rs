//! A node of the graph, and its context.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use crate::error::NodeError;
use crate::node::retry::StepNotes;
use crate::pause::suspension::{SignalDescriptor, Suspend, SuspendRequest};
use crate::ports::run_ports::RunEvent;
use crate::run::info::NodeLocation;
use crate::run::interrupt::AttemptHandle;
use crate::run::shared::Shared;
use crate::state::snapshot::State;
use crate::state::update::Update;

/// The category of a session that could not be saved.
const SAVE_FAILED: &str = "session_save_failed";

/// A step of a graph.
///
/// It reads an immutable state and returns the changes. Its future is dropped when the run is
/// cancelled or the node suspends, so the resources that it holds must clean up when dropped.
/// Implement it for a type with fields of its own; for a plain async closure there is
/// [`GraphBuilder::add_node_fn`](crate::GraphBuilder::add_node_fn).
///
/// ```
/// use logue_graph::{BoxFuture, Node, NodeContext, NodeError, Update};
/// use serde_json::json;
///
/// struct Greeter {
///     greeting: String,
/// }
///
/// impl Node for Greeter {
///     fn run(&self, _: NodeContext) -> BoxFuture<'_, Result<Update, NodeError>> {
///         Box::pin(async { Ok(Update::new().with("messages", json!([self.greeting]))) })
///     }
/// }
/// ```
pub trait Node<E = ()>: Send + Sync {
    /// Runs the node once.
    ///
    /// # Errors
    /// Returns any error of the node; the run ends as errored with the state from before the node.
    fn run(&self, ctx: NodeContext<E>) -> BoxFuture<'_, Result<Update, NodeError>>;
}

impl<E, N: Node<E> + ?Sized> Node<E> for Arc<N> {
    fn run(&self, ctx: NodeContext<E>) -> BoxFuture<'_, Result<Update, NodeError>> {
        (**self).run(ctx)
    }
}

/// An async closure as a node.
pub(crate) struct FnNode<F>(pub(crate) F);

impl<E, F, Fut> Node<E> for FnNode<F>
where
    F: Fn(NodeContext<E>) -> Fut + Send + Sync,
    Fut: Future<Output = Result<Update, NodeError>> + Send + 'static,
{
    fn run(&self, ctx: NodeContext<E>) -> BoxFuture<'_, Result<Update, NodeError>> {
        Box::pin((self.0)(ctx))
    }
}

/// The context of one attempt of a node. Cloning is cheap.
pub struct NodeContext<E = ()> {
    pub(crate) shared: Arc<Shared<E>>,
    pub(crate) state: State,
    pub(crate) place: NodeLocation,
    pub(crate) seat: AttemptHandle,
    pub(crate) notes: Arc<StepNotes>,
}

impl<E> NodeContext<E> {
    /// Returns the state that the node starts from, which does not change.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns the id of this invocation; a resumed run keeps it.
    pub fn invocation_id(&self) -> &str {
        &self.shared.info.invocation_id
    }

    /// Returns the id by which the caller links invocations.
    pub fn correlation_id(&self) -> &str {
        &self.shared.info.correlation_id
    }

    /// Returns the session that the run belongs to, if any.
    pub fn session_id(&self) -> Option<&str> {
        self.shared.info.session_id()
    }

    /// Returns the metadata that the caller passed.
    pub fn metadata(&self) -> &Map<String, Value> {
        &self.shared.info.metadata
    }

    /// Returns the node and its position in the run.
    pub fn place(&self) -> &NodeLocation {
        &self.place
    }

    /// Returns the name of the node in its graph.
    pub fn node_name(&self) -> &str {
        &self.place.node
    }

    /// Returns the number of nodes that began earlier in the invocation, including subgraphs.
    pub fn step(&self) -> usize {
        self.place.step
    }

    /// Returns the number of earlier attempts of the node in this step.
    pub fn attempt_index(&self) -> usize {
        self.place.attempt_index
    }

    /// Sends an event to the event sink of the run, if there is one.
    pub fn emit(&self, event: E) {
        self.shared.emit(&self.place, RunEvent::Emitted(event));
    }

    /// Records a note about progress before the node ends.
    ///
    /// The note is durable when this returns; without a journal it returns at once.
    ///
    /// # Errors
    /// Returns an error if the journal cannot record the note. The node decides how to handle it.
    pub async fn journal(&self, entry: Value) -> Result<(), NodeError> {
        self.notes.journalled.store(true, Ordering::Relaxed);
        match &self.shared.ports.journal {
            Some(journal) => journal.note(&self.place, entry).await,
            None => Ok(()),
        }
    }

    /// Saves the session with the current state and an optional update.
    ///
    /// The update is one that this node has not returned yet. The saved state survives a later
    /// failure of the run. Without a session it does nothing.
    ///
    /// # Errors
    /// Returns an error if the update does not fit the state, if the session cannot be saved
    /// (`session_save_failed`), or if the node is in a subgraph, whose state is not the state of a
    /// session. The node decides how to handle it.
    pub async fn save_session(&self, update: Option<&Update>) -> Result<(), NodeError> {
        let Some(saver) = &self.shared.ports.session else {
            return Ok(());
        };
        if self.session_id().is_none() {
            return Ok(());
        }
        if !self.place.within.nodes.is_empty() {
            let error = NodeError::new("a node in a subgraph cannot save the session");
            return Err(error.with_category(SAVE_FAILED));
        }
        let mut state = self.state.clone();
        if let Some(update) = update {
            let applied = state.apply(update.clone());
            applied.map_err(|error| {
                NodeError::from_error(error).with_category("state_validation_error")
            })?;
        }
        saver.save(state).await.map_err(|error| {
            if error.category().is_some() {
                error
            } else {
                error.with_category(SAVE_FAILED)
            }
        })
    }

    /// Suspends the run until a signal comes; it resumes after this node.
    ///
    /// The future never completes for any code that awaits it: the engine drops the node and any
    /// update that the node might have returned, and the run ends as
    /// [`RunOutcome::Suspended`](crate::RunOutcome::Suspended). It must be awaited before this
    /// attempt of the node ends; see [`Suspend`] for the error if it is not.
    pub fn suspend(&self, descriptor: SignalDescriptor) -> Suspend {
        self.suspension(descriptor, true)
    }

    /// Suspends the run until a signal comes; it resumes with this node.
    pub fn suspend_and_rerun(&self, descriptor: SignalDescriptor) -> Suspend {
        self.suspension(descriptor, false)
    }

    /// Waits until a time, in milliseconds since 1970.
    ///
    /// The run suspends, and resumes with this node once the clock of the program that keeps it has
    /// reached the time. The node then runs from its start, and this call completes at once: the n-th
    /// call of an attempt is the n-th timer of the node, whatever its time. Effects before the call
    /// happen again, so a wait belongs at the start of a node. A time that has come does not suspend.
    pub async fn sleep_until(&self, at: u64) {
        let timer = self.notes.asked.fetch_add(1, Ordering::Relaxed);
        let is_over = self.shared.ports.clock.is_some() && at <= self.shared.ports.now();
        if timer < self.notes.fired || is_over {
            return;
        }
        let (id, step) = (self.invocation_id(), self.place.step);
        let descriptor = SignalDescriptor::timer(format!("timer-{id}-{step}-{timer}"), at);
        let mut suspend = self.suspend_and_rerun(descriptor);
        if let Some(request) = &mut suspend.request {
            request.timers = timer + 1;
        }
        match suspend.await {}
    }

    fn suspension(&self, descriptor: SignalDescriptor, node_completed: bool) -> Suspend {
        let mut request = SuspendRequest::new(descriptor, node_completed);
        request.timers = self.notes.fired;
        Suspend {
            request: Some(request),
            seat: self.seat.clone(),
            desk: Arc::clone(&self.shared.desk),
        }
    }
}

impl<E> Clone for NodeContext<E> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            state: self.state.clone(),
            place: self.place.clone(),
            seat: self.seat.clone(),
            notes: Arc::clone(&self.notes),
        }
    }
}

impl<E> fmt::Debug for NodeContext<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeContext")
            .field("place", &self.place)
            .field("run", &self.shared.info)
            .finish_non_exhaustive()
    }
}
