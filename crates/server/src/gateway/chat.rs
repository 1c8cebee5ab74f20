//! `POST /v1/chat/completions` of a gateway.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use tokio::time::timeout;

use super::exchange::Part;
use super::keyed::{begin, key_of};
use super::request::ChatRequest;
use super::state::{Gateway, check_model};
use super::writer::{ChatAnswer, WholeAnswer};
use crate::chat::access::{Caller, TokenScope};
use crate::chat::api::require;
use crate::chat::completions::OpenAiError;
use crate::chat::kept_answers::KeyName;
use crate::chat::problem::Problem;
use crate::chat::request_digest::RequestDigest;

/// The time in which an upstream error decides the status of a stream.
const FIRST_PART: Duration = Duration::from_millis(150);

/// `POST /v1/chat/completions`
pub(super) async fn create(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response, OpenAiError> {
    let refused = |problem: &Problem| gateway.metrics.request(Err(problem));
    let accepted = accept(&gateway, &caller, &headers, &bytes);
    let (chat, key) = accepted.inspect_err(refused)?;
    let id = format!("chatcmpl-{}", gateway.ids.new_id());
    let own = (id, gateway.clock.now().0 / 1_000);
    let alternatives = chat.request.logprobs;
    let begun = begin(&gateway, &caller, key, own, chat.request);
    let begun = begun.inspect_err(refused)?;
    let answer = ChatAnswer {
        id: begun.id,
        created: begun.created,
        model: chat.model,
        reasoning: chat.reasoning,
        alternatives,
    };
    let mut parts = begun.parts;
    if chat.is_stream {
        let first = timeout(FIRST_PART, parts.recv()).await.ok().flatten();
        if let Some(Part::End(Err(problem))) = first {
            return Err(problem.into());
        }
        return Ok(answer.into_stream(first, parts, chat.has_usage));
    }
    let whole = WholeAnswer::read(parts).await?;
    Ok(Json(answer.whole(whole)).into_response())
}

fn accept(
    gateway: &Gateway,
    caller: &Caller,
    headers: &HeaderMap,
    bytes: &Bytes,
) -> Result<(ChatRequest, Option<(KeyName, RequestDigest)>), Problem> {
    require(caller, TokenScope::Send)?;
    let chat = ChatRequest::parse(headers, bytes)?;
    check_model(gateway, caller, &chat.model)?;
    let key = key_of((caller, "chat.completions"), headers, bytes)?;
    Ok((chat, key))
}
