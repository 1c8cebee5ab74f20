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
mod sessions;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};

use self::answer::{Answer, AnswerStream};
pub(crate) use self::error::{OpenAiError, error_json};
pub(crate) use self::history_index::HistoryIndex;
pub(crate) use self::messages::image;
use self::messages::{Conversation, conversation};
pub(crate) use self::sessions::create_seeded;
use self::sessions::{Place, matched, named, stateless};
use crate::chat::access::{Caller, TokenScope};
use crate::chat::api::{Api, require};
use crate::chat::extract::single;
use crate::chat::problem::Problem;
use crate::chat::send::unknown_agent;

/// The header that names the session of a conversation.
const SESSION: &str = "x-logue-session";
/// The header that states how a request continued its session.
const CONVERSATION: &str = "x-logue-conversation";
/// The header that names the signal for which a turn waits.
const SIGNAL: &str = "x-logue-signal";

/// A request. Parameters of models are those of the agent, and other fields are ignored.
#[derive(Deserialize)]
struct CompletionRequest {
    model: String,
    messages: Vec<Value>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    #[serde(default)]
    n: Option<u64>,
    #[serde(default)]
    tools: Option<Vec<Value>>,
}

#[derive(Default, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

/// `GET /v1/models`: the agents as models.
pub(crate) async fn models(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Value>, OpenAiError> {
    require(&caller, TokenScope::Read)?;
    let agents = api.turns.host.agents().into_iter();
    let agents = agents.filter(|agent| caller.may_use(&agent.name));
    let models: Vec<Value> = agents
        .map(
            |agent| json!({"id": agent.name, "object": "model", "created": 0, "owned_by": "logue"}),
        )
        .collect();
    Ok(Json(json!({"object": "list", "data": models})))
}

/// `POST /v1/chat/completions`
pub(crate) async fn create(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response, OpenAiError> {
    require(&caller, TokenScope::Send)?;
    let request: CompletionRequest = serde_json::from_slice(&bytes)
        .map_err(|error| Problem::invalid(format!("invalid request body: {error}")))?;
    let conversation = accepted(&request)?;
    let agents = api.turns.host.agents();
    let is_known = agents.iter().any(|agent| agent.name == request.model);
    if !is_known || !caller.may_use(&request.model) {
        return Err(unknown_agent(&api, &caller, &request.model).into());
    }
    let session = match single(&headers, SESSION)? {
        Some("") => return Err(Problem::invalid(format!("invalid header `{SESSION}`")).into()),
        name => name.map(str::to_owned),
    };
    let agent = &request.model;
    let (stream, place) = match (session, &api.histories) {
        (None, None) => (
            stateless(&api, &caller, agent, conversation).await?,
            Place::default(),
        ),
        (None, Some(index)) => matched(&api, &caller, agent, index, conversation).await?,
        (Some(session), _) => named(&api, &caller, agent, &session, conversation).await?,
    };
    let answer = Answer {
        id: format!("chatcmpl-{}", api.turns.ids.new_id()),
        created: api.turns.clock.now().0 / 1_000,
        model: request.model,
    };
    let mut response = if request.stream.unwrap_or_default() {
        let options = request.stream_options.unwrap_or_default();
        answer.into_stream(stream, options.include_usage)
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

/// Returns the conversation of a request that can be answered.
fn accepted(request: &CompletionRequest) -> Result<Conversation, Problem> {
    if request.n.is_some_and(|n| n != 1) {
        return Err(Problem::invalid("`n` must be 1"));
    }
    if request
        .tools
        .as_ref()
        .is_some_and(|tools| !tools.is_empty())
    {
        return Err(Problem::invalid("`tools` must be empty")
            .with_help("the tools of an agent are those of its prompt, and the server runs them"));
    }
    conversation(&request.messages)
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
