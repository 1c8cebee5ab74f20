//! A node of the graph, and what it is told when it runs.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use crate::error::NodeError;
use crate::pause::suspension::{SignalDescriptor, Suspend, SuspendRequest};
use crate::ports::run_ports::RunEvent;
use crate::run::info::NodeLocation;
use crate::run::interrupt::AttemptHandle;
use crate::run::shared::Shared;
use crate::state::snapshot::State;
use crate::state::update::Update;

/// The category of a session that could not be saved.
const SAVE_FAILED: &str = "session_save_failed";

/// A step of the work.
///
/// It reads an immutable state and returns what is to change. Its future is dropped when the run is
/// cancelled or the node suspends, so what it holds must clean up when dropped. Implement it for a
/// type that has something to keep; for a plain async closure there is
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
    /// Whatever the node raises; the run ends as errored with the state from before the node.
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

/// What a node is told when it runs. Cloning is cheap.
pub struct NodeContext<E = ()> {
    pub(crate) shared: Arc<Shared<E>>,
    pub(crate) state: State,
    pub(crate) place: NodeLocation,
    pub(crate) seat: AttemptHandle,
}

impl<E> NodeContext<E> {
    /// The state that the node starts from. It does not change while the node runs.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The id of this invocation; a resumed run keeps it.
    pub fn invocation_id(&self) -> &str {
        &self.shared.info.invocation_id
    }

    /// The id by which the caller ties invocations together.
    pub fn correlation_id(&self) -> &str {
        &self.shared.info.correlation_id
    }

    /// The session that the run belongs to, if any.
    pub fn session_id(&self) -> Option<&str> {
        self.shared.info.session_id()
    }

    /// What the caller passed along.
    pub fn metadata(&self) -> &Map<String, Value> {
        &self.shared.info.metadata
    }

    /// Which node this is, and where in the run it stands.
    pub fn place(&self) -> &NodeLocation {
        &self.place
    }

    /// The name of the node in its graph.
    pub fn node_name(&self) -> &str {
        &self.place.node
    }

    /// How many nodes began before this one in the invocation, those of subgraphs included.
    pub fn step(&self) -> usize {
        self.place.step
    }

    /// How often the node was tried before in this step.
    pub fn attempt_index(&self) -> usize {
        self.place.attempt_index
    }

    /// Lets whoever watches the run see something. Without an event sink it does nothing.
    pub fn emit(&self, event: E) {
        self.shared.emit(&self.place, RunEvent::Emitted(event));
    }

    /// Makes a note of something that happened before the node ends. It is durable when this
    /// returns; without a journal it returns at once.
    ///
    /// # Errors
    /// The journal could not make the note. The node decides what becomes of that.
    pub async fn journal(&self, entry: Value) -> Result<(), NodeError> {
        match &self.shared.ports.journal {
            Some(journal) => journal.note(&self.place, entry).await,
            None => Ok(()),
        }
    }

    /// Saves the session as it is now, with an update that this node has not returned yet. What is
    /// saved survives a later failure of the run. Without a session it does nothing.
    ///
    /// # Errors
    /// The update does not fit the state, the session could not be saved (`session_save_failed`), or
    /// the node is in a subgraph, whose state is not a session's. The node decides what becomes of it.
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
            applied
                .map_err(|error| NodeError::wrap(error).with_category("state_validation_error"))?;
        }
        saver.save(state).await.map_err(|error| {
            if error.category().is_some() {
                error
            } else {
                error.with_category(SAVE_FAILED)
            }
        })
    }

    /// Stops the run until a signal comes; the run then goes on behind this node.
    ///
    /// The future never completes, whoever awaits it: the engine drops the node, an update it might
    /// have returned is ignored, and the run ends as [`RunOutcome::Suspended`](crate::RunOutcome::Suspended).
    /// It must be awaited before this attempt of the node ends; see [`Suspend`] for what happens
    /// otherwise.
    pub fn suspend(&self, descriptor: SignalDescriptor) -> Suspend {
        self.suspension(descriptor, true)
    }

    /// Stops the run until a signal comes; the run then starts this node again.
    pub fn suspend_and_rerun(&self, descriptor: SignalDescriptor) -> Suspend {
        self.suspension(descriptor, false)
    }

    fn suspension(&self, descriptor: SignalDescriptor, node_completed: bool) -> Suspend {
        Suspend {
            request: Some(SuspendRequest::new(descriptor, node_completed)),
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
