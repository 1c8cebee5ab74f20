//! What a node does: code, or one or several graphs that stand in for it.

use std::sync::Arc;

use crate::error::{EngineError, NodeError};
use crate::graph::Inner;
use crate::node::branches::ParallelBranches;
use crate::node::context::{Node, NodeContext};
use crate::node::fan_out::FanOut;
use crate::node::subgraph::Subgraph;
use crate::pause::paused_run::Siblings;
use crate::pause::suspension::SuspendRequest;
use crate::run::cycle::{Failure, Reentry, Run, RunEnd};
use crate::run::info::Within;
use crate::run::interrupt::Found;
use crate::run::step::Step;
use crate::state::snapshot::{State, StateError};
use crate::state::update::Update;
use futures_util::future::BoxFuture;

/// What a node does.
pub(crate) enum Body {
    Code(Arc<dyn Node>),
    Subgraph(Subgraph),
    FanOut(FanOut),
    Branches(ParallelBranches),
}

/// What is inside a node when its run is resumed.
pub(crate) struct Inside {
    pub(crate) reentry: Reentry,
    pub(crate) siblings: Option<Siblings>,
}

impl Body {
    pub(crate) fn run<'a>(
        &'a self,
        step: &'a Step<'a>,
        ctx: NodeContext,
        inside: Option<Inside>,
    ) -> BoxFuture<'a, Result<Update, NodeError>> {
        match self {
            Self::Code(node) => node.run(ctx),
            Self::Subgraph(subgraph) => Box::pin(subgraph.run(step, ctx, inside)),
            Self::FanOut(fan_out) => Box::pin(fan_out.run(step, ctx, inside)),
            Self::Branches(branches) => Box::pin(branches.run(step, ctx, inside)),
        }
    }
}

/// Where the run of a graph inside a node begins.
pub(crate) enum Beginning {
    Entry(Result<State, StateError>),
    Reentry(Reentry),
}

/// Runs a graph inside the node whose context it is.
pub(crate) async fn run_inside<'a>(
    graph: &'a Inner,
    within: Within,
    step: &'a Step<'a>,
    ctx: &NodeContext,
    beginning: Beginning,
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
    };
    match beginning {
        Beginning::Entry(Ok(state)) => run(state).start().await,
        Beginning::Reentry(reentry) => run(graph.layout.defaults()).resume(reentry).await,
        Beginning::Entry(Err(cause)) => RunEnd::Failed(Box::new(Failure {
            error: EngineError::StateValidation { node: None, cause },
            namespace: Vec::new(),
            state: graph.layout.defaults(),
            steps: 0,
        })),
    }
}

impl Step<'_> {
    /// Suspends the run of the graph around, whatever is between.
    pub(crate) async fn suspend_around<T>(&self, request: SuspendRequest) -> T {
        let desk = &self.watch.shared.desk;
        desk.pass_on(self.slot, Found::Suspended(request)).await
    }

    /// The error of a node for a failure inside it; one that nobody may catch goes past the node.
    pub(crate) async fn failed_inside(&self, failure: Failure) -> NodeError {
        if failure.error.escapes() {
            return self.fail_around(failure.error).await;
        }
        failure.into_node_error()
    }

    /// Ends the run of the graph around with an error, whatever is between.
    pub(crate) async fn fail_around<T>(&self, error: EngineError) -> T {
        let desk = &self.watch.shared.desk;
        desk.pass_on(self.slot, Found::Failed(error)).await
    }
}
