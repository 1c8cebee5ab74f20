//! Several graphs that run at once inside one node: the instances of a fan-out, or branches.
//!
//! All of them are polled in the task of the run; nothing is spawned. What they give is put together
//! in their own order, not in the order in which they end.

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

/// What becomes of a node that runs several graphs when one of them fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorPolicy {
    /// The first failure fails the node; the others are cancelled. One of them may suspend the run,
    /// which cancels the others too: they run again, from their beginning, when it is resumed.
    #[default]
    FailFast,
    /// All run to their end, and what the successful ones give counts. None may suspend.
    Collect,
}

impl ErrorPolicy {
    /// The name of the policy in graph descriptions.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FailFast => "fail_fast",
            Self::Collect => "collect",
        }
    }

    /// The policy of that name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "fail_fast" => Some(Self::FailFast),
            "collect" => Some(Self::Collect),
            _ => None,
        }
    }
}

/// A part that has to run: its number and, in a fan-out, its item.
pub(crate) type Pending = (usize, Option<Arc<Value>>);

/// What the engine must know of a node that runs several graphs.
pub(crate) trait ParallelParts<E>: Sync {
    fn policy(&self) -> ErrorPolicy;
    /// How many may run at once.
    fn at_once(&self) -> usize;
    /// The graph of a part; none if there is no such part.
    fn graph(&self, part: usize) -> Option<&Inner<E>>;
    fn begin(&self, part: &Pending, parent: &State) -> Result<State, StateError>;
    /// What a part that ended in this state gives.
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

/// How far the parts of a node have come.
#[derive(Default)]
pub(crate) struct Progress {
    pub(crate) done: BTreeMap<usize, Update>,
    pub(crate) failed: BTreeMap<usize, FailedPart>,
    pub(crate) pending: VecDeque<Pending>,
    /// The part that had suspended.
    pub(crate) paused: Option<(usize, ResumePoint)>,
}

/// A part that failed where that does not fail the node.
pub(crate) struct FailedPart {
    category: String,
    message: String,
}

impl FailedPart {
    pub(crate) fn to_json(&self, part: &str, value: &Value) -> Value {
        json!({ part: value, "category": self.category, "message": self.message })
    }
}

/// Runs all parts to their end. A part that had suspended goes first and alone: if another one
/// suspended meanwhile, what the signal has brought about would be cancelled with it.
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
            // The siblings are cancelled before anybody hears of it.
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

/// Takes in how a part ended; `cancelled` are those that were running beside it.
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
