//! Decisions about calls that wait for a person, as items of an input.

use logue_agent::{APPROVAL, DECIDED_BY, NOTE};
use logue_harness::chat::SignalTarget;
use serde_json::{Map, Value, json};

use super::input::CallDecision;
use crate::chat::access::{Caller, TokenScope};
use crate::chat::api::{Api, require};
use crate::chat::problem::Problem;
use crate::chat::signals::{decision_permit, find};
use crate::chat::turns::{RunningTurn, TurnOrigin};
use crate::chat::visible::visible_signal;

/// Decides about calls, and continues their turn. Returns the session with the turn.
///
/// # Errors
/// Returns a problem if the caller may not decide, or the decisions do not fit the calls.
pub(super) async fn decide(
    api: &Api,
    caller: &Caller,
    session: Option<&str>,
    decisions: &[CallDecision],
) -> Result<(String, RunningTurn), Problem> {
    require(caller, TokenScope::Approve)?;
    let Some(first) = decisions.first() else {
        return Err(Problem::invalid("`input` has no decision"));
    };
    let signal = &first.id.signal;
    if decisions.iter().any(|other| other.id.signal != *signal) {
        return Err(Problem::invalid(
            "the decisions of one request must be about one response",
        ));
    }
    let waiting = find(api, caller, signal).await?;
    if session.is_some_and(|session| session != waiting.session) {
        return Err(Problem::invalid(
            "the decisions are about another conversation",
        ));
    }
    let shown = visible_signal(signal, waiting.metadata.as_ref());
    let calls = shown["calls"].as_array().into_iter().flatten();
    for call in calls {
        let id = call["id"].as_str().unwrap_or_default();
        if !decisions.iter().any(|decision| decision.id.call == id) {
            let name = call["name"].as_str().unwrap_or_default();
            let detail = format!("no decision about the call of `{name}`");
            return Err(Problem::invalid(detail)
                .with_help("answer each `mcp_approval_request` of the response"));
        }
    }
    let payload = payload(decisions, caller);
    let session = waiting.session.clone();
    let (_, agent) = api.session(caller, &session).await?;
    let permit = decision_permit(api, caller, &agent, &waiting)?;
    let chat = api.turns.host.resumed_chat(&session, &waiting).await?;
    let target = SignalTarget::Signal(&waiting.signal_id);
    let stream = chat.chat.signal_streaming(target, payload).await?;
    let origin = TurnOrigin::default().with_permit(permit);
    let turn = api.turns.start(&session, chat, origin, |_| stream);
    let turn = turn.await?;
    Ok((session, turn))
}

fn payload(decisions: &[CallDecision], caller: &Caller) -> Map<String, Value> {
    let mut calls = Map::new();
    let mut reasons: Vec<&str> = Vec::new();
    for decision in decisions {
        let word = if decision.is_approved {
            "approve"
        } else {
            "deny"
        };
        calls.insert(decision.id.call.clone(), json!(word));
        if let Some(reason) = &decision.reason
            && !reasons.contains(&reason.as_str())
        {
            reasons.push(reason);
        }
    }
    let mut payload = Map::new();
    payload.insert(APPROVAL.to_owned(), Value::Object(calls));
    if !reasons.is_empty() {
        payload.insert(NOTE.to_owned(), json!(reasons.join("\n")));
    }
    if let Some(name) = &caller.token {
        payload.insert(DECIDED_BY.to_owned(), json!(name));
    }
    payload
}
