//! One step of a run: middleware and node body, and the events of each attempt.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{EngineError, NodeError};
use crate::graph::CompiledNode;
use crate::node::context::NodeContext;
use crate::node::retry::StepNotes;
use crate::pause::resume_point::NestedResume;
use crate::ports::observer::{NodeEvent, Phase};
use crate::ports::run_ports::{NodeEnd, RunEvent};
use crate::run::info::NodeLocation;
use crate::run::interrupt::AttemptHandle;
use crate::run::shared::Shared;
use crate::state::snapshot::State;
use crate::state::update::Update;
use futures_util::future::BoxFuture;

/// A step while its node runs.
pub(crate) struct Step<'a, E> {
    pub(crate) node: &'a CompiledNode<E>,
    pub(crate) state: &'a State,
    pub(crate) slot: u64,
    pub(crate) watch: Watch<E>,
    /// The resume position of the first attempt, if the run was resumed inside the node.
    pub(crate) inside: Mutex<Option<NestedResume>>,
    pub(crate) notes: Arc<StepNotes>,
}

impl<'a, E: 'static> Step<'a, E> {
    /// Runs the body of the node once more.
    pub(crate) fn run_body(&'a self) -> BoxFuture<'a, Result<Update, NodeError>> {
        Box::pin(async move {
            let place = self.watch.begin();
            self.notes.asked.store(0, Ordering::Relaxed);
            let inside = lock(&self.inside).take();
            let desk = &self.watch.shared.desk;
            let ticket = desk.ticket();
            let ctx = self.context(place, Some(ticket.number));
            let body = self.node.body.run(self, ctx, inside);
            let result = desk.body(self.slot, body).await;
            drop(ticket);
            if let Err(source) = &result {
                self.watch.attempt_failed(source);
            }
            result
        })
    }

    pub(crate) fn context_of_middleware(&self) -> NodeContext<E> {
        self.context(self.watch.place.clone(), None)
    }

    fn context(&self, place: NodeLocation, ticket: Option<u64>) -> NodeContext<E> {
        let seat = AttemptHandle {
            slot: self.slot,
            ticket,
            node: Arc::clone(&place.node),
        };
        NodeContext {
            shared: Arc::clone(&self.watch.shared),
            state: self.state.clone(),
            place,
            seat,
            notes: Arc::clone(&self.notes),
        }
    }
}

/// Reports the attempts of a step to observers and the event sink.
pub(crate) struct Watch<E> {
    pub(crate) shared: Arc<Shared<E>>,
    /// The first attempt.
    pub(crate) place: NodeLocation,
    /// Held only if the run has observers: without it the merge happens in place.
    pub(crate) pre_state: Option<State>,
    pub(crate) parents: Arc<[State]>,
    pub(crate) progress: Mutex<Progress>,
}

#[derive(Default)]
pub(crate) struct Progress {
    begun: usize,
    /// Whether the end of the last attempt is not reported yet.
    open: bool,
}

impl<E> Watch<E> {
    /// Begins an attempt.
    fn begin(&self) -> NodeLocation {
        let mut progress = lock(&self.progress);
        let before = progress.begun;
        let repeated = std::mem::replace(&mut progress.open, true);
        progress.begun += 1;
        drop(progress);
        if repeated {
            // The attempt succeeded, but a middleware repeats it and discards its result.
            self.report_completed(&self.attempt(before));
        }
        let place = self.attempt(before + 1);
        self.report_start(&place);
        place
    }

    /// Reports the end of an attempt whose update was discarded.
    ///
    /// The state does not change.
    fn report_completed(&self, place: &NodeLocation) {
        if let Some(state) = &self.pre_state {
            self.push(place, || Phase::Completed(Ok(state.clone())));
        }
        let end = RunEvent::NodeEnded(NodeEnd::Completed);
        self.shared.emit(place, end);
    }

    fn attempt_failed(&self, source: &NodeError) {
        let attempts = self.close();
        let error = || EngineError::NodeException {
            node: self.place.node_name().to_owned(),
            source: source.clone(),
        };
        let end = || Phase::Completed(Err(Box::new(error())));
        self.report_end(&self.attempt(attempts), end, NodeEnd::Failed);
    }

    /// Returns the last attempt that began.
    pub(crate) fn last(&self) -> NodeLocation {
        self.attempt(lock(&self.progress).begun)
    }

    pub(crate) fn completed(&self, state: &State) {
        self.finish(|| Phase::Completed(Ok(state.clone())), NodeEnd::Completed);
    }

    pub(crate) fn failed(&self, error: &EngineError) {
        let end = || Phase::Completed(Err(Box::new(error.clone())));
        self.finish(end, NodeEnd::Failed);
    }

    pub(crate) fn suspended(&self, descriptor: &crate::pause::suspension::SignalDescriptor) {
        self.finish(|| Phase::Suspended(descriptor.clone()), NodeEnd::Suspended);
    }

    /// Ends the step and reports the end of the open attempt.
    ///
    /// If no middleware ran the body, the step is reported as one attempt.
    fn finish(&self, phase: impl FnOnce() -> Phase, end: NodeEnd) {
        let progress = lock(&self.progress);
        let (begun, open) = (progress.begun, progress.open);
        drop(progress);
        if begun == 0 {
            self.report_start(&self.place);
        } else if !open {
            return;
        }
        self.report_end(&self.attempt(begun), phase, end);
    }

    fn report_start(&self, place: &NodeLocation) {
        self.push(place, || Phase::Started);
        self.shared.emit(place, RunEvent::NodeStarted);
    }

    fn report_end(&self, place: &NodeLocation, phase: impl FnOnce() -> Phase, end: NodeEnd) {
        self.push(place, phase);
        self.shared.emit(place, RunEvent::NodeEnded(end));
    }

    fn push(&self, place: &NodeLocation, phase: impl FnOnce() -> Phase) {
        if let (Some(delivery), Some(pre_state)) = (&self.shared.delivery, &self.pre_state) {
            delivery.push(NodeEvent {
                place: place.clone(),
                phase: phase(),
                pre_state: pre_state.clone(),
                parent_states: self.parents.to_vec(),
            });
        }
    }

    /// Marks the open attempt as reported, and returns the number of attempts.
    fn close(&self) -> usize {
        let mut progress = lock(&self.progress);
        progress.open = false;
        progress.begun
    }

    /// Returns the attempt of that number, counted from 1.
    fn attempt(&self, number: usize) -> NodeLocation {
        let mut place = self.place.clone();
        place.attempt_index += number.saturating_sub(1);
        place
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
