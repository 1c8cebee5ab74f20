//! The OpenAI-compatible endpoint: agents as models of Chat Completions.
//!
//! A request is stateless unless `X-Logue-Session` names a session, or the server continues
//! conversations. The session then contains the conversation: a request with only a new message
//! continues a named one, and one whose earlier messages are the session's continues it. Any other
//! request continues in a new session, whose name the response states.

mod answer;
mod error;
mod exchanges;
mod history_index;
mod messages;
mod parts;
mod request;
mod session_answer;
mod sessions;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use self::answer::{Answer, AnswerStream};
pub(crate) use self::error::{OpenAiError, error_json};
pub(crate) use self::history_index::HistoryIndex;
pub(crate) use self::messages::image;
pub(crate) use self::parts::Part as AnswerPart;
use self::request::CompletionRequest;
pub(crate) use self::sessions::create_seeded;
use self::sessions::{Place, RequestedTurn, kept, matched, named, repeated, stateless};
use crate::chat::access::{Caller, TokenScope};
use crate::chat::api::{Api, body, require};
use crate::chat::extract::{PathOf, single};
use crate::chat::kept_answers::KeyName;
use crate::chat::problem::Problem;
use crate::chat::request_digest::RequestDigest;
use crate::chat::responses::ClaimName;
use crate::chat::send::{idempotency_key, unknown_agent};

/// The header that names the session of a conversation.
const SESSION: &str = "x-logue-session";
/// The header that states how a request continued its session.
const CONVERSATION: &str = "x-logue-conversation";
/// The name of this API in claims of idempotency keys.
const CLAIMED: &str = "chat.completions";
/// The header that names the signal for which a turn waits.
const SIGNAL: &str = "x-logue-signal";

/// `GET /v1/models`: the agents as models.
pub(crate) async fn models(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Value>, OpenAiError> {
    require(&caller, TokenScope::Read)?;
    let agents = api.turns.host.agents().into_iter();
    let agents = agents.filter(|agent| caller.may_use(&agent.name));
    let models: Vec<Value> = agents.map(|agent| card(&agent.name)).collect();
    Ok(Json(json!({"object": "list", "data": models})))
}

/// `GET /v1/models/{model}`
pub(crate) async fn model(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    PathOf(name): PathOf<String>,
) -> Result<Json<Value>, OpenAiError> {
    require(&caller, TokenScope::Read)?;
    let agents = api.turns.host.agents();
    if !agents.iter().any(|agent| agent.name == name) || !caller.may_use(&name) {
        return Err(unknown_agent(&api, &caller, &name).into());
    }
    Ok(Json(card(&name)))
}

fn card(name: &str) -> Value {
    json!({"id": name, "object": "model", "created": 0, "owned_by": "logue"})
}

/// `POST /v1/chat/completions`
pub(crate) async fn create(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response, OpenAiError> {
    require(&caller, TokenScope::Send)?;
    let request = CompletionRequest::parse(&bytes)?;
    let agents = api.turns.host.agents();
    let is_known = agents.iter().any(|agent| agent.name == request.model);
    if !is_known || !caller.may_use(&request.model) {
        return Err(unknown_agent(&api, &caller, &request.model).into());
    }
    let session = match single(&headers, SESSION)? {
        Some("") => return Err(Problem::invalid(format!("invalid header `{SESSION}`")).into()),
        name => name.map(str::to_owned),
    };
    let is_stateless = session.is_none() && api.histories.is_none();
    let key = idempotency_key(&headers)?;
    let body = body::<Value>(&bytes)?;
    let bound = json!({"session": session, "body": body});
    let digest = RequestDigest::with_header("X-Logue-Session", &bound, &body);
    let claim = match &key {
        Some(key) if !is_stateless => {
            let name = ClaimName::lock(&api, &caller, Some(CLAIMED), key).await;
            // A stateless request may have the key.
            let kept = KeyName::new(&caller, CLAIMED, key);
            api.kept_answers.check(&kept, &digest)?;
            Some(name.claim(&api, &digest).await?)
        }
        _ => None,
    };
    let mut answer = Answer {
        id: format!("chatcmpl-{}", api.turns.ids.new_id()),
        created: api.turns.clock.now().0 / 1_000,
        model: request.model,
    };
    let mut known = None;
    if let Some(claim) = &claim {
        // The same request has the same answer.
        let digits = claim.session.rsplit('-').next().unwrap_or_default();
        answer.id = format!("chatcmpl-{}", digits.get(..32).unwrap_or(digits));
        answer.created = claim.created_at.0 / 1_000;
        known.clone_from(&claim.place);
    }
    let agent = answer.model.clone();
    let turn = RequestedTurn {
        api: &api,
        caller: &caller,
        agent: &agent,
        message: request.conversation.message,
        parameters: request.parameters,
        claim: Mutex::new(claim),
    };
    let earlier = request.conversation.earlier;
    let (stream, place) = match (known, session, &api.histories) {
        (Some(known), ..) => repeated(turn, known).await?,
        (None, Some(session), _) => named(turn, &session, earlier).await?,
        (None, None, Some(index)) => matched(turn, index, earlier).await?,
        (None, None, None) => {
            let stream = match key {
                None => stateless(turn, &earlier).await?,
                Some(key) => {
                    let name = ClaimName::lock(&api, &caller, Some(CLAIMED), &key).await;
                    name.check(&api, &digest).await?;
                    let key = (KeyName::new(&caller, CLAIMED, &key), digest);
                    kept(turn, &earlier, key, &mut answer).await?
                }
            };
            (stream, Place::default())
        }
    };
    let mut response = if request.is_stream {
        answer.into_stream(stream, request.has_usage)
    } else {
        whole(&answer, stream).await?
    };
    let headers = response.headers_mut();
    if let Some(session) = &place.session
        && let Ok(session) = HeaderValue::from_str(session)
    {
        headers.insert(SESSION, session);
    }
    headers.insert(CONVERSATION, HeaderValue::from_static(place.how));
    Ok(response)
}

async fn whole(answer: &Answer, stream: AnswerStream) -> Result<Response, Problem> {
    let end = stream.end().await?;
    let signal = end.signal_id.clone();
    let body = answer.whole(&end);
    let mut response = (StatusCode::OK, Json(body)).into_response();
    if let Some(signal) = signal
        && let Ok(signal) = HeaderValue::from_str(&signal)
    {
        response.headers_mut().insert(SIGNAL, signal);
    }
    Ok(response)
}
