//! What the harness itself refuses.

/// A transmission that led to no turn, or a turn that could not be told as what it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DispatchError {
    /// A turn of a session was asked for, and no session is named.
    #[error("the transmission names no session")]
    SessionIdUnresolved,
    /// Nobody waits for the signal.
    #[error("no run waits for the signal `{signal_id}`")]
    SignalCorrelationFailed {
        /// The signal.
        signal_id: String,
    },
    /// The transmission can be read in more than one way, or in none.
    #[error("it is not clear what the transmission asks for: {reason}")]
    PathClassificationAmbiguous {
        /// What does not fit together.
        reason: String,
    },
    /// The run suspended, and nobody can be told which signal it waits for.
    #[error("the run `{invocation_id}` waits for a signal that cannot reach it: {reason}")]
    SignalSubscriptionFailed {
        /// The run. It can still be resumed by its id.
        invocation_id: String,
        /// What the coordinator said.
        reason: String,
    },
}

impl DispatchError {
    /// The name of the error in the contract.
    pub const fn category(&self) -> &'static str {
        match self {
            Self::SessionIdUnresolved => "harness_session_id_unresolved",
            Self::SignalCorrelationFailed { .. } => "harness_signal_correlation_failed",
            Self::PathClassificationAmbiguous { .. } => "harness_path_classification_ambiguous",
            Self::SignalSubscriptionFailed { .. } => "harness_signal_subscription_failed",
        }
    }
}
