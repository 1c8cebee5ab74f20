//! Errors of the upstream server as problems of a client's request.

use axum::http::StatusCode;
use logue_model::{Category, ProviderError};

use crate::chat::problem::Problem;

/// Returns the problem of a failed upstream request.
///
/// Faults between the gateway and its server are not the client's: they have the status 502.
pub(super) fn upstream_problem(error: ProviderError) -> Problem {
    let status = match error.category {
        Category::InvalidRequest | Category::UnsupportedContentBlock => StatusCode::BAD_REQUEST,
        Category::RateLimit => StatusCode::TOO_MANY_REQUESTS,
        Category::Unavailable | Category::ModelNotLoaded => StatusCode::SERVICE_UNAVAILABLE,
        Category::StructuredOutputInvalid => StatusCode::UNPROCESSABLE_ENTITY,
        _ => StatusCode::BAD_GATEWAY,
    };
    let mut problem = Problem::new(status, error.category.as_str(), error.message);
    problem.retry_after = error.retry_after.map(|wait| wait.as_secs().max(1));
    if error.transient {
        problem.retry_after.get_or_insert(1);
    }
    problem
}

/// Returns the problem of a request after the end of the gateway was asked for.
pub(super) fn ends() -> Problem {
    let mut problem = Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "server_ends",
        "the gateway ends",
    );
    problem.retry_after = Some(1);
    problem
}
