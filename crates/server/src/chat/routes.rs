//! The routes of the server.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{delete, get, post};

use super::api::Api;
use super::problem::Problem;
use super::{agents, branches, completions, events, send, sessions, signals};

/// Returns the routes of the server.
pub(crate) fn routes(api: Api) -> Router {
    Router::new()
        .route("/healthz", get(agents::health))
        .route("/readyz", get(agents::ready))
        .route("/metrics", get(agents::metrics))
        .route("/v1/agents", get(agents::list))
        .route("/v1/models", get(completions::models))
        .route("/v1/chat/completions", post(completions::create))
        .route("/v1/sessions", get(sessions::list))
        .route("/v1/sessions/{session}", get(sessions::show))
        .route("/v1/sessions/{session}", delete(sessions::remove))
        .route("/v1/sessions/{session}/messages", get(sessions::messages))
        .route("/v1/sessions/{session}/events", get(events::follow))
        .route("/v1/sessions/{session}/send", post(send::send))
        .route("/v1/sessions/{session}/cancel", post(send::cancel))
        .route("/v1/sessions/{session}/retry", post(send::retry))
        .route("/v1/sessions/{session}/fork", post(branches::fork))
        .route("/v1/sessions/{session}/rerun", post(branches::rerun))
        .route("/v1/signals", get(signals::list))
        .route(
            "/v1/signals/{signal}",
            get(signals::show).post(signals::decide),
        )
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .with_state(api)
}

async fn unknown_path() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "path_not_found",
        "there is no such path",
    )
    .with_help("GET /openapi.json describes all paths")
}

async fn wrong_method() -> Problem {
    let detail = "the path has no such method";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}
