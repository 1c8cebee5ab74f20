//! The end of a graph's run.

use std::sync::Arc;

use crate::error::{EngineError, NodeError};
use crate::pause::suspension::SuspendRequest;
use crate::state::snapshot::State;

/// How the run of a graph ended.
pub(crate) enum RunEnd {
    Completed(State, usize),
    Failed(Box<Failure>),
    /// With the frame of this graph in front.
    Suspended(State, Box<SuspendRequest>),
}

/// A graph that failed.
pub(crate) struct Failure {
    pub(crate) error: EngineError,
    /// The nodes from this graph down to the one that failed.
    pub(crate) namespace: Vec<Arc<str>>,
    pub(crate) state: State,
    pub(crate) steps: usize,
}

impl Failure {
    /// The failure as the error of the node that the graph stands in for.
    pub(crate) fn into_node_error(self) -> NodeError {
        let message = self.error.diagnostic();
        let mut error = NodeError::new(message).with_source(self.error);
        error.namespace = self.namespace;
        error
    }
}
