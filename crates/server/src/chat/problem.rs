//! Errors of requests as problem documents (RFC 9457).

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use logue_agent::{AUDIT_FAILED, HostError, public_detail};
use logue_harness::ErrorBucket;
use logue_harness::chat::{BranchError, ErroredTurn, RetryError, SignalError};
use logue_harness::store::StoreError;
use serde_json::{Value, json};

use super::access::TokenScope;
use crate::metrics::ProblemCode;

/// The seconds after which a client may try again if nothing else is known.
const RETRY_SECONDS: u64 = 1;

/// An error of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    /// The stable code.
    pub(crate) code: String,
    pub(crate) detail: String,
    pub(crate) help: Vec<String>,
    /// The field of the request that is refused.
    pub(crate) param: Option<&'static str>,
    /// The seconds after which the same request may succeed.
    pub(crate) retry_after: Option<u64>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        Self {
            status,
            code: code.to_owned(),
            detail: detail.into(),
            help: Vec::new(),
            param: None,
            retry_after: None,
        }
    }

    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    /// Names the field of the request that is refused.
    pub(crate) const fn with_param(mut self, param: &'static str) -> Self {
        self.param = Some(param);
        self
    }

    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "request_invalid", detail)
    }

    pub(crate) fn scope_missing(scope: TokenScope) -> Self {
        let detail = format!("the token has no scope `{scope}`");
        Self::new(StatusCode::FORBIDDEN, "scope_missing", detail)
    }

    /// Returns the problem of a request that the end of the server cuts off.
    pub(crate) fn server_ends() -> Self {
        let detail = "the server ends; what a session accepted is stored, and continues with the next server";
        let mut problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, "server_ends", detail);
        problem.retry_after = Some(RETRY_SECONDS);
        problem
    }

    /// Returns the problem of a turn that would begin while the server ends.
    pub(crate) fn server_draining() -> Self {
        let detail = "the server ends and begins no more turns; nothing was stored";
        let mut problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, "server_draining", detail);
        problem.retry_after = Some(RETRY_SECONDS);
        problem.with_help("send the request again, to the next server")
    }

    /// Returns the problem of a stream whose text is not that of the answer.
    pub(crate) fn answer_withdrawn() -> Self {
        let detail = "the answer began again after a part of it was sent; \
            send the request again with the same `Idempotency-Key`";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "answer_withdrawn", detail)
    }

    /// Returns the problem of an idempotency key that belongs to a request with a difference.
    pub(crate) fn key_reused(key: &str, difference: &str) -> Self {
        let detail = format!("the key `{key}` belongs to a request with another {difference}");
        Self::new(StatusCode::CONFLICT, "idempotency_key_reused", detail)
            .with_help("use another key for another request")
    }

    pub(crate) fn unknown_session(session: &str) -> Self {
        let detail = format!("session `{session}` not found");
        Self::new(StatusCode::NOT_FOUND, "session_not_found", detail)
            .with_help("GET /v1/sessions lists all sessions")
    }

    /// Returns the body of the response.
    pub(crate) fn to_json(&self) -> Value {
        let mut body = json!({
            "type": format!("urn:logue:error:{}", self.code),
            "title": self.status.canonical_reason().unwrap_or("error"),
            "status": self.status.as_u16(),
            "code": self.code,
            "detail": self.detail,
        });
        if !self.help.is_empty() {
            body["help"] = json!(self.help);
        }
        if let Some(seconds) = self.retry_after {
            body["retry_after_seconds"] = json!(seconds);
        }
        body
    }

    /// Returns the problem of a failed turn as the log of its session has it.
    pub(crate) fn of_logged(error: &Value) -> Self {
        let text = |name: &str| error.get(name).and_then(Value::as_str);
        let bucket = text("bucket").and_then(ErrorBucket::parse);
        let bucket = bucket.unwrap_or(ErrorBucket::SessionTerminating);
        let detail = text("message").unwrap_or("the turn failed").to_owned();
        let mut problem = Self::of_bucket(bucket, text("code").unwrap_or("internal"), detail);
        let wait = error.get("retry_after_seconds").and_then(Value::as_u64);
        problem.retry_after = wait.or(problem.retry_after);
        problem
    }

    /// Returns the problem of a store that does not answer or fails.
    pub(crate) fn store_unavailable(detail: &str) -> Self {
        let bucket = ErrorBucket::RetryableTransient;
        Self::of_bucket(bucket, "store_unavailable", detail.to_owned())
    }

    /// Returns the problem of a store that is only read.
    ///
    /// The operator can correct it, and no client.
    fn store_read_only() -> Self {
        Self::store_unavailable("the session store is only read; nothing was changed")
    }

    fn of_bucket(bucket: ErrorBucket, code: &str, detail: String) -> Self {
        if code == "store_read_only" {
            return Self::store_read_only();
        }
        let status = match (code, bucket) {
            ("chat_message_shape_invalid", _) => StatusCode::BAD_REQUEST,
            (
                "agent_removed"
                | "session_arriving"
                | "session_busy"
                | "session_moved"
                | "session_awaiting_signal"
                | "idempotency_key_reused"
                | "turn_cancelled"
                | "session_write_conflict",
                _,
            ) => StatusCode::CONFLICT,
            ("internal", _) => StatusCode::INTERNAL_SERVER_ERROR,
            (_, ErrorBucket::UserCorrectable) => StatusCode::UNPROCESSABLE_ENTITY,
            (_, ErrorBucket::RetryableTransient) => StatusCode::SERVICE_UNAVAILABLE,
            (_, ErrorBucket::SessionTerminating) => StatusCode::GONE,
        };
        let mut problem = Self::new(status, code, detail);
        if bucket == ErrorBucket::RetryableTransient || code == "session_busy" {
            problem.retry_after = Some(RETRY_SECONDS);
        }
        problem
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = self.to_json().to_string();
        let mut response = (self.status, body).into_response();
        response.extensions_mut().insert(ProblemCode(self.code));
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, kind);
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer");
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

