//! Refusals of the harness itself.

/// A transmission without a turn, or a turn without a reportable outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DispatchError {
    /// A turn of a session was asked for, and no session is named.
    #[error("the transmission names no session")]
    SessionIdUnresolved,
    /// No run waits for the signal.
    #[error("no run waits for the signal `{signal_id}`")]
    SignalCorrelationFailed {
        /// The signal.
        signal_id: String,
    },
    /// The transmission can be read in more than one way, or in none.
    #[error("it is not clear what the transmission asks for: {reason}")]
    PathClassificationAmbiguous {
        /// The mismatch.
        reason: String,
    },
    /// The run suspended, and its signal could not be registered.
    #[error("the run `{invocation_id}` waits for a signal that cannot reach it: {reason}")]
    SignalSubscriptionFailed {
        /// The run. It can still be resumed by its id.
        invocation_id: String,
        /// The reason given by the coordinator.
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
