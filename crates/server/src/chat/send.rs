//! Messages to sessions: send, cancel and retry.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use logue_harness::chat::{BusyPolicy, ChatTurnOutcome, PausedPolicy, SendOptions};
use logue_harness::store::{CancelMode, SessionInfo};
use logue_message::{ChatMessage, Content, ContentBlock, Role};
use serde::Deserialize;
use serde_json::{Value, json};

use super::accept::accepts_events;
use super::accepted_images::check_images;
use super::access::{Caller, TokenScope};
use super::api::{Api, body, require};
use super::extract::{PathOf, single};
use super::host::TurnAgent;
use super::limits::TurnPermit;
use super::outcomes::{outcome_json, stored_event};
use super::parameters::TurnParameters;
use super::problem::Problem;
use super::session_id::check_new_session;
use super::sse::{EventId, EventReader, EventScope, single_event};
use super::turns::{RunningTurn, TurnOrigin};

/// The longest idempotency key, in bytes.
const MAX_KEY: usize = 255;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SendBody {
    /// A text, or a message of the role `user`.
    message: Value,
    #[serde(default)]
    agent: Option<String>,
    #[serde(default)]
    busy: Busy,
    #[serde(default)]
    while_paused: WhilePaused,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Busy {
    #[default]
    Enqueue,
    Reject,
    Interrupt,
    Rollback,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WhilePaused {
    #[default]
    Proceed,
    Reject,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelBody {
    #[serde(default)]
    rollback: bool,
}

/// `POST /v1/sessions/{session}/send`
pub(crate) async fn send(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    PathOf(session): PathOf<String>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response, Problem> {
    require(&caller, TokenScope::Send)?;
    let request: SendBody = body(&bytes)?;
    let message = user_message(&request.message)?;
    let (agent, known) = agent_of(&api, &caller, &session, request.agent).await?;
    let mut options = SendOptions::new()
        .with_busy(match request.busy {
            Busy::Enqueue => BusyPolicy::Enqueue,
            Busy::Reject => BusyPolicy::Reject,
            Busy::Interrupt => BusyPolicy::Interrupt,
            Busy::Rollback => BusyPolicy::Rollback,
        })
        .with_while_paused(match request.while_paused {
            WhilePaused::Proceed => PausedPolicy::Proceed,
            WhilePaused::Reject => PausedPolicy::Reject,
        });
    let key = idempotency_key(&headers)?;
    let permit = permit(&api, &caller, &agent, (&session, key.as_deref())).await?;
    if let Some(key) = key {
        options = options.with_idempotency_key(key);
    }
    let of_turn = turn_agent(&agent, known.as_ref());
    let parameters = TurnParameters::default();
    let chat = api.chat(&caller, &session, of_turn, parameters).await?;
    let message = chat.chat.redacted(message);
    let origin = TurnOrigin::message(message.clone()).with_permit(permit);
    let own = session.clone();
    let turn = api.turns.start(&session, chat, origin, move |chat| {
        chat.send(&own, message, options)
    });
    respond(&api, &session, &headers, turn.await?).await
}

/// Permits the turn of a message.
///
/// A message that was delivered before begins no turn, and its client may always wait for the outcome.
pub(crate) async fn permit(
    api: &Api,
    caller: &Caller,
    agent: &str,
    (session, key): (&str, Option<&str>),
) -> Result<Option<TurnPermit>, Problem> {
    let problem = match api.limits.permit(caller, agent) {
        Ok(permit) => return Ok(Some(permit)),
        Err(problem) => problem,
    };
    let Some(key) = key else { return Err(problem) };
    match api.store().entry_with_key(session, key).await? {
        Some(_) => Ok(None),
        None => Err(problem),
    }
}

/// Returns the agent of a turn, and the session if it exists.
///
/// It is that of the session, or else the one that the request names.
async fn agent_of(
    api: &Api,
    caller: &Caller,
    session: &str,
    named: Option<String>,
) -> Result<(String, Option<SessionInfo>), Problem> {
    let known = api.known_session(caller, session).await?;
    if known.is_none() {
        check_new_session(session)?;
    }
    let agent = match (known, named) {
        (Some((_, own)), Some(named)) if own != named => {
            let detail = format!("session `{session}` belongs to the agent `{own}`");
            return Err(Problem::new(StatusCode::CONFLICT, "agent_differs", detail));
        }
        (Some((info, own)), _) => return Ok((own, Some(info))),
        (None, Some(named)) => named,
        (None, None) => only_agent(api, caller)?,
    };
    let agents = api.turns.host.agents();
    let is_known = agents.iter().any(|known| known.name == agent);
    if !is_known || !caller.may_use(&agent) {
        return Err(unknown_agent(api, caller, &agent));
    }
    Ok((agent, None))
}

/// Returns the agent of a known session, or of a new one.
pub(crate) fn turn_agent<'a>(agent: &'a str, known: Option<&'a SessionInfo>) -> TurnAgent<'a> {
    known.map_or(TurnAgent::of_new(agent), TurnAgent::Own)
}

/// Returns the agent of a server that has one.
pub(crate) fn only_agent(api: &Api, caller: &Caller) -> Result<String, Problem> {
    let agents = api.turns.host.agents().into_iter();
    let mut agents = agents.filter(|agent| caller.may_use(&agent.name));
    match (agents.next(), agents.next()) {
        (Some(only), None) => Ok(only.name),
        _ => Err(Problem::invalid("a new session requires `agent`")
            .with_help("GET /v1/agents lists the agents")),
    }
}

pub(crate) fn unknown_agent(api: &Api, caller: &Caller, agent: &str) -> Problem {
    let known = api.turns.host.agents().into_iter();
    let known = known.filter(|agent| caller.may_use(&agent.name));
    let known: Vec<String> = known.map(|agent| agent.name).collect();
    Problem::new(
        StatusCode::NOT_FOUND,
        "agent_not_found",
        format!("agent `{agent}` not found"),
    )
    .with_help(format!("agents: {}", known.join(", ")))
}

/// Reads a message of a client, whose role is always `user`.
fn user_message(message: &Value) -> Result<ChatMessage, Problem> {
    let invalid = |detail: String| {
        Problem::new(
            StatusCode::BAD_REQUEST,
            "chat_message_shape_invalid",
            detail,
        )
    };
    let mut message = match message {
        Value::String(text) => ChatMessage::user(text.as_str()),
        message => {
            if let Some(member) = unknown_member(message) {
                let problem = invalid(format!("unknown member `{member}`"));
                return Err(problem.with_help(
                    "a message has `role`, `content` and `name`; its blocks are texts and images",
                ));
            }
            ChatMessage::from_json(message).map_err(|error| invalid(error.to_string()))?
        }
    };
    if message.role != Role::User {
        // A developer message is a system message with another rank.
        let role = if message.developer {
            "developer"
        } else {
            message.role.as_str()
        };
        return Err(invalid(format!(
            "a client sends the role `user`, not `{role}`"
        )));
    }
    message
        .validate()
        .map_err(|error| error.to_string())
        .and_then(|()| check_images(&message))
        .map_err(invalid)?;
    // One text is the same message in both forms.
    if let Content::Blocks(blocks) = &message.content
        && let [ContentBlock::Text { text, .. }] = blocks.as_slice()
    {
        message.content = text.as_str().into();
    }
    Ok(message)
}

/// Returns the path of the first unknown member of a message of a user.
fn unknown_member(message: &Value) -> Option<String> {
    let path = "message";
    if let Some(member) = other_member(path, message, &["role", "content", "name"]) {
        return Some(member);
    }
    let blocks = message.get("content").and_then(Value::as_array);
    let mut blocks = blocks.into_iter().flatten().enumerate();
    blocks.find_map(|(at, block)| {
        let path = format!("{path}.content[{at}]");
        match block.get("type").and_then(Value::as_str) {
            Some("text") => other_member(&path, block, &["type", "text"]),
            Some("image") => {
                let members = ["type", "source", "media_type", "detail"];
                other_member(&path, block, &members).or_else(|| {
                    let members = ["type", "url", "base64_data"];
                    other_member(&format!("{path}.source"), block.get("source")?, &members)
                })
            }
            // Blocks of other types are refused by their type.
            _ => None,
        }
    })
}

/// Returns the path of the first member of an object besides these.
fn other_member(path: &str, object: &Value, members: &[&str]) -> Option<String> {
    let mut names = object.as_object()?.keys();
    let name = names.find(|name| !members.contains(&name.as_str()))?;
    Some(format!("{path}.{name}"))
}

pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    match single(headers, "idempotency-key")? {
        None => Ok(None),
        Some(key) if !key.is_empty() && key.len() <= MAX_KEY => Ok(Some(key.to_owned())),
        Some(_) => Err(Problem::invalid(format!(
            "`Idempotency-Key` has 1 to {MAX_KEY} visible ASCII characters"
        ))),
    }
}

/// Returns the position before the events of a turn; `None` if they are lost.
pub(crate) async fn before_turn(
    api: &Api,
    session: &str,
    turn: &RunningTurn,
) -> Result<Option<EventId>, Problem> {
    let Some(entry) = turn.entry else {
        return Ok(None);
    };
    if let Some(after) = turn.accepted_after {
        return Ok(Some(after));
    }
    let log = api.turns.hub.log();
    let position = log.position(session).await?;
    // A message that was delivered before has its events in the log, or only its outcome.
    let first = log.first_after_entry(session, entry - 1).await?;
    let has_own = first.is_some() && first != log.first_after_entry(session, entry).await?;
    let is_logged = has_own || position.has_begun() && position.settled < entry;
    Ok(is_logged.then(|| {
        let after = first.map_or(turn.after.seq, |first| first - 1);
        EventId::of(position).at(after)
    }))
}

/// Answers with the events of a turn, or with its outcome.
pub(crate) async fn respond(
    api: &Api,
    session: &str,
    headers: &HeaderMap,
    turn: RunningTurn,
) -> Result<Response, Problem> {
    if accepts_events(headers)
        && let Some(entry) = turn.entry
    {
        if let Some(after) = before_turn(api, session, &turn).await? {
            let reader = EventReader::new(
                api.turns.clone(),
                session,
                after,
                EventScope::Turn(entry),
                api.shutdown.clone(),
            );
            return Ok(reader.into_response());
        }
        if let Some(text) = stored_event(&**api.store(), session, entry).await? {
            return Ok(single_event(&text));
        }
    }
    let entry = turn.entry;
    let Some(outcome) = api.outcome(turn).await else {
        return Err(Problem::server_ends());
    };
    let status = match &outcome {
        ChatTurnOutcome::Completed(_) => StatusCode::OK,
        ChatTurnOutcome::Suspended(_) => StatusCode::ACCEPTED,
        ChatTurnOutcome::Errored(turn) => return Err(turn.into()),
    };
    let mut body = outcome_json(&outcome);
    body["session"] = json!(session);
    body["turn"] = json!(entry);
    Ok((status, Json(body)).into_response())
}

/// `POST /v1/sessions/{session}/cancel`
pub(crate) async fn cancel(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    PathOf(session): PathOf<String>,
    bytes: Bytes,
) -> Result<Json<Value>, Problem> {
    require(&caller, TokenScope::Send)?;
    let request: CancelBody = body(&bytes)?;
    api.session(&caller, &session).await?;
    let mode = if request.rollback {
        CancelMode::Rollback
    } else {
        CancelMode::Interrupt
    };
    let is_requested = api.store().request_cancel(&session, mode).await?;
    Ok(Json(json!({ "cancelling": is_requested })))
}

/// `POST /v1/sessions/{session}/retry`
pub(crate) async fn retry(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    PathOf(session): PathOf<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    require(&caller, TokenScope::Send)?;
    let (info, agent) = api.session(&caller, &session).await?;
    let origin = TurnOrigin::default().with_permit(api.limits.permit(&caller, &agent)?);
    let own = TurnAgent::Own(&info);
    let chat = api.turns.host.chat(&session, own).await?;
    let stream = chat.chat.retry_streaming_of(&info).await?;
    let turn = api.turns.start(&session, chat, origin, |_| stream);
    respond(&api, &session, &headers, turn.await?).await
}
