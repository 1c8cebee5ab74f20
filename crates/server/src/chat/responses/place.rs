//! The session in which a request for a response runs.

use logue_harness::chat::{BranchPoint, PausedPolicy, SendOptions, fork_session};
use logue_harness::store::SessionInfo;
use logue_message::ChatMessage;
use serde_json::{Value, json};
use tokio::sync::OwnedMutexGuard;

use super::ids::ResponseId;
use crate::chat::access::{Caller, TokenScope};
use crate::chat::api::Api;
use crate::chat::completions::create_seeded;
use crate::chat::limits::TurnPermit;
use crate::chat::owner::is_owner;
use crate::chat::problem::Problem;
use crate::chat::send::{only_agent, unknown_agent};

/// The label of a conversation with its id; copies lack it.
const CONVERSATION: &str = "conversation";
/// The label with the deleted responses of a session.
const DELETED: &str = "deleted_responses";

/// The session of a request.
pub(super) struct ResponsePlace {
    pub(super) session: String,
    /// The agent of a session that has none.
    pub(super) named: Option<String>,
    /// The session as it was read; `None` if it is new.
    pub(super) known: Option<SessionInfo>,
    /// Whether the session is to be the caller's.
    pub(super) is_new: bool,
    pub(super) options: SendOptions,
    /// The permit of the turn.
    pub(super) permit: TurnPermit,
    /// Held until the message is accepted.
    pub(super) lock: OwnedMutexGuard<()>,
}

