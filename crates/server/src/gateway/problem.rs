//! Errors of the upstream server as problems of a client's request.

use axum::http::StatusCode;
use logue_model::{Category, ProviderError};

use crate::chat::problem::Problem;

/// Returns the problem of a failed upstream request.
///
/// Faults between the gateway and its server are not the client's: they have the status 502. The
/// upstream server may repeat the conversation, with its hidden parts, so its text is not sent.
pub(super) fn upstream_problem(error: ProviderError) -> Problem {
    let status = match error.category {
        Category::InvalidRequest | Category::UnsupportedContentBlock => StatusCode::BAD_REQUEST,
        Category::RateLimit => StatusCode::TOO_MANY_REQUESTS,
        Category::Unavailable | Category::ModelNotLoaded => StatusCode::SERVICE_UNAVAILABLE,
        Category::StructuredOutputInvalid => StatusCode::UNPROCESSABLE_ENTITY,
        _ => StatusCode::BAD_GATEWAY,
    };
    let detail = error
        .public_message
        .unwrap_or_else(|| sentence(error.category).to_owned());
    let mut problem = Problem::new(status, error.category.as_str(), detail);
    problem.retry_after = error.retry_after.map(|wait| wait.as_secs().max(1));
    if error.transient {
        problem.retry_after.get_or_insert(1);
    }
    problem
}

/// Returns the sentence of a failure whose cause quotes the upstream server.
const fn sentence(category: Category) -> &'static str {
    match category {
        Category::Authentication => "the model server refused the key of this gateway",
        Category::InvalidModel => "the model server does not have the model",
        Category::ModelNotLoaded => "the model server is still loading the model",
        Category::RateLimit => "the model server limits its requests",
        Category::InvalidRequest | Category::UnsupportedContentBlock => {
            "the model server rejected the request"
        }
        Category::StructuredOutputInvalid => "the answer does not meet the schema",
        Category::InvalidResponse => "the model server sent something other than a completion",
        _ => "the model server is not available",
    }
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
