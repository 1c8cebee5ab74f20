//! A node of the graph, and what it is told when it runs.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::error::NodeError;
use crate::state::State;
use crate::suspension::{Place, SignalDescriptor, Suspend, SuspendDesk, SuspendRequest};
use crate::update::Update;

/// A future on the heap that can move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A step of the work.
///
/// It reads an immutable state and returns what is to change. Its future is dropped when the run is
/// cancelled or the node suspends, so what it holds must clean up when dropped. Implement it for a
/// type that has something to keep; for a plain async closure there is
/// [`GraphBuilder::add_node_fn`](crate::GraphBuilder::add_node_fn).
///
/// ```
/// use logue_harness::{BoxFuture, Node, NodeContext, NodeError, Update};
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
pub trait Node: Send + Sync {
    /// Runs the node once.
    ///
    /// # Errors
    /// Whatever the node raises; the run ends as errored with the state from before the node.
    fn run(&self, ctx: NodeContext) -> BoxFuture<'_, Result<Update, NodeError>>;
}

impl<N: Node + ?Sized> Node for Arc<N> {
    fn run(&self, ctx: NodeContext) -> BoxFuture<'_, Result<Update, NodeError>> {
        (**self).run(ctx)
    }
}

/// An async closure as a node.
pub(crate) struct FnNode<F>(pub(crate) F);

impl<F, Fut> Node for FnNode<F>
where
    F: Fn(NodeContext) -> Fut + Send + Sync,
    Fut: Future<Output = Result<Update, NodeError>> + Send + 'static,
{
    fn run(&self, ctx: NodeContext) -> BoxFuture<'_, Result<Update, NodeError>> {
        Box::pin((self.0)(ctx))
    }
}

/// What holds for a whole invocation.
#[derive(Clone, Debug)]
pub(crate) struct Ambient {
    pub(crate) invocation_id: String,
    pub(crate) correlation_id: String,
    pub(crate) session_id: Option<String>,
    pub(crate) metadata: Map<String, Value>,
}

/// What a node is told when it runs. Cloning is cheap.
#[derive(Clone)]
pub struct NodeContext {
    pub(crate) ambient: Arc<Ambient>,
    pub(crate) state: State,
    pub(crate) place: Place,
    pub(crate) desk: Arc<SuspendDesk>,
}

impl NodeContext {
    /// The state that the node starts from. It does not change while the node runs.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The id of this invocation; a resumed run keeps it.
    pub fn invocation_id(&self) -> &str {
        &self.ambient.invocation_id
    }

    /// The id by which the caller ties invocations together.
    pub fn correlation_id(&self) -> &str {
        &self.ambient.correlation_id
    }

    /// The session that the run belongs to, if any.
    pub fn session_id(&self) -> Option<&str> {
        self.ambient.session_id.as_deref()
    }

    /// What the caller passed along.
    pub fn metadata(&self) -> &Map<String, Value> {
        &self.ambient.metadata
    }

    /// The name of the node in the graph.
    pub fn node_name(&self) -> &str {
        &self.place.node
    }

    /// How many nodes ran before this one in the invocation.
    pub fn step(&self) -> usize {
        self.place.step
    }

    /// How often the node was tried before in this step.
    pub fn attempt_index(&self) -> usize {
        self.place.attempt_index
    }

    /// Stops the run until a signal comes; the run then goes on behind this node.
    ///
    /// The future never completes, whoever awaits it: the engine drops the node, an update it might
    /// have returned is ignored, and the run ends as [`Outcome::Suspended`](crate::Outcome::Suspended).
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
        let request = SuspendRequest {
            descriptor,
            node_completed,
        };
        Suspend {
            request: Some(request),
            place: self.place.clone(),
            desk: Arc::clone(&self.desk),
        }
    }
}

impl fmt::Debug for NodeContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeContext")
            .field("node_name", &self.place.node)
            .field("step", &self.place.step)
            .field("attempt_index", &self.place.attempt_index)
            .field("ambient", &self.ambient)
            .finish_non_exhaustive()
    }
}
