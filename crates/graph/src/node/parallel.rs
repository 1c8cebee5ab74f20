//! Graphs that run at once inside one node: instances of a fan-out, or branches.
//!
//! All of them are polled in the task of the run; the engine spawns no tasks. The results are
//! combined in the order of the parts, not in the order in which they end.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::{Value, json};

use crate::error::{EngineError, NodeError, SuspensionErrorKind};
use crate::graph::Inner;
use crate::node::context::NodeContext;
use crate::node::nested::{NestedStart, run_inside};
use crate::pause::paused_run::Siblings;
use crate::pause::resume_point::ResumePoint;
use crate::pause::suspension::SuspendRequest;
use crate::run::end::{Failure, RunEnd};
use crate::run::info::GraphPath;
use crate::run::step::Step;
use crate::state::snapshot::{State, StateError};
use crate::state::update::Update;
use futures_util::future::BoxFuture;

/// The policy for failures in a node that runs several graphs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorPolicy {
    /// The first failure fails the node; the others are cancelled.
    ///
    /// One of them may suspend the run, which cancels the others too: they run again, from their
    /// start, when the run is resumed.
    #[default]
    FailFast,
    /// All run to their end; the successful results are used. None may suspend.
    Collect,
}

impl ErrorPolicy {
    /// Returns the name of the policy in graph descriptions.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FailFast => "fail_fast",
            Self::Collect => "collect",
        }
    }

    /// Returns the policy of that name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "fail_fast" => Some(Self::FailFast),
            "collect" => Some(Self::Collect),
            _ => None,
        }
    }
}

/// A part that is due to run: its number and, in a fan-out, its item.
pub(crate) type Pending = (usize, Option<Arc<Value>>);

/// The interface of a node that runs several graphs.
pub(crate) trait ParallelParts<E>: Sync {
    fn policy(&self) -> ErrorPolicy;
    /// Returns the maximum number of parts that run at once.
    fn at_once(&self) -> usize;
    /// Returns the graph of a part; none if there is no such part.
    fn graph(&self, part: usize) -> Option<&Inner<E>>;
    fn begin(&self, part: &Pending, parent: &State) -> Result<State, StateError>;
    /// Returns the update of a part that ended in this state.
    fn give(&self, part: usize, state: &State) -> Update;
    fn label(&self, part: usize, within: &mut GraphPath);
    fn annotate(&self, part: usize, request: &mut SuspendRequest);
    fn siblings(
        &self,
        part: usize,
        done: BTreeMap<usize, Update>,
        pending: Vec<Pending>,
    ) -> Siblings;
}

/// The progress of the parts of a node.
#[derive(Default)]
pub(crate) struct Progress {
    pub(crate) done: BTreeMap<usize, Update>,
    pub(crate) failed: BTreeMap<usize, FailedPart>,
    pub(crate) pending: VecDeque<Pending>,
    /// The part that had suspended.
    pub(crate) paused: Option<(usize, ResumePoint)>,
}

/// A failed part whose failure does not fail the node.
pub(crate) struct FailedPart {
    category: String,
    message: String,
}

impl FailedPart {
    pub(crate) fn to_json(&self, part: &str, value: &Value) -> Value {
        json!({ part: value, "category": self.category, "message": self.message })
    }
}

/// Runs all parts to their end.
///
/// A part that had suspended runs first and alone: if another one suspended at the same time, the
/// work that the signal triggered would be cancelled with it.
pub(crate) async fn run_parts<'a, E: 'static>(
    parts: &'a dyn ParallelParts<E>,
    step: &'a Step<'a, E>,
    ctx: &'a NodeContext<E>,
    mut progress: Progress,
) -> Result<Progress, NodeError> {
    if let Some((part, resume_point)) = progress.paused.take() {
        let beginning = NestedStart::ResumePoint(resume_point);
        let end = run_part(parts, step, ctx, part, beginning).await;
        progress = settle(parts, step, part, end, progress, BTreeMap::new()).await?;
    }
    let at_once = parts.at_once().max(1);
    let mut running = FuturesUnordered::new();
    let mut items = BTreeMap::new();
    loop {
        while running.len() < at_once {
            let Some(next) = progress.pending.pop_front() else {
                break;
            };
            let beginning = NestedStart::Entry(parts.begin(&next, &ctx.state));
            let (part, item) = next;
            items.insert(part, item);
            let run: BoxFuture<'_, _> =
                Box::pin(async move { (part, run_part(parts, step, ctx, part, beginning).await) });
            running.push(run);
        }
        let Some((part, end)) = running.next().await else {
            return Ok(progress);
        };
        items.remove(&part);
        if !matches!(end, RunEnd::Completed(..)) && parts.policy() == ErrorPolicy::FailFast {
            // The siblings are cancelled before the failure is reported.
            running.clear();
            return settle(parts, step, part, end, progress, items).await;
        }
        progress = settle(parts, step, part, end, progress, BTreeMap::new()).await?;
    }
}

async fn run_part<'a, E: 'static>(
    parts: &'a dyn ParallelParts<E>,
    step: &'a Step<'a, E>,
    ctx: &NodeContext<E>,
    part: usize,
    beginning: NestedStart,
) -> RunEnd {
    let mut within = ctx.place.within.inside(&ctx.place.node);
    parts.label(part, &mut within);
    match parts.graph(part) {
        Some(graph) => run_inside(graph, within, step, ctx, beginning).await,
        None => RunEnd::Failed(Box::new(Failure {
            error: crate::pause::paused_run::invalid(format!("the node has no part {part}")),
            namespace: Vec::new(),
            state: ctx.state.clone(),
            steps: 0,
        })),
    }
}

/// Records the end of a part; `cancelled` are the parts that ran beside it.
async fn settle<'a, E: 'static>(
    parts: &'a dyn ParallelParts<E>,
    step: &'a Step<'a, E>,
    part: usize,
    end: RunEnd,
    mut progress: Progress,
    cancelled: BTreeMap<usize, Option<Arc<Value>>>,
) -> Result<Progress, NodeError> {
    match end {
        RunEnd::Completed(state, _) => {
            progress.done.insert(part, parts.give(part, &state));
            Ok(progress)
        }
        RunEnd::Failed(failure) => {
            if failure.error.escapes() || parts.policy() == ErrorPolicy::FailFast {
                return Err(step.failed_inside(*failure).await);
            }
            let failed = FailedPart {
                category: failure.error.derived_category().to_owned(),
                message: failure.error.diagnostic(),
            };
            progress.failed.insert(part, failed);
            Ok(progress)
        }
        RunEnd::Suspended(_, mut request) => {
            if parts.policy() == ErrorPolicy::Collect {
                let error = EngineError::SuspensionUnsupported {
                    node: step.watch.place.node_name().to_owned(),
                    signal_id: request.descriptor.signal_id,
                    reason: SuspensionErrorKind::Collect,
                };
                return step.fail_around(error).await;
            }
            parts.annotate(part, &mut request);
            let mut pending: Vec<_> = cancelled.into_iter().collect();
            pending.extend(progress.pending);
            request.siblings = Some(parts.siblings(part, progress.done, pending));
            step.suspend_around(*request).await
        }
    }
}
