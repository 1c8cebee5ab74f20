//! A graph that can run, and the loop that runs it.
//!
//! One step is: run the node on a snapshot, merge its update, follow its edge. A step succeeds as
//! a whole or leaves nothing behind. Between two steps the loop gives other tasks a turn, so a run
//! of nodes that never wait can still be cancelled.

use std::fmt;
use std::sync::Arc;
use std::task::Poll;

use crate::edge::{Edge, Lost, Position};
use crate::error::{EngineError, NodeError};
use crate::ids::IdSource;
use crate::invocation::{Initial, Invocation};
use crate::node::{Ambient, Node, NodeContext};
use crate::outcome::{Completed, Errored, Outcome, Suspended};
use crate::schema::StateSchema;
use crate::state::{Layout, State, StateError};
use crate::suspension::{Attempt, Misplaced, Place, SuspendDesk, SuspendRequest, attempt};
use crate::update::Update;

/// A graph that passed every check of [`GraphBuilder::compile`](crate::GraphBuilder::compile).
///
/// It is immutable and cheap to clone; any number of invocations may run at once.
#[derive(Clone)]
pub struct CompiledGraph {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) layout: Arc<Layout>,
    pub(crate) nodes: Vec<CompiledNode>,
    pub(crate) entry: usize,
    pub(crate) max_steps: usize,
    pub(crate) ids: Box<dyn IdSource>,
}

pub(crate) struct CompiledNode {
    pub(crate) name: Arc<str>,
    pub(crate) node: Arc<dyn Node>,
    pub(crate) edge: Edge,
}

impl CompiledGraph {
    pub(crate) fn new(inner: Inner) -> Self {
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The schema of the graph's state.
    pub fn schema(&self) -> &StateSchema {
        self.inner.layout.schema()
    }

    /// A state of this graph: the defaults with these fields replaced. It can be kept, updated with
    /// [`State::apply`] and used in [`Invocation::from_state`] without being checked again.
    ///
    /// # Errors
    /// An undeclared field, or a value of the wrong type.
    pub fn state(&self, fields: impl Into<Update>) -> Result<State, StateError> {
        self.inner.layout.state(fields.into())
    }

    /// Runs the graph from its entry until it ends, fails or suspends.
    ///
    /// Dropping the future cancels the run: the node that is running is dropped at the point where
    /// it waits, and nothing after that point happens. The engine spawns nothing and keeps nothing
    /// of a cancelled run. A panic in a node is the node's: it passes through.
    pub async fn invoke(&self, invocation: Invocation) -> Outcome {
        let Inner {
            layout,
            entry,
            max_steps,
            ids,
            ..
        } = &*self.inner;
        let Invocation {
            initial,
            session_id,
            correlation_id,
            id,
            metadata,
            max_steps: limit,
        } = invocation;
        let ambient = Arc::new(Ambient {
            invocation_id: id.unwrap_or_else(|| ids.new_id()),
            correlation_id: correlation_id.unwrap_or_else(|| ids.new_id()),
            session_id,
            metadata,
        });
        let limit = limit.unwrap_or(*max_steps);
        let initial = match initial {
            Initial::Fields(fields) => layout.state(fields),
            Initial::State(state) => layout.adopt(state),
        };
        match initial {
            Ok(state) => {
                let run = Run {
                    graph: &self.inner,
                    ambient,
                    desk: Arc::default(),
                    state,
                    limit,
                    steps: 0,
                };
                run.from(*entry).await
            }
            Err(cause) => {
                let state = layout.defaults();
                let run = Run {
                    graph: &self.inner,
                    ambient,
                    desk: Arc::default(),
                    state,
                    limit,
                    steps: 0,
                };
                run.errored(EngineError::StateValidation { node: None, cause })
            }
        }
    }
}

impl fmt::Debug for CompiledGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.inner.nodes.iter().map(|node| &node.name).collect();
        f.debug_struct("CompiledGraph")
            .field("nodes", &names)
            .finish_non_exhaustive()
    }
}

/// One invocation on its way.
struct Run<'a> {
    graph: &'a Inner,
    ambient: Arc<Ambient>,
    desk: Arc<SuspendDesk>,
    state: State,
    limit: usize,
    /// How many steps succeeded.
    steps: usize,
}

/// How a step that did not fail ended.
enum Stepped {
    To(Position),
    Suspended(SuspendRequest),
}

