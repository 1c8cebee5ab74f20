//! The agents of the server, and its condition.

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::{Extension, Json};
use logue_harness::events::ListenState;
use serde_json::{Value, json};

use super::access::{Caller, TokenScope};
use super::api::{Api, require};
use super::host::AgentInfo;
use super::problem::Problem;
use crate::metrics::MEDIA_TYPE;

/// `GET /v1/agents`
pub(crate) async fn list(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Value>, Problem> {
    require(&caller, TokenScope::Read)?;
    let agents = api.turns.host.agents().into_iter();
    let agents = agents.filter(|agent| caller.may_use(&agent.name));
    let agents: Vec<Value> = agents
        .map(|agent| shown(&agent, caller.has(TokenScope::Debug)))
        .collect();
    Ok(Json(json!({ "agents": agents })))
}

/// Returns an agent with its state. The report of an error may quote the prompt.
fn shown(agent: &AgentInfo, is_debug: bool) -> Value {
    let mut shown = json!({"name": agent.name, "title": agent.title, "state": "ready"});
    if let Some(fault) = &agent.fault {
        let (state, message) = if fault.serves_earlier {
            (
                "outdated",
                "the prompt has errors; its earlier version answers",
            )
        } else {
            (
                "broken",
                "the prompt has errors, and no earlier version answers",
            )
        };
        shown["state"] = json!(state);
        shown["error"] = json!({"code": fault.error.category, "message": message});
        if is_debug {
            shown["error"]["report"] = json!(fault.error.message);
        }
    }
    shown
}

/// `GET /healthz`: the process answers.
pub(crate) async fn health() -> &'static str {
    "ok\n"
}

/// `GET /readyz`: the store answers, and the server begins turns.
///
/// A server without notifications of other nodes is ready, and says so.
pub(crate) async fn ready(State(api): State<Api>) -> Result<String, Problem> {
    if *api.draining.borrow() {
        return Err(Problem::server_draining());
    }
    api.readiness.check(api.store()).await?;
    let mut text = "ready\n".to_owned();
    if let Some(ListenState::Down(_)) = api.turns.hub.log().listening() {
        text.push_str("no notifications: changes of other nodes are found by polling\n");
    }
    Ok(text)
}

/// `GET /metrics` in the text format of Prometheus.
pub(crate) async fn metrics(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
) -> Result<impl IntoResponse, Problem> {
    require(&caller, TokenScope::Read)?;
    let text = api.turns.metrics().await;
    let lines = text.split_inclusive('\n');
    let own = lines.filter(|line| agent_of(line).is_none_or(|agent| caller.may_use(&agent)));
    let own: String = own.collect();
    Ok(([(header::CONTENT_TYPE, MEDIA_TYPE)], own))
}

/// Returns the agent that a line of metrics names in its labels.
fn agent_of(line: &str) -> Option<String> {
    const LABEL: &str = "agent=\"";
    let labels = line.split_once('{')?.1;
    let (before, rest) = labels.split_once(LABEL)?;
    if !(before.is_empty() || before.ends_with(',')) {
        return None;
    }
    let mut name = String::new();
    let mut characters = rest.chars();
    loop {
        match characters.next()? {
            '"' => return Some(name),
            '\\' => match characters.next()? {
                'n' => name.push('\n'),
                character => name.push(character),
            },
            character => name.push(character),
        }
    }
}
