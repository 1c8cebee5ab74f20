//! The parts that all graphs of one invocation share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::ports::observer::Delivery;
use crate::ports::run_ports::{RunEvent, RunPorts};
use crate::run::info::{NodeLocation, RunInfo};
use crate::run::interrupt::InterruptTable;

/// The data that all graphs of one invocation share.
pub(crate) struct Shared<E> {
    pub(crate) info: Arc<RunInfo>,
    pub(crate) desk: Arc<InterruptTable>,
    pub(crate) ports: RunPorts<E>,
    pub(crate) delivery: Option<Arc<Delivery>>,
    /// The number of nodes that have begun.
    pub(crate) begun: AtomicUsize,
    /// Whether spans contain the metadata of signals.
    pub(crate) traces_signals: bool,
}

impl<E> Shared<E> {
    /// Returns the number of a new step.
    pub(crate) fn begin_step(&self) -> usize {
        self.begun.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn emit(&self, from: &NodeLocation, event: RunEvent<E>) {
        if let Some(sink) = &self.ports.events {
            sink.emit(from, event);
        }
    }
}