impl Run<'_> {
    async fn from(mut self, entry: usize) -> Outcome {
        let mut position = Position::Node(entry);
        loop {
            // One that came between two steps, from a task that a node has left behind.
            if let Some(misplaced) = self.desk.misplaced() {
                return self.errored(unsupported(&misplaced));
            }
            let node = match position {
                Position::Node(node) => self.graph.nodes.get(node),
                Position::End => None,
            };
            let Some(node) = node else {
                return self.completed();
            };
            if self.steps >= self.limit {
                let next = node.name.as_ref().to_owned();
                let limit = self.limit;
                return self.errored(EngineError::MaxSteps { limit, next });
            }
            match self.step(node).await {
                Ok(Stepped::To(next)) => position = next,
                Ok(Stepped::Suspended(request)) => return self.suspended(node, request),
                Err(error) => return self.errored(error),
            }
            self.steps += 1;
            if position != Position::End {
                give_way().await;
            }
        }
    }

    /// Runs a node, merges its update and follows its edge. On an error the state is as before.
    async fn step(&mut self, node: &CompiledNode) -> Result<Stepped, EngineError> {
        let name = || node.name.as_ref().to_owned();
        let update = match self.attempt(node).await {
            Attempt::Suspended(request) => return Ok(Stepped::Suspended(request)),
            Attempt::Misplaced(misplaced) => return Err(unsupported(&misplaced)),
            Attempt::Returned(Ok(update)) => update,
            Attempt::Returned(Err(source)) => {
                return Err(EngineError::NodeException {
                    node: name(),
                    source,
                });
            }
        };
        // Held only where it can be needed: without it the merge happens in place.
        let before = node.edge.can_fail().then(|| self.state.clone());
        self.state
            .apply(update)
            .map_err(|cause| merge_error(name(), cause))?;
        node.edge
            .follow(&self.state)
            .map(Stepped::To)
            .map_err(|lost| {
                if let Some(before) = before {
                    self.state = before;
                }
                match lost {
                    Lost::Failed(source) => EngineError::EdgeException {
                        node: name(),
                        source,
                    },
                    Lost::Undeclared(target) => EngineError::RoutingError {
                        node: name(),
                        target,
                    },
                }
            })
    }

    /// Runs the body of a node once. Its snapshot of the state is gone afterwards.
    async fn attempt(&self, node: &CompiledNode) -> Attempt<Result<Update, NodeError>> {
        let place = Place {
            node: Arc::clone(&node.name),
            step: self.steps,
            attempt_index: 0,
        };
        let ctx = NodeContext {
            ambient: Arc::clone(&self.ambient),
            state: self.state.clone(),
            place: place.clone(),
            desk: Arc::clone(&self.desk),
        };
        attempt(node.node.run(ctx), place, &self.desk).await
    }

    fn completed(self) -> Outcome {
        let Ambient {
            invocation_id,
            correlation_id,
            session_id,
            ..
        } = unshare(self.ambient);
        let (state, steps) = (self.state, self.steps);
        Outcome::Completed(Completed {
            state,
            invocation_id,
            correlation_id,
            session_id,
            steps,
        })
    }

    fn errored(self, error: EngineError) -> Outcome {
        let Ambient {
            invocation_id,
            correlation_id,
            session_id,
            ..
        } = unshare(self.ambient);
        Outcome::Errored(Box::new(Errored {
            node: error.node().map(str::to_owned),
            error,
            state: self.state,
            invocation_id,
            correlation_id,
            session_id,
            steps: self.steps,
        }))
    }

    fn suspended(self, node: &CompiledNode, request: SuspendRequest) -> Outcome {
        let Ambient {
            invocation_id,
            correlation_id,
            session_id,
            ..
        } = unshare(self.ambient);
        let SuspendRequest {
            descriptor,
            node_completed,
        } = request;
        let node_name = node.name.as_ref().to_owned();
        Outcome::Suspended(Box::new(Suspended {
            descriptor,
            state: self.state,
            namespace: vec![node_name.clone()],
            node_name,
            node_completed,
            invocation_id,
            correlation_id,
            session_id,
            step: self.steps,
            attempt_index: 0,
        }))
    }
}

fn unsupported(misplaced: &Misplaced) -> EngineError {
    EngineError::SuspensionUnsupported {
        node: misplaced.node.as_ref().to_owned(),
        signal_id: misplaced.signal_id.clone(),
    }
}

fn merge_error(node: String, cause: StateError) -> EngineError {
    match cause {
        StateError::Reducer {
            field,
            reducer,
            cause,
        } => EngineError::ReducerError {
            field,
            reducer,
            node,
            cause,
        },
        cause => EngineError::StateValidation {
            node: Some(node),
            cause,
        },
    }
}

/// The ids for the outcome: moved out, unless a node kept its context.
fn unshare(ambient: Arc<Ambient>) -> Ambient {
    Arc::unwrap_or_clone(ambient)
}

/// Lets the executor run something else, once.
async fn give_way() {
    let mut given = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut given, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
