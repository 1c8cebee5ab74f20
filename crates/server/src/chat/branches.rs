//! Copies of sessions that continue from an earlier message or step.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use logue_harness::chat::{BranchPoint, fork_session, rerun_session};
use serde::Deserialize;
use serde_json::json;

use super::access::{Caller, TokenScope};
use super::api::{Api, body, require};
use super::extract::PathOf;
use super::host::TurnAgent;
use super::problem::Problem;
use super::send::respond;
use super::session_id::check_new_session;
use super::turns::TurnOrigin;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ForkBody {
    #[serde(default)]
    messages: Option<u64>,
    #[serde(default)]
    step: Option<u64>,
    #[serde(default)]
    into: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RerunBody {
    step: u64,
    /// The text that replaces that of the step, or the arguments of its call.
    #[serde(default)]
    edit: Option<String>,
    #[serde(default)]
    into: Option<String>,
}

/// `POST /v1/sessions/{session}/fork`
pub(crate) async fn fork(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    PathOf(session): PathOf<String>,
    bytes: Bytes,
) -> Result<Response, Problem> {
    require(&caller, TokenScope::Send)?;
    let request: ForkBody = body(&bytes)?;
    api.session(&caller, &session).await?;
    let point = match (request.messages, request.step) {
        (Some(_), Some(_)) => {
            return Err(Problem::invalid("name `messages` or `step`, not both"));
        }
        (Some(messages), None) => BranchPoint::Messages(messages),
        (None, Some(step)) => BranchPoint::Step(step),
        (None, None) => BranchPoint::Latest,
    };
    let into = new_id(&api, request.into)?;
    let now = api.turns.clock.now();
    let branch = fork_session(&**api.store(), &session, &into, point, None, now).await?;
    let body = json!({"session": branch.session, "messages": branch.messages});
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

/// `POST /v1/sessions/{session}/rerun`: a copy that asks the model again at a step.
pub(crate) async fn rerun(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    PathOf(session): PathOf<String>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response, Problem> {
    require(&caller, TokenScope::Send)?;
    let request: RerunBody = body(&bytes)?;
    let (info, agent) = api.session(&caller, &session).await?;
    let origin = TurnOrigin::default().with_permit(api.limits.permit(&caller, &agent)?);
    // What cannot run creates no session.
    let own = TurnAgent::Own(&info);
    let source = api.turns.host.chat(&session, own).await?;
    let edit = request.edit.as_deref();
    let edit = edit.map(|edit| source.chat.redacted_edit(edit));
    let into = new_id(&api, request.into)?;
    let now = api.turns.clock.now();
    let (store, ids) = (&**api.store(), &*api.turns.ids);
    let (step, edit) = (request.step, edit.as_deref());
    let branch = rerun_session(store, &session, &into, step, edit, ids, now).await?;
    let Some(entry) = branch.entry else {
        let body = json!({"session": branch.session, "messages": branch.messages});
        return Ok((StatusCode::CREATED, Json(body)).into_response());
    };
    let chat = api
        .turns
        .host
        .chat(&branch.session, TurnAgent::Stored)
        .await?;
    let own = branch.session.clone();
    let turn = api.turns.start(&branch.session, chat, origin, move |chat| {
        chat.chat.entry_streaming(&own, entry)
    });
    respond(&api, &branch.session, &headers, turn.await?).await
}

fn new_id(api: &Api, named: Option<String>) -> Result<String, Problem> {
    match named.filter(|name| !name.is_empty()) {
        None => Ok(api.turns.ids.new_id()),
        Some(name) => check_new_session(&name).map(|()| name),
    }
}
