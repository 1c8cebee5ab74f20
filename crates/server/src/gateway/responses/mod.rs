//! `POST /v1/responses` of a gateway: stateless responses.

mod events;
mod input;
mod request;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use futures_util::stream;
use serde_json::Value;
use tokio::time::{Instant, timeout, timeout_at};

use self::events::ResponseWriter;
use self::request::ResponseRequest;
use super::exchange::{AnswerParts, Part};
use super::keyed::{begin, key_of};
use super::problem::ends;
use super::state::{Gateway, check_model};
use crate::chat::access::{Caller, TokenScope};
use crate::chat::api::require;
use crate::chat::completions::OpenAiError;
use crate::chat::kept_answers::KeyName;
use crate::chat::problem::Problem;
use crate::chat::request_digest::RequestDigest;
use crate::chat::sse::{PING, padding, set_stream_headers};

/// The time in which an upstream error decides the status of a stream.
const FIRST_PART: Duration = Duration::from_millis(150);

/// `POST /v1/responses`
pub(super) async fn create(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response, OpenAiError> {
    let accepted = accept(&gateway, &caller, &headers, &bytes);
    let refused = |problem: &Problem| gateway.metrics.request(Err(problem));
    let (asked, key) = accepted.inspect_err(refused)?;
    let own = (gateway.ids.new_id(), gateway.clock.now().0 / 1_000);
    let alternatives = asked.request.logprobs;
    let begun = begin(&gateway, &caller, key, own, asked.request);
    let begun = begun.inspect_err(refused)?;
    let head = asked.head.fields(&begun.id, begun.created);
    let mut writer = ResponseWriter::new(head, begun.id, asked.has_reasoning, alternatives);
    let mut parts = begun.parts;
    if asked.is_stream {
        let first = timeout(FIRST_PART, parts.recv()).await.ok().flatten();
        if let Some(Part::End(Err(problem))) = first {
            return Err(problem.into());
        }
        return Ok(streamed(writer, first, parts));
    }
    while let Some(part) = parts.recv().await {
        match part {
            Part::End(Err(problem)) => return Err(problem.into()),
            part => {
                if let Some(response) = writer.part(part) {
                    return Ok(Json(response).into_response());
                }
            }
        }
    }
    Err(ends().into())
}

fn accept(
    gateway: &Gateway,
    caller: &Caller,
    headers: &HeaderMap,
    bytes: &Bytes,
) -> Result<(ResponseRequest, Option<(KeyName, RequestDigest)>), Problem> {
    require(caller, TokenScope::Send)?;
    let asked = ResponseRequest::parse(headers, bytes)?;
    check_model(gateway, caller, &asked.model)?;
    let key = key_of((caller, "responses"), headers, bytes)?;
    Ok((asked, key))
}

/// Returns a streamed response whose first part has arrived or not.
fn streamed(writer: ResponseWriter, first: Option<Part>, parts: AnswerParts) -> Response {
    let state = (writer, first, parts, true);
    let chunks = stream::unfold(
        state,
        |(mut writer, mut first, mut parts, is_first)| async move {
            if is_first {
                let mut bytes = padding().to_vec();
                bytes.extend(text(&writer.take()).into_bytes());
                return Some((
                    Ok::<_, Infallible>(bytes.into()),
                    (writer, first, parts, false),
                ));
            }
            if writer.has_ended() {
                return None;
            }
            // Parts without events, such as hidden reasoning, do not defer the comment.
            let silent_until = Instant::now() + PING;
            let bytes = loop {
                let part = match first.take() {
                    Some(part) => Some(part),
                    None => match timeout_at(silent_until, parts.recv()).await {
                        Ok(part) => part,
                        Err(_) => break padding(),
                    },
                };
                writer.part(part.unwrap_or_else(|| Part::End(Err(ends()))));
                let events = writer.take();
                if !events.is_empty() {
                    break Bytes::from(text(&events));
                }
            };
            Some((Ok(bytes), (writer, first, parts, false)))
        },
    );
    let mut response = Response::new(Body::from_stream(chunks));
    set_stream_headers(response.headers_mut());
    response
}

fn text(events: &[Value]) -> String {
    let lines = events.iter().map(|event| {
        let kind = event["type"].as_str().unwrap_or_default();
        format!("event: {kind}\ndata: {event}\n\n")
    });
    lines.collect()
}
