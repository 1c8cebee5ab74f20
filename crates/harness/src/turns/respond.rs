//! Responses to a caller, in one of three shapes that cannot be confused.

use serde_json::{Map, Value, json};

use crate::classification::ErrorBucket;
use crate::sessions::FailedRun;
use logue_graph::{Completed, SignalDescriptor, Suspended};

use super::classify::DispatchPath;
use super::error::DispatchError;

/// The response to a transmission.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[must_use = "a response may be an error or a suspension"]
pub struct TurnResponse {
    /// The dispatch path; none if it could not be determined.
    pub path: Option<DispatchPath>,
    /// The outcome of the turn.
    pub body: TurnBody,
}

/// The outcome of a turn, as reported to the caller.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TurnBody {
    /// The graph reached its end.
    Completed(Completed),
    /// Something failed.
    Errored(Box<ErrorResponse>),
    /// The turn waits for a signal, which can reach it.
    Suspended(Box<SuspendedAcknowledgment>),
}

/// The report of a failure.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ErrorResponse {
    /// The name of the error.
    pub category: String,
    /// The bucket, which names the party that can act on the error.
    pub bucket: ErrorBucket,
    /// A description of the failure.
    pub diagnostic: String,
    /// The run that failed, if one began.
    pub failed: Option<FailedRun>,
}

/// The report of a turn that waits.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SuspendedAcknowledgment {
    /// The signal that the turn waits for.
    pub descriptor: SignalDescriptor,
    /// The run.
    pub suspended: Suspended,
}

impl TurnResponse {
    pub(super) const fn completed(path: DispatchPath, completed: Completed) -> Self {
        Self {
            path: Some(path),
            body: TurnBody::Completed(completed),
        }
    }

    pub(super) fn errored(path: Option<DispatchPath>, error: ErrorResponse) -> Self {
        Self {
            path,
            body: TurnBody::Errored(Box::new(error)),
        }
    }

    pub(super) fn suspended(path: DispatchPath, suspended: Suspended) -> Self {
        Self {
            path: Some(path),
            body: TurnBody::Suspended(Box::new(SuspendedAcknowledgment {
                descriptor: suspended.descriptor.clone(),
                suspended,
            })),
        }
    }

    /// The name of the shape.
    pub const fn shape(&self) -> &'static str {
        match self.body {
            TurnBody::Completed(_) => "completion_response",
            TurnBody::Errored(_) => "error_response",
            TurnBody::Suspended(_) => "suspended_acknowledgment",
        }
    }

    /// The payload to send for the outcome.
    ///
    /// A completed turn sends its final state; a failed one its category and bucket and what that
    /// asks of the caller; a suspended one the signal that it waits for.
    pub fn payload(&self) -> Map<String, Value> {
        let payload = match &self.body {
            TurnBody::Completed(completed) => return completed.state.to_json(),
            TurnBody::Errored(error) => return error.payload(),
            TurnBody::Suspended(waits) => json!({
                "signal_id": waits.descriptor.signal_id,
                "metadata": waits.descriptor.metadata,
                "invocation_id": waits.suspended.invocation_id,
            }),
        };
        match payload {
            Value::Object(payload) => payload,
            _ => Map::new(),
        }
    }
}

impl ErrorResponse {
    pub(super) fn failed(failed: FailedRun, bucket: ErrorBucket) -> Self {
        Self {
            category: failed.error.category().to_owned(),
            bucket,
            diagnostic: failed.error.diagnostic(),
            failed: Some(failed),
        }
    }

    pub(super) fn refused(error: &DispatchError, bucket: ErrorBucket) -> Self {
        Self {
            category: error.category().to_owned(),
            bucket,
            diagnostic: error.to_string(),
            failed: None,
        }
    }

    fn payload(&self) -> Map<String, Value> {
        let mut payload = Map::new();
        payload.insert("category".to_owned(), json!(self.category));
        payload.insert("bucket".to_owned(), json!(self.bucket.as_str()));
        payload.insert("diagnostic_message".to_owned(), json!(self.diagnostic));
        let asked = match self.bucket {
            ErrorBucket::SessionTerminating => "intervention_required",
            ErrorBucket::RetryableTransient => "retry_safe",
            ErrorBucket::UserCorrectable => "user_action_required",
        };
        payload.insert(asked.to_owned(), json!(true));
        payload
    }
}
