//! Errors in the form of the OpenAI API.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::chat::problem::Problem;

/// A problem in the form of the OpenAI API.
pub(crate) struct OpenAiError(Problem);

impl<P: Into<Problem>> From<P> for OpenAiError {
    fn from(problem: P) -> Self {
        Self(problem.into())
    }
}

impl IntoResponse for OpenAiError {
    fn into_response(self) -> Response {
        let problem = self.0;
        let body = error_json(&problem).to_string();
        let mut response = problem.into_response();
        *response.body_mut() = body.into();
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, kind);
        headers.remove(header::CONTENT_LENGTH);
        response
    }
}

/// Returns the body of an error in the form of the OpenAI API.
pub(crate) fn error_json(problem: &Problem) -> Value {
    let kind = match problem.status.as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    };
    json!({"error": {"message": problem.detail, "type": kind, "param": problem.param,
        "code": problem.code}})
}
