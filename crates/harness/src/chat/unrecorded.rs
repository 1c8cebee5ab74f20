//! A signal that its turn could not record.

use std::error::Error;

/// The source of the error of a node that could not record its signal.
///
/// A node that returns it has done nothing that depends on the signal. The signal was accepted, so its
/// turn stays queued, and the next attempt records it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct SignalUnrecorded {
    message: String,
}

impl SignalUnrecorded {
    /// Creates the error from its cause.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
        }
    }

    /// Returns whether it is among the causes of an error.
    pub(super) fn is_cause_of(error: &(dyn Error + 'static)) -> bool {
        let mut next = Some(error);
        while let Some(link) = next {
            if link.is::<Self>() {
                return true;
            }
            next = link.source();
        }
        false
    }
}
