//! How a run ends.

use crate::error::EngineError;
use crate::pause::paused_run::PausedRun;
use crate::pause::suspension::SignalDescriptor;
use crate::state::snapshot::State;

/// How a run ended: always one of three ways, never a panic of the engine's making.
#[derive(Clone, Debug)]
#[must_use = "an outcome may be an error or a suspension"]
pub enum RunOutcome {
    /// The run reached END.
    Completed(Completed),
    /// Something failed; nothing of the failing step is in the state.
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
    /// The caller's id, or the one that was made.
    pub correlation_id: String,
    /// The session, if any.
    pub session_id: Option<String>,
    /// How many nodes ran.
    pub steps: usize,
}

/// A run that failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Errored {
    /// Why.
    pub error: EngineError,
    /// The state from which one could go on: as it was before the failing step, that is, before the
    /// update of the node in which, or behind which, the run failed. If the initial state was
    /// refused, the schema's defaults.
    pub state: State,
    /// The node in which, or behind which, it happened; none if no node could start.
    pub node: Option<String>,
    /// The path of node names down to the innermost node that failed; empty if no node could start.
    pub namespace: Vec<String>,
    /// The id of the run.
    pub invocation_id: String,
    /// The caller's id, or the one that was made.
    pub correlation_id: String,
    /// The session, if any.
    pub session_id: Option<String>,
    /// How many nodes ran to their end and were merged before.
    pub steps: usize,
}

/// A run that waits for a signal.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Suspended {
    /// What it waits for, as the node gave it.
    pub descriptor: SignalDescriptor,
    /// The state of the outermost graph after every earlier node.
    pub state: State,
    /// The node that suspended, in the innermost graph.
    pub node_name: String,
    /// The path of node names down to that node, itself included.
    pub namespace: Vec<String>,
    /// Whether the run goes on behind the node; otherwise the node runs again.
    pub node_completed: bool,
    /// The id of the run, which the resumed run keeps.
    pub invocation_id: String,
    /// The caller's id, or the one that was made.
    pub correlation_id: String,
    /// The session, if any.
    pub session_id: Option<String>,
    /// How many nodes of the outermost graph ran to their end before.
    pub step: usize,
    /// Which attempt of the node suspended.
    pub attempt_index: usize,
    /// Everything that resuming the run takes.
    pub paused: PausedRun,
}

impl RunOutcome {
    /// `completed`, `errored` or `suspended`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Completed(_) => "completed",
            Self::Errored(_) => "errored",
            Self::Suspended(_) => "suspended",
        }
    }

    /// The state that the outcome carries.
    pub fn state(&self) -> &State {
        match self {
            Self::Completed(completed) => &completed.state,
            Self::Errored(errored) => &errored.state,
            Self::Suspended(suspended) => &suspended.state,
        }
    }

    /// The id of the run.
    pub fn invocation_id(&self) -> &str {
        match self {
            Self::Completed(completed) => &completed.invocation_id,
            Self::Errored(errored) => &errored.invocation_id,
            Self::Suspended(suspended) => &suspended.invocation_id,
        }
    }

    /// The completed run, if it is one.
    pub fn completed(self) -> Option<Completed> {
        match self {
            Self::Completed(completed) => Some(completed),
            Self::Errored(_) | Self::Suspended(_) => None,
        }
    }

    /// The failed run, if it is one.
    pub fn errored(self) -> Option<Errored> {
        match self {
            Self::Errored(errored) => Some(*errored),
            Self::Completed(_) | Self::Suspended(_) => None,
        }
    }

    /// The suspended run, if it is one.
    pub fn suspended(self) -> Option<Suspended> {
        match self {
            Self::Suspended(suspended) => Some(*suspended),
            Self::Completed(_) | Self::Errored(_) => None,
        }
    }
}
