//! The Responses API: agents as models whose responses are entries of sessions.
//!
//! The id of a response contains its session and its entry. A request that names the last response
//! of a session continues the session; one that names an earlier response continues in a copy.

mod claims;
mod conversations;
mod decisions;
mod follow;
mod ids;
mod input;
mod items;
mod place;
mod request;
mod sent_ids;
mod stateless;
mod stored;
mod stream;

use std::collections::HashMap;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use logue_harness::chat::{BusyPolicy, ChatTurnOutcome, SendOptions};
use logue_harness::store::{CancelMode, EntryState};
use logue_message::ChatMessage;
use serde_json::{Map, Value, json};

pub(crate) use self::claims::{Claim, ClaimName, ClaimedPlace};
use self::decisions::decide;
use self::follow::follow;
use self::ids::ResponseId;
use self::input::{ResponseInput, parse_input};
use self::place::{
    Continued, agent_of_new, conversation_of, deleted, locked, own_response, place,
    readable_response, record_deleted, unknown_response,
};
use self::request::{ResponseRequest, format_name};
use self::stateless::stateless;
use self::stored::{StoredResponse, page};
use crate::chat::access::{Caller, TokenScope};
use crate::chat::api::{Api, body, require};
use crate::chat::completions::OpenAiError;
use crate::chat::host::TurnAgent;
use crate::chat::owner::record_owner;
use crate::chat::problem::Problem;
use crate::chat::request_digest::RequestDigest;
use crate::chat::route_table::RouteTable;
use crate::chat::send::{idempotency_key, permit, turn_agent};
use crate::chat::turns::{RunningTurn, TurnOrigin};

/// The time in which a cancelled turn ends before the answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most attempts to continue a session that other servers continue as well.
const ATTEMPTS: usize = 8;

/// Adds the routes of responses and conversations.
pub(crate) fn add_routes(table: RouteTable) -> RouteTable {
    let table = table
        .post("/v1/responses", create)
        .get("/v1/responses/{response}", retrieve)
        .delete("/v1/responses/{response}", remove)
        .post("/v1/responses/{response}/cancel", cancel)
        .get("/v1/responses/{response}/input_items", input_items);
    conversations::add_routes(table)
}

