//! Decisions about turns that wait for a person.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::{Extension, Json};
use logue_agent::{APPROVAL, DECIDED_BY, EDITS, NOTE};
use logue_harness::chat::SignalTarget;
use logue_harness::store::{Suspension, SuspensionFilter, SuspensionStatus};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::access::{Caller, TokenScope};
use super::api::{Api, body, require, require_here};
use super::extract::PathOf;
use super::limits::TurnPermit;
use super::problem::Problem;
use super::send::respond;
use super::turns::TurnOrigin;
use super::visible::visible_suspension;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DecisionBody {
    /// `approve`, `deny`, or an object with one of them for each call.
    approval: Value,
    /// Text for the model.
    #[serde(default)]
    note: Option<String>,
    /// Arguments that replace those of calls: objects, or texts as the calls have them.
    #[serde(default)]
    edits: Map<String, Value>,
    /// The name of the person, to which that of the token is added.
    #[serde(default)]
    decided_by: Option<String>,
}

/// `GET /v1/signals`: the turns that wait for a decision.
pub(crate) async fn list(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Value>, Problem> {
    require(&caller, TokenScope::Read)?;
    let filter = SuspensionFilter {
        status: Some(SuspensionStatus::Suspended),
        is_usable: true,
        ..SuspensionFilter::default()
    };
    let mut signals = Vec::new();
    for waiting in api.store().suspensions(filter).await? {
        if api.session(&caller, &waiting.session).await.is_ok() {
            signals.push(shown(&waiting));
        }
    }
    Ok(Json(json!({ "signals": signals })))
}

/// `GET /v1/signals/{signal}`
pub(crate) async fn show(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    PathOf(signal): PathOf<String>,
) -> Result<Json<Value>, Problem> {
    require(&caller, TokenScope::Read)?;
    let waiting = find(&api, &caller, &signal).await?;
    if waiting.status == SuspensionStatus::Suspended {
        // It waits in the store that continues its session.
        let (info, _) = api.session(&caller, &waiting.session).await?;
        require_here(&info)?;
    }
    Ok(Json(shown(&waiting)))
}

/// `POST /v1/signals/{signal}`
pub(crate) async fn decide(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    PathOf(signal): PathOf<String>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response, Problem> {
    require(&caller, TokenScope::Approve)?;
    let request: DecisionBody = body(&bytes)?;
    let waiting = find(&api, &caller, &signal).await?;
    let payload = payload(request, &caller);
    let session = waiting.session.clone();
    let (_, agent) = api.session(&caller, &session).await?;
    // The decision is refused before it is stored, or it runs.
    let permit = decision_permit(&api, &caller, &agent, &waiting)?;
    let chat = api.turns.host.resumed_chat(&session, &waiting).await?;
    let target = SignalTarget::Signal(&waiting.signal_id);
    let stream = chat.chat.signal_streaming(target, payload).await?;
    let origin = TurnOrigin::default().with_permit(permit);
    let turn = api.turns.start(&session, chat, origin, |_| stream);
    respond(&api, &session, &headers, turn.await?).await
}

/// Permits the turn that a decision continues.
///
/// A decision that was made before continues no turn, and its client may always wait for the outcome.
pub(crate) fn decision_permit(
    api: &Api,
    caller: &Caller,
    agent: &str,
    waiting: &Suspension,
) -> Result<Option<TurnPermit>, Problem> {
    match api.limits.permit(caller, agent) {
        Ok(permit) => Ok(Some(permit)),
        Err(_) if waiting.status != SuspensionStatus::Suspended => Ok(None),
        Err(problem) => Err(problem),
    }
}

fn payload(request: DecisionBody, caller: &Caller) -> Map<String, Value> {
    let mut payload = Map::new();
    payload.insert(APPROVAL.to_owned(), request.approval);
    if let Some(note) = request.note {
        payload.insert(NOTE.to_owned(), json!(note));
    }
    let edits: Map<String, Value> = request
        .edits
        .into_iter()
        .map(|(call, arguments)| match arguments {
            Value::String(text) => (call, Value::String(text)),
            // The calls have their arguments as text.
            arguments => (call, Value::String(arguments.to_string())),
        })
        .collect();
    if !edits.is_empty() {
        payload.insert(EDITS.to_owned(), Value::Object(edits));
    }
    // A client states a name; the token is known.
    let name = match (request.decided_by, &caller.token) {
        (Some(name), Some(token)) => Some(format!("{name} (token {token})")),
        (name, token) => name.or_else(|| token.clone()),
    };
    if let Some(name) = name {
        payload.insert(DECIDED_BY.to_owned(), json!(name));
    }
    payload
}

/// Returns the turn that waits, or waited last, for a signal.
pub(crate) async fn find(api: &Api, caller: &Caller, signal: &str) -> Result<Suspension, Problem> {
    let filter = SuspensionFilter {
        signal_id: Some(signal.to_owned()),
        ..SuspensionFilter::default()
    };
    let mut own = Vec::new();
    for found in api.store().suspensions(filter).await? {
        if api.session(caller, &found.session).await.is_ok() {
            own.push(found);
        }
    }
    let waiting = own
        .iter()
        .position(|found| found.status == SuspensionStatus::Suspended);
    match waiting {
        Some(at) => Ok(own.swap_remove(at)),
        None => own.pop().ok_or_else(|| unknown_signal(signal)),
    }
}

/// Returns the problem of a signal that no turn of the caller waits for.
fn unknown_signal(signal: &str) -> Problem {
    let detail = format!("no turn waits for the signal `{signal}`");
    Problem::new(StatusCode::NOT_FOUND, "signal_not_found", detail)
}

fn shown(waiting: &Suspension) -> Value {
    let mut signal = visible_suspension(waiting);
    signal["session"] = json!(waiting.session);
    signal["invocation_id"] = json!(waiting.invocation_id);
    signal["status"] = json!(match waiting.status {
        SuspensionStatus::Suspended => "waiting",
        SuspensionStatus::Signalled => "decided",
        _ => "ended",
    });
    signal
}