impl From<&ErroredTurn> for Problem {
    fn from(turn: &ErroredTurn) -> Self {
        let bucket = turn.error_bucket;
        let detail = public_detail(bucket, &turn.error_category, &turn.diagnostic);
        let mut problem = Self::of_bucket(bucket, &turn.error_category, detail);
        if turn.damaged {
            problem.status = StatusCode::INTERNAL_SERVER_ERROR;
            "store_corrupt".clone_into(&mut problem.code);
        } else if turn.transient && turn.error_category != AUDIT_FAILED {
            // The store was away in some step of the turn, and nothing is decided.
            problem = Self::store_unavailable("the session store is not available");
        }
        if let Some(wait) = turn.retry_after {
            problem.retry_after = Some(wait.as_secs().max(1));
        }
        problem
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let detail = "the session store is not available";
        match &error {
            StoreError::NotFound { .. } => Self::new(
                StatusCode::NOT_FOUND,
                "session_not_found",
                error.to_string(),
            ),
            StoreError::IdTooLong { .. } => Self::invalid(error.to_string()),
            StoreError::Exists { .. } => {
                Self::new(StatusCode::CONFLICT, "session_exists", error.to_string())
            }
            StoreError::Moved { .. } => {
                let detail = "the session was moved to another store";
                Self::new(StatusCode::CONFLICT, "session_moved", detail)
            }
            StoreError::Arriving { .. } => {
                let detail = "the session is being moved to this store";
                Self::new(StatusCode::CONFLICT, "session_arriving", detail)
            }
            StoreError::Damaged(_) => {
                let detail = "the session store is damaged";
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "store_corrupt", detail)
            }
            StoreError::ReadOnly(_) => Self::store_read_only(),
            _ => Self::store_unavailable(detail),
        }
    }
}

impl From<HostError> for Problem {
    fn from(error: HostError) -> Self {
        let detail = public_detail(error.bucket, &error.category, &error.message);
        let mut problem = Self::of_bucket(error.bucket, &error.category, detail);
        match problem.code.as_str() {
            "agent_not_found" => problem.status = StatusCode::NOT_FOUND,
            // Another server was quicker to give a session its agent.
            "agent_differs" => problem.status = StatusCode::CONFLICT,
            _ => {}
        }
        problem
    }
}

impl From<SignalError> for Problem {
    fn from(error: SignalError) -> Self {
        let code = error.category();
        let detail = error.to_string();
        match error {
            SignalError::Store(error) => error.into(),
            SignalError::Unknown { .. } => Self::new(StatusCode::NOT_FOUND, code, detail),
            SignalError::PayloadInvalid { .. } => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, detail)
                    .with_help("nothing was decided: try again")
            }
            SignalError::Contradicts { .. } | SignalError::Ambiguous { .. } => {
                Self::new(StatusCode::CONFLICT, code, detail)
            }
            _ => Self::new(StatusCode::INTERNAL_SERVER_ERROR, code, detail),
        }
    }
}

impl From<RetryError> for Problem {
    fn from(error: RetryError) -> Self {
        match error {
            RetryError::Store(error) => error.into(),
            RetryError::Replaced { .. } => {
                let code = "session_write_conflict";
                Self::new(StatusCode::CONFLICT, code, error.to_string())
            }
            error => Self::new(StatusCode::CONFLICT, "nothing_to_retry", error.to_string()),
        }
    }
}

impl From<BranchError> for Problem {
    fn from(error: BranchError) -> Self {
        match error {
            BranchError::Store(error) => error.into(),
            BranchError::NotEnded { .. } => {
                Self::new(StatusCode::CONFLICT, "session_busy", error.to_string())
            }
            error => Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "step_invalid",
                error.to_string(),
            ),
        }
    }
}
