//! An AG-UI 1.0 endpoint for each agent.
//!
//! A thread is a session and a run is one of its turns. The log of the session is the source of the
//! events, so that a run is replayed as it was, whatever server it was on.

mod claim;
mod events;
mod input;
mod interrupts;
mod messages;
mod run;
mod stream;
mod thread;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use self::input::{RunInput, RunPurpose};
use super::access::{Caller, TokenScope};
use super::api::{Api, require};
use super::extract::PathOf;
use super::problem::Problem;
use super::send::unknown_agent;
use super::session_id::check_new_session;

/// `POST /v1/ag-ui/{agent}`: runs the agent in a thread, resumes it, or shows the thread.
///
/// A request that is refused before its run has a status. Later errors are events of the run.
pub(crate) async fn run(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    PathOf(agent): PathOf<String>,
    bytes: Bytes,
) -> Result<Response, Problem> {
    let input = RunInput::parse(&bytes)?;
    require(
        &caller,
        match input.purpose {
            RunPurpose::Message(_) => TokenScope::Send,
            RunPurpose::Resume(_) => TokenScope::Approve,
            RunPurpose::Connect => TokenScope::Read,
        },
    )?;
    let agents = api.turns.host.agents();
    let is_known = agents.iter().any(|known| known.name == agent);
    if !is_known || !caller.may_use(&agent) {
        return Err(unknown_agent(&api, &caller, &agent));
    }
    let known = match api.known_session(&caller, &input.thread).await? {
        None => {
            check_new_session(&input.thread)?;
            None
        }
        Some((_, own)) if own != agent => {
            let detail = format!("thread `{}` belongs to the agent `{own}`", input.thread);
            return Err(Problem::new(StatusCode::CONFLICT, "agent_differs", detail));
        }
        Some((info, _)) => Some(info),
    };
    Ok(run::start(api, caller, agent, known, input))
}
