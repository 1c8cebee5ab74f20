//! The loop that runs a graph: the outermost one, or one inside a node.
//!
//! A step runs the node on a snapshot, merges its update and follows its edge. A step succeeds as a
//! whole or changes nothing. Between two steps the loop yields to other tasks, so a run of nodes
//! that never wait can still be cancelled.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use tracing::Instrument;

use crate::build::edge::{Position, RoutingFailure};
use crate::error::EngineError;
use crate::graph::{CompiledNode, Inner};
use crate::node::middleware::Next;
use crate::node::retry::StepNotes;
use crate::pause::paused_run::{PausedFrame, mark};
use crate::pause::resume_point::{NestedResume, ResumePoint};
use crate::pause::suspension::{SignalDescriptor, SuspendRequest};
use crate::run::end::{Failure, RunEnd};
use crate::run::info::{GraphPath, NodeLocation};
use crate::run::interrupt::{Attempt, Interrupt};
use crate::run::shared::Shared;
use crate::run::step::{Progress, Step, Watch};
use crate::run::trace;
use crate::state::snapshot::{State, StateError};

/// A running graph.
pub(crate) struct Run<'a, E> {
    pub(crate) graph: &'a Inner<E>,
    pub(crate) shared: Arc<Shared<E>>,
    pub(crate) within: GraphPath,
    /// The states of the outer graphs, if the run has observers.
    pub(crate) parents: Arc<[State]>,
    pub(crate) state: State,
    pub(crate) limit: usize,
    /// The number of steps that succeeded.
    pub(crate) steps: usize,
    /// The nodes that ran to their end, and their steps.
    pub(crate) completed: Vec<(Arc<str>, usize)>,
    /// The fields that nodes have written, if that is of interest.
    pub(crate) written: Option<Vec<Arc<str>>>,
}

/// A step that began before the run was paused.
struct Again {
    step: usize,
    attempt_index: usize,
    timers: usize,
    inside: Option<NestedResume>,
}

/// The end of a step that did not fail.
enum Stepped {
    To(Position),
    Suspended(PausedFrame, Box<SuspendRequest>),
}

