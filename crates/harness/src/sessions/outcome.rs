//! Outcomes of the runs of a session.

use logue_graph::{Completed, State, Suspended};

use super::error::SessionError;

/// The outcome of a run, including the effect on its session.
#[derive(Clone, Debug)]
#[must_use = "an outcome may be an error or a suspension"]
pub enum SessionOutcome {
    /// The run reached END, and the session is saved where it is to be.
    Completed(Completed),
    /// The run failed, could not begin or could not be kept.
    Errored(Box<FailedRun>),
    /// The run waits for a signal, and can be resumed.
    Suspended(Box<Suspended>),
}

/// A run that failed, could not begin or could not be kept.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FailedRun {
    /// The error.
    pub error: SessionError,
    /// The state from which a caller could continue, if the run began.
    pub state: Option<State>,
    /// The node in which, or after which, it happened.
    pub node: Option<String>,
    /// The run, if it began or was to resume.
    pub invocation_id: Option<String>,
    /// The completed run, if only the save of its session failed.
    ///
    /// Nothing of the run is undone.
    pub completed: Option<Completed>,
}

impl SessionOutcome {
    /// `completed`, `errored` or `suspended`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Completed(_) => "completed",
            Self::Errored(_) => "errored",
            Self::Suspended(_) => "suspended",
        }
    }

    /// The state that the outcome carries, if a run began.
    pub fn state(&self) -> Option<&State> {
        match self {
            Self::Completed(completed) => Some(&completed.state),
            Self::Errored(failed) => failed.state.as_ref(),
            Self::Suspended(suspended) => Some(&suspended.state),
        }
    }

    /// The failure, if it is one.
    pub fn error(&self) -> Option<&SessionError> {
        match self {
            Self::Errored(failed) => Some(&failed.error),
            Self::Completed(_) | Self::Suspended(_) => None,
        }
    }

    /// The id of the run, if one began or was to resume.
    pub fn invocation_id(&self) -> Option<&str> {
        match self {
            Self::Completed(completed) => Some(&completed.invocation_id),
            Self::Errored(failed) => failed.invocation_id.as_deref(),
            Self::Suspended(suspended) => Some(&suspended.invocation_id),
        }
    }
}

impl FailedRun {
    pub(super) fn before(error: SessionError, invocation_id: Option<&str>) -> Self {
        Self {
            error,
            state: None,
            node: None,
            invocation_id: invocation_id.map(str::to_owned),
            completed: None,
        }
    }
}

impl From<FailedRun> for SessionOutcome {
    fn from(failed: FailedRun) -> Self {
        Self::Errored(Box::new(failed))
    }
}
