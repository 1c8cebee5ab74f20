//! What a caller is told: one of three shapes that cannot be confused.

use serde_json::{Map, Value, json};

use crate::classification::ErrorBucket;
use crate::sessions::FailedRun;
use logue_graph::{Completed, SignalDescriptor, Suspended};

use super::classify::DispatchPath;
use super::error::DispatchError;

/// How a transmission was answered.
#[derive(Clone, Debug)]
#[must_use = "a response may be an error or a suspension"]
pub struct TurnResponse {
    /// Which way it went; none if that could not be told.
    pub path: Option<DispatchPath>,
    /// How it ended.
    pub body: TurnBody,
}

/// How a turn ended, as the caller is told.
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

/// What a caller is told of a failure.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ErrorResponse {
    /// The name of the error.
    pub category: String,
    /// Who can do something about it.
    pub bucket: ErrorBucket,
    /// What happened.
    pub diagnostic: String,
    /// The run that failed, if one began.
    pub failed: Option<FailedRun>,
}

/// What a caller is told of a turn that waits.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SuspendedAcknowledgment {
    /// What it waits for.
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

    /// What is sent: the final state of a completed turn; of a failed one its category and bucket and
    /// what that asks of the caller; of a suspended one what it waits for.
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