impl<'a, E: 'static> Run<'a, E> {
    /// Runs from the entry.
    pub(crate) async fn start(self) -> RunEnd {
        let entry = Position::Node(self.graph.entry);
        self.go(entry, None).await
    }

    /// Resumes a paused run. The states of its frames hold the signal.
    pub(crate) async fn resume(mut self, mut resume_point: ResumePoint) -> RunEnd {
        let Some(frame) = resume_point.frames.pop() else {
            return self.start().await;
        };
        self.state = frame.state;
        self.steps = frame.steps;
        self.completed = frame.completed;
        self.written = frame.written;
        let is_innermost = resume_point.frames.is_empty();
        if is_innermost && resume_point.node_completed {
            let Some(node) = self.graph.nodes.get(frame.node) else {
                return self.start().await;
            };
            self.steps += 1;
            return match node.edge.follow(&self.state) {
                Ok(next) => self.go(next, None).await,
                Err(lost) => {
                    let error = lost_error(node, lost);
                    self.failed(error)
                }
            };
        }
        let siblings = frame.siblings;
        let again = Again {
            step: frame.step,
            attempt_index: frame.attempt_index,
            timers: frame.timers,
            inside: (!is_innermost).then_some(NestedResume {
                resume_point,
                siblings,
            }),
        };
        self.go(Position::Node(frame.node), Some(again)).await
    }

    async fn go(mut self, mut position: Position, mut again: Option<Again>) -> RunEnd {
        loop {
            // A suspension between two steps comes from a task that outlived its node.
            if let Some(misplaced) = self.shared.desk.misplaced() {
                return self.failed(misplaced);
            }
            let graph = self.graph;
            let node = match position {
                Position::Node(node) => graph.nodes.get(node),
                Position::End => None,
            };
            let Some(node) = node else {
                return RunEnd::Completed(self.state, self.steps);
            };
            if self.steps >= self.limit {
                let next = node.name.as_ref().to_owned();
                let limit = self.limit;
                return self.failed(EngineError::MaxSteps { limit, next });
            }
            match self.step(node, again.take()).await {
                Ok(Stepped::To(next)) => position = next,
                Ok(Stepped::Suspended(frame, mut request)) => {
                    request.frames.insert(0, frame);
                    return RunEnd::Suspended(self.state, request);
                }
                Err(error) => return self.failed(error),
            }
            self.steps += 1;
            if position != Position::End {
                give_way().await;
            }
        }
    }

    /// Runs a node, merges its update and follows its edge.
    ///
    /// An error leaves the state unchanged.
    async fn step(
        &mut self,
        node: &'a CompiledNode<E>,
        again: Option<Again>,
    ) -> Result<Stepped, EngineError> {
        let again = again.unwrap_or_else(|| Again {
            step: self.shared.begin_step(),
            attempt_index: 0,
            timers: 0,
            inside: None,
        });
        let (number, attempt_index, inside) = (again.step, again.attempt_index, again.inside);
        let place = NodeLocation {
            node: Arc::clone(&node.name),
            within: self.within.clone(),
            step: number,
            attempt_index,
        };
        let span = trace::node(&self.shared.info, &place);
        let observed = self.shared.delivery.is_some();
        let open = self.shared.desk.open();
        let step = Step {
            node,
            state: &self.state,
            slot: open.number,
            watch: Watch {
                shared: Arc::clone(&self.shared),
                place,
                pre_state: observed.then(|| self.state.clone()),
                parents: Arc::clone(&self.parents),
                progress: Mutex::new(Progress::default()),
            },
            inside: Mutex::new(inside),
            notes: Arc::new(StepNotes {
                fired: again.timers,
                ..StepNotes::default()
            }),
        };
        let next = Next {
            chain: &node.middleware,
            step: &step,
        };
        let attempt = self.shared.desk.attempt(open.number, next.run());
        let attempt = attempt.instrument(span.clone()).await;
        drop(open);
        let (watch, notes) = (step.watch, step.notes);
        let update = match attempt {
            Attempt::Returned(Ok(update)) => update,
            Attempt::Returned(Err(source)) => {
                let name = node.name.as_ref().to_owned();
                let error = EngineError::NodeException { node: name, source };
                let last = watch.last();
                let Some(request) = self.retry(node, &last, &error, &notes) else {
                    return Err(step_failed(&watch, &span, error));
                };
                trace::attempt(&span, last.attempt_index);
                trace::failed(&span, &error);
                let next = NodeLocation {
                    attempt_index: last.attempt_index + 1,
                    ..last
                };
                return Ok(self.suspended(&watch, &span, &next, request));
            }
            Attempt::Interrupted(Interrupt::Failed(error)) => {
                return Err(step_failed(&watch, &span, error));
            }
            Attempt::Interrupted(Interrupt::Suspended(request)) => {
                let last = watch.last();
                trace::attempt(&span, last.attempt_index);
                return Ok(self.suspended(&watch, &span, &last, request));
            }
        };
        // Held only if it may be required: without it the merge happens in place.
        let before = node.edge.can_fail().then(|| self.state.clone());
        if let Some(written) = &mut self.written {
            for (field, _) in update.iter() {
                mark(written, field);
            }
        }
        if let Err(cause) = self.state.apply(update) {
            let error = merge_error(node.name.as_ref().to_owned(), cause);
            return Err(step_failed(&watch, &span, error));
        }
        let next = match node.edge.follow(&self.state) {
            Ok(next) => next,
            Err(lost) => {
                if let Some(before) = before {
                    self.state = before;
                }
                return Err(step_failed(&watch, &span, lost_error(node, lost)));
            }
        };
        watch.completed(&self.state);
        trace::attempt(&span, watch.last().attempt_index);
        trace::completed(&span);
        self.completed.push((Arc::clone(&node.name), number));
        Ok(Stepped::To(next))
    }

    /// Returns the suspension before the next attempt of a node, if its policy has one.
    fn retry(
        &self,
        node: &CompiledNode<E>,
        last: &NodeLocation,
        error: &EngineError,
        notes: &StepNotes,
    ) -> Option<SuspendRequest> {
        let policy = node.retry.as_ref()?;
        if notes.journalled.load(Ordering::Relaxed) {
            return None;
        }
        let attempt = last.attempt_index + 1;
        let wait = policy.wait(attempt, Some(error.derived_category()))?;
        let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let at = self.shared.ports.now().saturating_add(wait);
        let info = &self.shared.info;
        let id = format!("retry-{}-{}-{attempt}", info.invocation_id, last.step);
        let descriptor = SignalDescriptor::timer(id, at);
        let descriptor = descriptor.after_failure(attempt, &error.diagnostic());
        let mut request = SuspendRequest::new(descriptor, false);
        request.timers = notes.fired;
        Some(request)
    }

    fn suspended(
        &self,
        watch: &Watch<E>,
        span: &tracing::Span,
        at: &NodeLocation,
        request: SuspendRequest,
    ) -> Stepped {
        trace::suspended(span, &request.descriptor, self.shared.traces_signals);
        watch.suspended(&request.descriptor);
        let mut request = Box::new(request);
        let frame = self.frame(at, &mut request);
        Stepped::Suspended(frame, request)
    }

    /// Returns this graph as a frame of a paused run.
    fn frame(&self, at: &NodeLocation, request: &mut SuspendRequest) -> PausedFrame {
        let mut completed = self.completed.clone();
        if request.frames.is_empty() && request.node_completed {
            completed.push((Arc::clone(&at.node), at.step));
        }
        PausedFrame {
            node: Arc::clone(&at.node),
            step: at.step,
            attempt_index: at.attempt_index,
            steps: self.steps,
            completed,
            state: self.state.to_update(),
            siblings: request.siblings.take(),
            timers: if request.frames.is_empty() {
                request.timers
            } else {
                0
            },
            written: self.written.clone(),
        }
    }

    fn failed(self, error: EngineError) -> RunEnd {
        let inside = match &error {
            EngineError::NodeException { source, .. } => source.namespace.as_slice(),
            _ => &[],
        };
        let node = error.node().map(Arc::from);
        RunEnd::Failed(Box::new(Failure {
            namespace: node.into_iter().chain(inside.iter().cloned()).collect(),
            error,
            state: self.state,
            steps: self.steps,
        }))
    }
}

fn step_failed<E>(watch: &Watch<E>, span: &tracing::Span, error: EngineError) -> EngineError {
    watch.failed(&error);
    trace::attempt(span, watch.last().attempt_index);
    trace::failed(span, &error);
    error
}

fn lost_error<E>(node: &CompiledNode<E>, lost: RoutingFailure) -> EngineError {
    let node = node.name.as_ref().to_owned();
    match lost {
        RoutingFailure::Failed(source) => EngineError::EdgeException { node, source },
        RoutingFailure::Undeclared(target) => EngineError::RoutingError { node, target },
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

/// Yields to the executor once.
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
