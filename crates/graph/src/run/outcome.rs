//! Outcomes of runs.

use crate::error::EngineError;
use crate::pause::paused_run::PausedRun;
use crate::pause::suspension::SignalDescriptor;
use crate::state::snapshot::State;

/// The outcome of a run: completed, failed or suspended.
///
/// The engine itself never panics. There are exactly these three outcomes, so the enum is exhaustive.
#[derive(Clone, Debug)]
#[must_use = "an outcome may be an error or a suspension"]
pub enum RunOutcome {
    /// The run reached END.
    Completed(Completed),
    /// A node, edge or check failed; the state excludes the failing step.
    Errored(Box<Errored>),
    /// A node waits for a signal.
    Suspended(Box<Suspended>),
}

/// A run that reached END.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Completed {
    /// The final state.
    pub state: State,
    /// The id of the run.
    pub invocation_id: String,
    /// The caller's id, or a new one.
    pub correlation_id: String,
    /// The session, if any.
    pub session_id: Option<String>,
    /// The number of nodes that ran.
    pub steps: usize,
}

/// A run that failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Errored {
    /// The error.
    pub error: EngineError,
    /// The state before the failing step, from which a caller can continue.
    ///
    /// It excludes the update of the node in which, or after which, the run failed. If the initial
    /// state was refused, it holds the schema's defaults.
    pub state: State,
    /// The node in which, or after which, the run failed; none if none started.
    pub node: Option<String>,
    /// The path of node names down to the innermost node that failed.
    ///
    /// It is empty if no node could start.
    pub namespace: Vec<String>,
    /// The id of the run.
    pub invocation_id: String,
    /// The caller's id, or a new one.
    pub correlation_id: String,
    /// The session, if any.
    pub session_id: Option<String>,
    /// The number of nodes that ran to their end and were merged before.
    pub steps: usize,
}

/// A run that waits for a signal.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Suspended {
    /// The signal that the run waits for, as returned by the node.
    pub descriptor: SignalDescriptor,
    /// The state of the outermost graph after every earlier node.
    pub state: State,
    /// The node that suspended, in the innermost graph.
    pub node_name: String,
    /// The path of node names down to that node, itself included.
    pub namespace: Vec<String>,
    /// Whether the run resumes after the node or repeats the node.
    pub node_completed: bool,
    /// The id of the run, which the resumed run keeps.
    pub invocation_id: String,
    /// The caller's id, or a new one.
    pub correlation_id: String,
    /// The session, if any.
    pub session_id: Option<String>,
    /// The number of nodes of the outermost graph that ran to their end before.
    pub step: usize,
    /// The index of the attempt that suspended.
    pub attempt_index: usize,
    /// The record from which the run can be resumed.
    pub paused: PausedRun,
}

impl RunOutcome {
    /// Returns `completed`, `errored` or `suspended`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Completed(_) => "completed",
            Self::Errored(_) => "errored",
            Self::Suspended(_) => "suspended",
        }
    }

    /// Returns the state of the outcome.
    pub fn state(&self) -> &State {
        match self {
            Self::Completed(completed) => &completed.state,
            Self::Errored(errored) => &errored.state,
            Self::Suspended(suspended) => &suspended.state,
        }
    }

    /// Returns the id of the run.
    pub fn invocation_id(&self) -> &str {
        match self {
            Self::Completed(completed) => &completed.invocation_id,
            Self::Errored(errored) => &errored.invocation_id,
            Self::Suspended(suspended) => &suspended.invocation_id,
        }
    }

    /// Returns the completed run, if it is one.
    pub fn completed(self) -> Option<Completed> {
        match self {
            Self::Completed(completed) => Some(completed),
            Self::Errored(_) | Self::Suspended(_) => None,
        }
    }

    /// Returns the failed run, if it is one.
    pub fn errored(self) -> Option<Errored> {
        match self {
            Self::Errored(errored) => Some(*errored),
            Self::Completed(_) | Self::Suspended(_) => None,
        }
    }

    /// Returns the suspended run, if it is one.
    pub fn suspended(self) -> Option<Suspended> {
        match self {
            Self::Suspended(suspended) => Some(*suspended),
            Self::Completed(_) | Self::Errored(_) => None,
        }
    }
}
