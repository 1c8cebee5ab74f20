//! Graphs that run inside a node.

use std::sync::Arc;

use crate::error::{EngineError, NodeError};
use crate::graph::Inner;
use crate::node::context::NodeContext;
use crate::pause::resume_point::ResumePoint;
use crate::pause::suspension::SuspendRequest;
use crate::run::cycle::Run;
use crate::run::end::{Failure, RunEnd};
use crate::run::info::GraphPath;
use crate::run::interrupt::Interrupt;
use crate::run::step::Step;
use crate::state::snapshot::{State, StateError};

/// The start of the run of a graph inside a node.
pub(crate) enum NestedStart {
    Entry(Result<State, StateError>),
    ResumePoint(ResumePoint),
}

/// Runs a graph inside the node of the given context.
pub(crate) async fn run_inside<'a, E: 'static>(
    graph: &'a Inner<E>,
    within: GraphPath,
    step: &'a Step<'a, E>,
    ctx: &NodeContext<E>,
    beginning: NestedStart,
) -> RunEnd {
    let parents = if step.watch.shared.delivery.is_some() {
        let around = step.watch.parents.iter();
        around.chain([&ctx.state]).cloned().collect()
    } else {
        Arc::default()
    };
    let run = |state| Run {
        graph,
        shared: Arc::clone(&step.watch.shared),
        within,
        parents,
        state,
        limit: graph.max_steps,
        steps: 0,
        completed: Vec::new(),
        written: None,
    };
    match beginning {
        NestedStart::Entry(Ok(state)) => run(state).start().await,
        NestedStart::ResumePoint(resume_point) => {
            run(graph.layout.defaults()).resume(resume_point).await
        }
        NestedStart::Entry(Err(cause)) => RunEnd::Failed(Box::new(Failure {
            error: EngineError::StateValidation { node: None, cause },
            namespace: Vec::new(),
            state: graph.layout.defaults(),
            steps: 0,
        })),
    }
}

impl<E: 'static> Step<'_, E> {
    /// Suspends the run of the outer graph, past all code in between.
    pub(crate) async fn suspend_around<T>(&self, request: SuspendRequest) -> T {
        let desk = &self.watch.shared.desk;
        desk.propagate(self.slot, Interrupt::Suspended(request))
            .await
    }

    /// Converts an inner failure into the error of the node.
    ///
    /// A failure that must not be caught ends the run of the outer graph instead.
    pub(crate) async fn failed_inside(&self, failure: Failure) -> NodeError {
        if failure.error.escapes() {
            return self.fail_around(failure.error).await;
        }
        failure.into_node_error()
    }

    /// Ends the run of the outer graph with an error, past all code in between.
    pub(crate) async fn fail_around<T>(&self, error: EngineError) -> T {
        let desk = &self.watch.shared.desk;
        desk.propagate(self.slot, Interrupt::Failed(error)).await
    }
}
