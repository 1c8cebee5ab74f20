//! A graph that can run.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Map, Value};
use tracing::Instrument;

use crate::build::edge::Edge;
use crate::error::EngineError;
use crate::node::body::NodeBody;
use crate::node::middleware::Middleware;
use crate::node::retry::RetryPolicy;
use crate::pause::paused_run::PausedRun;
use crate::pause::suspension::SuspendRequest;
use crate::ports::ids::IdSource;
use crate::ports::observer::{Delivery, Observer, Undelivered};
use crate::ports::run_ports::RunPorts;
use crate::run::cycle::Run;
use crate::run::end::{Failure, RunEnd};
use crate::run::info::{GraphPath, RunInfo};
use crate::run::interrupt::InterruptTable;
use crate::run::invocation::{Initial, Invocation};
use crate::run::outcome::{Completed, Errored, RunOutcome, Suspended};
use crate::run::shared::Shared;
use crate::run::trace;
use crate::state::schema::StateSchema;
use crate::state::snapshot::{Layout, State, StateError};
use crate::state::update::Update;
use futures_util::future::BoxFuture;

/// A graph that passed every check of [`GraphBuilder::compile`](crate::GraphBuilder::compile).
///
/// It is immutable and cheap to clone; any number of invocations may run at once.
pub struct CompiledGraph<E = ()> {
    pub(crate) inner: Arc<Inner<E>>,
}

pub(crate) struct Inner<E> {
    pub(crate) layout: Arc<Layout>,
    pub(crate) nodes: Vec<CompiledNode<E>>,
    pub(crate) entry: usize,
    pub(crate) max_steps: usize,
    /// Whether spans contain the metadata of signals.
    pub(crate) traces_signals: bool,
    pub(crate) ids: Box<dyn IdSource>,
    pub(crate) observers: Vec<Arc<dyn Observer>>,
    pub(crate) undelivered: Undelivered,
}

pub(crate) struct CompiledNode<E> {
    pub(crate) name: Arc<str>,
    pub(crate) body: Box<dyn NodeBody<E>>,
    /// Outermost first.
    pub(crate) middleware: Vec<Arc<dyn Middleware<E>>>,
    pub(crate) retry: Option<RetryPolicy>,
    pub(crate) edge: Edge,
}

impl<E> Clone for CompiledGraph<E> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<E: 'static> CompiledGraph<E> {
    pub(crate) fn new(inner: Inner<E>) -> Self {
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Returns the schema of the graph's state.
    pub fn schema(&self) -> &StateSchema {
        self.inner.layout.schema()
    }

    /// Creates a state of this graph: the defaults with these fields replaced.
    ///
    /// The state can be kept, updated with [`State::apply`] and used in [`Invocation::from_state`]
    /// without another check.
    ///
    /// # Errors
    /// Returns an error if a field is undeclared or a value has the wrong type.
    pub fn state(&self, fields: impl Into<Update>) -> Result<State, StateError> {
        self.inner.layout.state(fields.into())
    }

    /// Runs the graph from its entry until it ends, fails or suspends.
    ///
    /// Dropping the future cancels the run: the running node is dropped at the point where it
    /// waits, and no later code runs. The engine spawns no tasks and keeps no data of a cancelled
    /// run. A panic in a node passes through to the caller.
    pub async fn invoke(&self, invocation: Invocation<E>) -> RunOutcome {
        let inner = &*self.inner;
        let Invocation {
            initial,
            session_id,
            correlation_id,
            id,
            metadata,
            max_steps,
            ports,
        } = invocation;
        let info = RunInfo {
            invocation_id: id.unwrap_or_else(|| inner.ids.new_id()),
            correlation_id: correlation_id.unwrap_or_else(|| inner.ids.new_id()),
            session_id,
            metadata,
        };
        let initial = match initial {
            Initial::Fields(fields) => inner.layout.state(fields),
            Initial::State(state) => inner.layout.adopt(state),
        };
        let shared = self.share(info, ports, AtomicUsize::new(0));
        let run: BoxFuture<'_, RunEnd> = match initial {
            Ok(state) => {
                let run = Run {
                    graph: inner,
                    shared: Arc::clone(&shared),
                    within: GraphPath::default(),
                    parents: Arc::default(),
                    state,
                    limit: max_steps.unwrap_or(inner.max_steps),
                    steps: 0,
                    completed: Vec::new(),
                    written: Some(Vec::new()),
                };
                Box::pin(run.start())
            }
            Err(cause) => {
                let error = EngineError::StateValidation { node: None, cause };
                let state = inner.layout.defaults();
                Box::pin(std::future::ready(refused(error, state)))
            }
        };
        self.conduct(&shared, max_steps, run).await
    }

    /// Resumes a suspended run, possibly in another process.
    ///
    /// Merges the payload of the signal with [`PausedRun::merge`], and runs the following nodes.
    /// The run keeps its ids.
    ///
    /// The caller ensures that a paused run is resumed once. A payload or record that does not fit
    /// ends in an error before a node runs; merge first if the record must survive that.
    pub async fn resume(&self, paused: PausedRun, payload: Map<String, Value>) -> RunOutcome {
        match paused.merge(self, &payload) {
            Ok(merged) => merged.run().await,
            Err(error) => {
                let state = paused.state(self);
                let state = state.unwrap_or_else(|| self.inner.layout.defaults());
                let steps = paused.steps();
                let info = RunInfo {
                    invocation_id: paused.invocation_id,
                    correlation_id: paused.correlation_id,
                    session_id: paused.session_id,
                    metadata: paused.metadata,
                };
                let shared = self.share(info, RunPorts::default(), AtomicUsize::new(0));
                let failure = Failure {
                    error,
                    namespace: Vec::new(),
                    state,
                    steps,
                };
                let run = std::future::ready(RunEnd::Failed(Box::new(failure)));
                self.conduct(&shared, None, Box::pin(run)).await
            }
        }
    }

    /// Returns whether spans contain the metadata of signals, with its values.
    pub fn has_signal_metadata_in_spans(&self) -> bool {
        self.inner.traces_signals
    }

    /// Waits until observers have received all events of ended runs.
    ///
    /// Runs that are still active deliver their own events.
    pub async fn drain(&self) {
        let mut left = self.inner.undelivered.take(None);
        std::future::poll_fn(|cx| left.poll(cx, false)).await;
    }

    /// Creates the data that the graphs of a new run share.
    pub(crate) fn share(
        &self,
        info: RunInfo,
        ports: RunPorts<E>,
        begun: AtomicUsize,
    ) -> Arc<Shared<E>> {
        let info = Arc::new(info);
        let delivery = Delivery::new(&self.inner.observers, &ports.observers, &info);
        Arc::new(Shared {
            info,
            desk: Arc::<InterruptTable>::default(),
            ports,
            delivery,
            begun,
            traces_signals: self.inner.traces_signals,
        })
    }

    /// Runs to the end, delivers events to observers, and returns the outcome.
    pub(crate) async fn conduct(
        &self,
        shared: &Arc<Shared<E>>,
        max_steps: Option<usize>,
        run: BoxFuture<'_, RunEnd>,
    ) -> RunOutcome {
        let span = trace::invocation(&shared.info);
        let end = match &shared.delivery {
            None => run.instrument(span.clone()).await,
            Some(delivery) => {
                let mut deliverer = self.inner.undelivered.take(Some(Arc::clone(delivery)));
                let run = Box::pin(run.instrument(span.clone()));
                deliverer.beside(run).await
            }
        };
        let outcome = outcome(shared, max_steps, end);
        trace::ended(&span, &outcome, shared.traces_signals);
        outcome
    }
}