/// The part of a request that selects its session.
#[derive(Clone, Copy)]
pub(super) enum Continued<'a> {
    Nothing,
    Response(&'a str),
    Conversation(&'a str),
}

/// Finds or creates the session of a message.
///
/// A message that follows the last response of a session is appended. One that follows an earlier
/// response continues in a copy of the session up to there.
///
/// # Errors
/// Returns a problem if what is to be continued is unknown or belongs to others.
pub(super) async fn place(
    api: &Api,
    caller: &Caller,
    model: Option<&str>,
    continued: Continued<'_>,
    earlier: &[ChatMessage],
) -> Result<ResponsePlace, Problem> {
    if !earlier.is_empty() && !matches!(continued, Continued::Nothing) {
        return Err(Problem::invalid(
            "answers in `input` are accepted only at the beginning of a conversation",
        ));
    }
    match continued {
        Continued::Nothing => {
            let agent = agent_of_new(api, caller, model)?;
            let permit = api.limits.permit(caller, &agent)?;
            let session = api.turns.ids.new_id();
            let lock = api.turns.locks.lock(&session).await;
            let mut named = Some(agent.clone());
            if !earlier.is_empty() {
                create_seeded(api, caller, (&agent, &session), earlier).await?;
                named = None;
            }
            let options = SendOptions::new();
            Ok(ResponsePlace {
                session,
                named,
                known: None,
                is_new: true,
                options,
                permit,
                lock,
            })
        }
        Continued::Response(id) => after(api, caller, model, id).await,
        Continued::Conversation(id) => {
            let info = own_session(api, caller, id).await?;
            let own = info.as_ref().and_then(|info| api.turns.host.agent_of(info));
            let is_new = info.as_ref().is_some_and(is_conversation);
            let agent = match (&own, is_new) {
                (Some(own), _) => same_agent(own, model)?,
                (None, true) => agent_of_new(api, caller, model)?,
                (None, false) => return Err(unknown_conversation(id)),
            };
            let permit = api.limits.permit(caller, &agent)?;
            let lock = api.turns.locks.lock(id).await;
            Ok(ResponsePlace {
                session: id.to_owned(),
                permit,
                named: own.is_none().then_some(agent),
                known: info,
                is_new: false,
                options: SendOptions::new().with_while_paused(PausedPolicy::Reject),
                lock,
            })
        }
    }
}

/// Returns the place after a response.
async fn after(
    api: &Api,
    caller: &Caller,
    model: Option<&str>,
    id: &str,
) -> Result<ResponsePlace, Problem> {
    let (found, agent) = own_response(api, caller, id).await?;
    same_agent(&agent, model)?;
    let permit = api.limits.permit(caller, &agent)?;
    let session = &found.session;
    let lock = api.turns.locks.lock(session).await;
    let paused = SendOptions::new().with_while_paused(PausedPolicy::Reject);
    let (last, settled) = last_entry(api, session).await?;
    if last == found.entry {
        let paused = match settled {
            // Servers on the same store do not share the lock.
            Some(cursor) => paused.with_only_after(cursor),
            None => paused,
        };
        return Ok(ResponsePlace {
            session: session.clone(),
            named: None,
            known: None,
            is_new: false,
            options: paused,
            permit,
            lock,
        });
    }
    let store = api.store();
    let Some(outcome) = store.outcome_of(session, found.entry).await? else {
        let detail = format!("response `{id}` has not ended, and another one follows it");
        return Err(locked(&detail));
    };
    let into = api.turns.ids.new_id();
    let point = BranchPoint::Messages(outcome.replies_to);
    let now = api.turns.clock.now();
    fork_session(&**store, session, &into, point, None, now).await?;
    drop(lock);
    let lock = api.turns.locks.lock(&into).await;
    Ok(ResponsePlace {
        session: into,
        named: None,
        known: None,
        is_new: false,
        options: SendOptions::new(),
        permit,
        lock,
    })
}

/// Returns the problem of a conversation that another request continues.
pub(super) fn locked(detail: &str) -> Problem {
    let status = axum::http::StatusCode::CONFLICT;
    let mut problem = Problem::new(status, "conversation_locked", detail);
    problem.retry_after = Some(1);
    problem
}

/// Returns the last entry of a session, with its position if it is settled.
async fn last_entry(api: &Api, session: &str) -> Result<(u64, Option<u64>), Problem> {
    // The position is read first: an entry that is settled later makes it an earlier one.
    let info = api.store().session(session).await?;
    if let Some(last) = api.store().inbox(session).await?.last() {
        return Ok((last.entry, None));
    }
    let Some(cursor) = info.map(|info| info.cursor).filter(|cursor| *cursor > 0) else {
        return Ok((0, None));
    };
    let last = api.store().outcomes_since(session, cursor - 1, 1).await?;
    Ok((last.first().map_or(0, |last| last.entry), Some(cursor)))
}

/// Returns the agent of a new session.
pub(super) fn agent_of_new(
    api: &Api,
    caller: &Caller,
    model: Option<&str>,
) -> Result<String, Problem> {
    let Some(model) = model else {
        return only_agent(api, caller);
    };
    let agents = api.turns.host.agents();
    let is_known = agents.iter().any(|agent| agent.name == model);
    if !is_known || !caller.may_use(model) {
        return Err(unknown_agent(api, caller, model));
    }
    Ok(model.to_owned())
}

fn same_agent(own: &str, model: Option<&str>) -> Result<String, Problem> {
    if model.is_some_and(|model| model != own) {
        let detail = format!("the conversation belongs to the agent `{own}`");
        let status = axum::http::StatusCode::CONFLICT;
        return Err(
            Problem::new(status, "agent_differs", detail).with_help(format!(
                "send `\"model\": \"{own}\"`, or begin a conversation"
            )),
        );
    }
    Ok(own.to_owned())
}

/// Returns a session of the caller's token.
async fn own_session(
    api: &Api,
    caller: &Caller,
    session: &str,
) -> Result<Option<SessionInfo>, Problem> {
    let info = api.store().session(session).await?;
    let info = info.filter(|info| is_owner(caller, info));
    let agent = info.as_ref().and_then(|info| api.turns.host.agent_of(info));
    Ok(info.filter(|_| agent.is_none_or(|agent| caller.may_use(&agent))))
}

/// Returns a response of the caller's token, with its agent.
///
/// # Errors
/// Returns a problem if there is none.
pub(super) async fn own_response(
    api: &Api,
    caller: &Caller,
    id: &str,
) -> Result<(ResponseId, String), Problem> {
    let found = ResponseId::parse(id).ok_or_else(|| unknown_response(id))?;
    let info = own_session(api, caller, &found.session).await?;
    response_of(api, (id, found), info).await
}

/// Returns a response that the caller created or may decide about.
///
/// # Errors
/// Returns a problem if there is none.
pub(super) async fn readable_response(
    api: &Api,
    caller: &Caller,
    id: &str,
) -> Result<(ResponseId, String), Problem> {
    if !caller.has(TokenScope::Approve) {
        return own_response(api, caller, id).await;
    }
    let found = ResponseId::parse(id).ok_or_else(|| unknown_response(id))?;
    let known = api.known_session(caller, &found.session).await;
    let info = known.map_err(|_| unknown_response(id))?;
    response_of(api, (id, found), info.map(|(info, _)| info)).await
}

async fn response_of(
    api: &Api,
    (id, found): (&str, ResponseId),
    info: Option<SessionInfo>,
) -> Result<(ResponseId, String), Problem> {
    let info = info.filter(|info| !deleted(info).contains(&found.entry));
    let agent = info.and_then(|info| api.turns.host.agent_of(&info));
    let agent = agent.ok_or_else(|| unknown_response(id))?;
    let entry = api.store().entry(&found.session, found.entry).await?;
    match entry {
        Some(_) => Ok((found, agent)),
        None => Err(unknown_response(id)),
    }
}

pub(super) fn unknown_response(id: &str) -> Problem {
    let status = axum::http::StatusCode::NOT_FOUND;
    Problem::new(
        status,
        "response_not_found",
        format!("response `{id}` not found"),
    )
}

fn unknown_conversation(id: &str) -> Problem {
    let status = axum::http::StatusCode::NOT_FOUND;
    let detail = format!("conversation `{id}` not found");
    Problem::new(status, "conversation_not_found", detail)
        .with_help("POST /v1/conversations creates one")
}

/// Returns whether a session was created as a conversation.
fn is_conversation(info: &SessionInfo) -> bool {
    info.labels.get(CONVERSATION).and_then(Value::as_str) == Some(&info.session)
}

/// Returns the id of a session's conversation, if it is one.
///
/// # Errors
/// Returns a problem if the store fails.
pub(super) async fn conversation_of(api: &Api, session: &str) -> Result<Option<String>, Problem> {
    let info = api.store().session(session).await?;
    let info = info.filter(is_conversation);
    Ok(info.map(|info| info.session))
}

/// Records that a session is a conversation.
///
/// # Errors
/// Returns a problem if the store fails.
pub(super) async fn record_conversation(api: &Api, session: &str) -> Result<(), Problem> {
    let now = api.turns.clock.now();
    let store = api.store();
    store
        .set_label(session, CONVERSATION, json!(session), now)
        .await?;
    Ok(())
}

/// Returns a conversation of the caller's token.
///
/// # Errors
/// Returns a problem if there is none.
pub(super) async fn own_conversation(
    api: &Api,
    caller: &Caller,
    id: &str,
) -> Result<SessionInfo, Problem> {
    let info = own_session(api, caller, id).await?;
    let info = info.filter(|info| is_conversation(info) || api.turns.host.agent_of(info).is_some());
    info.ok_or_else(|| unknown_conversation(id))
}

/// Returns the deleted responses of a session.
pub(super) fn deleted(info: &SessionInfo) -> Vec<u64> {
    let label = info.labels.get(DELETED);
    // A copy has the label of its source.
    let label = label.filter(|label| label["session"] == json!(info.session));
    let entries = label.and_then(|label| label["entries"].as_array());
    let entries = entries.into_iter().flatten();
    entries.filter_map(Value::as_u64).collect()
}

/// Records that responses of a session are deleted.
///
/// # Errors
/// Returns a problem if the store fails.
pub(super) async fn record_deleted(
    api: &Api,
    session: &str,
    entries: &[u64],
) -> Result<(), Problem> {
    let now = api.turns.clock.now();
    let label = json!({"session": session, "entries": entries});
    let store = api.store();
    store.set_label(session, DELETED, label, now).await?;
    Ok(())
}