/// `POST /v1/responses`
async fn create(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response, OpenAiError> {
    // A decision requires another scope than a message.
    if !caller.has(TokenScope::Approve) {
        require(&caller, TokenScope::Send)?;
    }
    let key = idempotency_key(&headers)?;
    let request = ResponseRequest::parse(&bytes)?;
    let instructions = instructions(&request)?;
    let input = parse_input(&request.input, instructions.as_deref())?;
    if matches!(input, ResponseInput::Message { .. }) {
        require(&caller, TokenScope::Send)?;
    }
    if key.is_some() && !request.is_stored() {
        // Nothing is kept of the response, so that a second request could not have it.
        let detail = "a response with `store: false` accepts no `Idempotency-Key`";
        let problem = Problem::invalid(detail);
        return Err(problem.with_help("leave out the header, or `store`").into());
    }
    let mut claim = match key {
        Some(key) => {
            let digest = RequestDigest::of_body(&body(&bytes)?);
            let name = ClaimName::lock(&api, &caller, None, &key).await;
            Some(name.claim(&api, &digest).await?)
        }
        None => None,
    };
    let place = claim.as_ref().and_then(|claim| claim.place.as_ref());
    if let Some(known) = place.and_then(ClaimedPlace::response) {
        refuse_deleted(&api, &known).await?;
        // The client may know the id, so that its key names this response from now on.
        if request.is_background() || request.is_streamed() {
            drop(claim);
            return Ok(answer(&api, &caller, &request, &known).await?);
        }
    }
    let (session, turn) = match input {
        ResponseInput::Decisions(decisions) => {
            let session = continued_session(&api, &caller, &request).await?;
            decide(&api, &caller, session.as_deref(), &decisions).await?
        }
        ResponseInput::Message { earlier, message } if !request.is_stored() => {
            let earlier = earlier.iter().map(ChatMessage::to_json).collect();
            let own = (earlier, message);
            return Ok(stateless(&api, &caller, &request, instructions, own).await?);
        }
        ResponseInput::Message { earlier, message } => {
            let own = (earlier.as_slice(), message);
            begin(&api, &caller, &request, own, claim.as_mut()).await?
        }
    };
    if let (Some(claim), Some(entry)) = (&mut claim, turn.entry) {
        claim.accepted(&api, &session, entry).await?;
    }
    drop(claim);
    Ok(respond(&api, &caller, &request, &session, turn).await?)
}

/// Returns the text of the instructions, which may be a list of messages.
fn instructions(request: &ResponseRequest) -> Result<Option<String>, Problem> {
    match &request.instructions {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
        Some(_) => Err(Problem::invalid("`instructions` must be a text")),
    }
}

/// Sends a message, and returns its session when it is durable.
async fn begin(
    api: &Api,
    caller: &Caller,
    request: &ResponseRequest,
    (earlier, message): (&[ChatMessage], ChatMessage),
    mut claim: Option<&mut Claim>,
) -> Result<(String, RunningTurn), Problem> {
    if let Some(place) = claim.as_ref().and_then(|claim| claim.place.as_ref()) {
        return again(api, caller, request, message, place).await;
    }
    let continued = match (&request.previous_response_id, request.conversation_id()?) {
        (Some(id), _) => Continued::Response(id),
        (None, Some(id)) => Continued::Conversation(id),
        (None, None) => Continued::Nothing,
    };
    let kept = request.kept(instructions(request)?.is_some());
    let parameters = request.parameters()?;
    for _ in 0..ATTEMPTS {
        let place = place(api, caller, request.model.as_deref(), continued, earlier).await?;
        let key = kept.to_key(&api.turns.ids.new_id());
        let mut options = place.options.with_idempotency_key(&key);
        let is_only = options.only_after.is_some();
        if !parameters.is_empty() {
            // A turn that waits could be run by another request, without these parameters.
            options = options.with_busy(BusyPolicy::Reject);
        }
        let session = place.session;
        let agent = match (&place.named, &place.known) {
            (Some(name), known) => TurnAgent::First {
                name,
                session: known.as_ref(),
            },
            (None, Some(known)) => TurnAgent::Own(known),
            (None, None) => TurnAgent::Stored,
        };
        let host = &api.turns.host;
        let chat = host.chat_with(&session, agent, parameters.clone()).await?;
        if place.is_new {
            record_owner(api, caller, &session).await?;
        }
        record_format(api, &session, request).await?;
        if let Some(claim) = &mut claim {
            let session = session.clone();
            let place = ClaimedPlace {
                session,
                key,
                ..ClaimedPlace::default()
            };
            claim.record(api, place).await?;
        }
        let message = chat.chat.redacted(message.clone());
        let origin = TurnOrigin::message(message.clone()).with_permit(place.permit);
        let own = session.clone();
        let turn = api.turns.start(&session, chat, origin, move |chat| {
            chat.send(&own, message, options)
        });
        let turn = turn.await?;
        drop(place.lock);
        if turn.entry.is_some() || !is_only {
            return Ok((session, turn));
        }
        // Another server has continued the session since the look at its end.
        match turn.outcome().await {
            Some(ChatTurnOutcome::Errored(turn)) if turn.error_category == "session_busy" => {}
            Some(ChatTurnOutcome::Errored(turn)) => return Err((&turn).into()),
            _ => return Err(Problem::server_ends()),
        }
    }
    Err(locked("other requests continue the conversation"))
}

/// Sends the message of an earlier request again, and gets its outcome.
async fn again(
    api: &Api,
    caller: &Caller,
    request: &ResponseRequest,
    message: ChatMessage,
    place: &ClaimedPlace,
) -> Result<(String, RunningTurn), Problem> {
    let (session, key) = (place.session.clone(), place.key.as_str());
    let known = api.known_session(caller, &session).await?;
    let (known, agent) = match known {
        Some((info, agent)) => (Some(info), agent),
        None => (None, agent_of_new(api, caller, request.model.as_deref())?),
    };
    let permit = permit(api, caller, &agent, (&session, Some(key))).await?;
    let of_turn = turn_agent(&agent, known.as_ref());
    let host = &api.turns.host;
    let chat = host.chat_with(&session, of_turn, request.parameters()?);
    let chat = chat.await?;
    if known.is_none() {
        record_owner(api, caller, &session).await?;
    }
    let message = chat.chat.redacted(message);
    let origin = TurnOrigin::message(message.clone()).with_permit(permit);
    let options = SendOptions::new().with_idempotency_key(key);
    let own = session.clone();
    let turn = api.turns.start(&session, chat, origin, move |chat| {
        chat.send(&own, message, options)
    });
    let turn = turn.await?;
    Ok((session, turn))
}

/// Records the required form of an answer in its session.
async fn record_format(api: &Api, session: &str, request: &ResponseRequest) -> Result<(), Problem> {
    if let Some(format) = request.format() {
        let name = format_name(&format);
        let now = api.turns.clock.now();
        api.store().set_label(session, &name, format, now).await?;
    }
    Ok(())
}

/// Returns the session that a request names.
async fn continued_session(
    api: &Api,
    caller: &Caller,
    request: &ResponseRequest,
) -> Result<Option<String>, Problem> {
    if let Some(id) = &request.previous_response_id {
        let (found, _) = readable_response(api, caller, id).await?;
        return Ok(Some(found.session));
    }
    Ok(request.conversation_id()?.map(str::to_owned))
}

/// Answers with the stream of a response, with the response itself, or at once.
async fn respond(
    api: &Api,
    caller: &Caller,
    request: &ResponseRequest,
    session: &str,
    turn: RunningTurn,
) -> Result<Response, Problem> {
    let Some(entry) = turn.entry else {
        return match api.outcome(turn).await {
            Some(ChatTurnOutcome::Errored(turn)) => Err((&turn).into()),
            _ => Err(Problem::server_ends()),
        };
    };
    let id = ResponseId::new(session, entry);
    if !request.is_background() && !request.is_streamed() {
        match api.outcome(turn).await {
            Some(ChatTurnOutcome::Errored(turn)) => return Ok(failed(&(&turn).into())),
            Some(_) => {}
            None => return Ok(failed(&Problem::server_ends())),
        }
    }
    answer(api, caller, request, &id).await
}

/// Answers with the stream of a response, or with its current state.
async fn answer(
    api: &Api,
    caller: &Caller,
    request: &ResponseRequest,
    id: &ResponseId,
) -> Result<Response, Problem> {
    let stored = read(api, caller, &id.to_string()).await?.1;
    if request.is_streamed() {
        return follow(api, id, &stored, None).await;
    }
    Ok(Json(stored.to_json(api).await?).into_response())
}

/// Refuses the key of a response that was deleted, alone or with its session.
async fn refuse_deleted(api: &Api, id: &ResponseId) -> Result<(), Problem> {
    let info = api.store().session(&id.session).await?;
    let is_known = match info {
        Some(info) if deleted(&info).contains(&id.entry) => false,
        Some(_) => api.store().entry(&id.session, id.entry).await?.is_some(),
        None => false,
    };
    if is_known {
        return Ok(());
    }
    let detail = format!("response `{id}` of the idempotency key was deleted");
    Err(Problem::new(StatusCode::GONE, "response_deleted", detail)
        .with_help("use another key for another response"))
}

/// Returns the error of an accepted message.
///
/// Official clients repeat requests, which would send the message again.
fn failed(problem: &Problem) -> Response {
    let mut response = OpenAiError::from(problem.clone()).into_response();
    let no = HeaderValue::from_static("false");
    response.headers_mut().insert("x-should-retry", no);
    response
}

/// Reads a response of the caller's token.
async fn read_own(
    api: &Api,
    caller: &Caller,
    id: &str,
) -> Result<(ResponseId, StoredResponse), Problem> {
    own_response(api, caller, id).await?;
    read(api, caller, id).await
}

/// Reads a response that the caller created or may decide about.
async fn read(
    api: &Api,
    caller: &Caller,
    id: &str,
) -> Result<(ResponseId, StoredResponse), Problem> {
    let (found, agent) = readable_response(api, caller, id).await?;
    let conversation = conversation_of(api, &found.session).await?;
    let stored = StoredResponse::read(api, (&found, &agent), conversation).await?;
    let stored = stored.ok_or_else(|| unknown_response(id))?;
    Ok((found, stored))
}

/// Returns the parameters of a query as texts.
fn parameters(uri: &Uri) -> Result<Map<String, Value>, Problem> {
    let query = Query::<HashMap<String, String>>::try_from_uri(uri);
    let query = query.map_err(|error| Problem::invalid(error.body_text()))?;
    let pairs = query.0.into_iter();
    Ok(pairs.map(|(name, value)| (name, json!(value))).collect())
}

/// `GET /v1/responses/{response}`
async fn retrieve(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, OpenAiError> {
    require(&caller, TokenScope::Read)?;
    let query = parameters(&uri)?;
    let text = |name: &str| query.get(name).and_then(Value::as_str);
    let after = match text("starting_after") {
        None => None,
        Some(after) => {
            let number = after.parse::<u64>();
            let invalid = |_| Problem::invalid(format!("invalid `starting_after`: `{after}`"));
            Some(number.map_err(invalid)?)
        }
    };
    let (found, stored) = read(&api, &caller, &id).await?;
    if text("stream") == Some("true") {
        return Ok(follow(&api, &found, &stored, after).await?);
    }
    Ok(Json(stored.to_json(&api).await?).into_response())
}

/// `GET /v1/responses/{response}/input_items`
async fn input_items(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, OpenAiError> {
    require(&caller, TokenScope::Read)?;
    let query = parameters(&uri)?;
    let (_, stored) = read(&api, &caller, &id).await?;
    Ok(Json(page(stored.input_items(), &query)?).into_response())
}

/// `POST /v1/responses/{response}/cancel`
async fn cancel(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, OpenAiError> {
    require(&caller, TokenScope::Send)?;
    let (found, mut stored) = read_own(&api, &caller, &id).await?;
    let live = api.turns.hub.live(&found.session);
    let mut changes = live.changes();
    let until = tokio::time::Instant::now() + PATIENCE;
    let mut is_requested = false;
    while stored.outcome.is_none() && tokio::time::Instant::now() < until {
        // One that waits for an earlier response ends without a request to the model.
        if !is_requested {
            let (session, mode) = (&found.session, CancelMode::Interrupt);
            let store = api.store();
            is_requested = store.request_cancel_of(session, found.entry, mode).await?;
        }
        if is_requested && stored.state == EntryState::Waiting {
            break;
        }
        // Outcomes of other processes do not wake this one at once.
        let change = tokio::time::timeout(Duration::from_millis(200), changes.changed());
        drop(change.await);
        stored = read(&api, &caller, &id).await?.1;
    }
    Ok(Json(stored.to_json(&api).await?).into_response())
}

/// `DELETE /v1/responses/{response}`
///
/// The session is removed with its last response. Until then later responses need its messages.
async fn remove(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, OpenAiError> {
    require(&caller, TokenScope::Send)?;
    let (found, stored) = read_own(&api, &caller, &id).await?;
    let session = &found.session;
    if stored.outcome.is_none() {
        let detail = format!("response `{id}` has not ended");
        let problem = Problem::new(StatusCode::CONFLICT, "session_busy", detail);
        return Err(problem.with_help("cancel it first").into());
    }
    let info = api.store().session(session).await?;
    let info = info.ok_or_else(|| unknown_response(&id))?;
    let mut entries = deleted(&info);
    entries.push(found.entry);
    // An entry has one outcome, and a session as many outcomes as entries.
    let is_last = info.pending == 0 && entries.len() as u64 >= info.cursor;
    if is_last && stored.head.conversation.is_none() {
        api.remove_session(session).await?;
    } else {
        record_deleted(&api, session, &entries).await?;
    }
    let body = json!({"id": id, "object": "response", "deleted": true});
    Ok(Json(body).into_response())
}