/// Returns the end of a run that could not start.
fn refused(error: EngineError, state: State) -> RunEnd {
    RunEnd::Failed(Box::new(Failure {
        error,
        namespace: Vec::new(),
        state,
        steps: 0,
    }))
}

fn outcome<E>(shared: &Shared<E>, max_steps: Option<usize>, end: RunEnd) -> RunOutcome {
    let info = RunInfo::clone(&shared.info);
    match end {
        RunEnd::Completed(state, steps) => RunOutcome::Completed(Completed {
            state,
            invocation_id: info.invocation_id,
            correlation_id: info.correlation_id,
            session_id: info.session_id,
            steps,
        }),
        RunEnd::Failed(failure) => {
            let Failure {
                error,
                namespace,
                state,
                steps,
            } = *failure;
            RunOutcome::Errored(Box::new(Errored {
                node: error.node().map(str::to_owned),
                namespace: namespace
                    .iter()
                    .map(|node| node.as_ref().to_owned())
                    .collect(),
                error,
                state,
                invocation_id: info.invocation_id,
                correlation_id: info.correlation_id,
                session_id: info.session_id,
                steps,
            }))
        }
        RunEnd::Suspended(state, request) => {
            let begun = shared.begun.load(Ordering::Relaxed);
            suspended(info, state, *request, begun, max_steps)
        }
    }
}

fn suspended(
    info: RunInfo,
    state: State,
    request: SuspendRequest,
    begun: usize,
    max_steps: Option<usize>,
) -> RunOutcome {
    let SuspendRequest {
        descriptor,
        node_completed,
        frames,
        ..
    } = request;
    let paused = PausedRun::new(
        info.clone(),
        descriptor.clone(),
        node_completed,
        begun,
        max_steps,
        state.schema().version(),
        frames,
    );
    RunOutcome::Suspended(Box::new(Suspended {
        descriptor,
        state,
        node_name: paused.node_name().to_owned(),
        namespace: paused.namespace(),
        node_completed,
        invocation_id: info.invocation_id,
        correlation_id: info.correlation_id,
        session_id: info.session_id,
        step: paused.steps(),
        attempt_index: paused.attempt_index(),
        paused,
    }))
}

impl<E> fmt::Debug for CompiledGraph<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.inner.nodes.iter().map(|node| &node.name).collect();
        f.debug_struct("CompiledGraph")
            .field("nodes", &names)
            .finish_non_exhaustive()
    }
}
