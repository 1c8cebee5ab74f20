//! The end of a graph's run.

use std::sync::Arc;

use crate::error::{EngineError, NodeError};
use crate::pause::suspension::SuspendRequest;
use crate::state::snapshot::State;

/// The end of the run of a graph.
pub(crate) enum RunEnd {
    Completed(State, usize),
    Failed(Box<Failure>),
    /// Suspended, with the frame of this graph in front.
    Suspended(State, Box<SuspendRequest>),
}

/// A graph that failed.
pub(crate) struct Failure {
    pub(crate) error: EngineError,
    /// The path of nodes from this graph down to the one that failed.
    pub(crate) namespace: Vec<Arc<str>>,
    pub(crate) state: State,
    pub(crate) steps: usize,
}

impl Failure {
    /// Converts the failure into the error of the node that contains the graph.
    pub(crate) fn into_node_error(self) -> NodeError {
        let message = self.error.diagnostic();
        let mut error = NodeError::new(message).with_source(self.error);
        error.namespace = self.namespace;
        error
    }
}
