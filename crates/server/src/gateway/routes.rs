//! The routes of a gateway.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use serde_json::{Value, json};

use super::problem::ends;
use super::state::{Gateway, check_model};
use super::{chat, responses};
use crate::chat::access::{Caller, TokenScope};
use crate::chat::api::require;
use crate::chat::completions::OpenAiError;
use crate::chat::problem::Problem;
use crate::metrics::MEDIA_TYPE;

/// Returns the routes of a gateway.
pub(super) fn routes(gateway: Arc<Gateway>) -> Router {
    Router::new()
        .route("/healthz", get(health))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/v1/models", get(models))
        .route("/v1/models/{*model}", get(model))
        .route("/v1/chat/completions", post(chat::create))
        .route("/v1/responses", post(responses::create))
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .with_state(gateway)
}

async fn health() -> &'static str {
    "ok\n"
}

async fn ready(State(gateway): State<Arc<Gateway>>) -> Result<&'static str, Problem> {
    if *gateway.shutdown.borrow() {
        return Err(ends());
    }
    Ok("ready\n")
}

async fn metrics(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
) -> Result<impl IntoResponse, Problem> {
    require(&caller, TokenScope::Read)?;
    Ok((
        [(header::CONTENT_TYPE, MEDIA_TYPE)],
        gateway.metrics.to_text(),
    ))
}

async fn models(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Value>, OpenAiError> {
    require(&caller, TokenScope::Read)?;
    let own = caller.may_use(&gateway.model).then(|| card(&gateway));
    let own: Vec<Value> = own.into_iter().collect();
    Ok(Json(json!({"object": "list", "data": own})))
}

async fn model(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    axum::extract::Path(name): axum::extract::Path<String>,
) -> Result<Json<Value>, OpenAiError> {
    require(&caller, TokenScope::Read)?;
    check_model(&gateway, &caller, &name)?;
    Ok(Json(card(&gateway)))
}

fn card(gateway: &Gateway) -> Value {
    json!({"id": gateway.model, "object": "model", "created": 0, "owned_by": "logue"})
}

async fn unknown_path() -> OpenAiError {
    let detail =
        "path not found; a gateway serves /v1/chat/completions, /v1/responses and /v1/models";
    Problem::new(StatusCode::NOT_FOUND, "path_not_found", detail).into()
}

async fn wrong_method() -> OpenAiError {
    let detail = "the path has no such method";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail).into()
}
