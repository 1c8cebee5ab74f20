//! The first agent of a session: of a new one, and of one that exists without, such as a conversation.

use std::path::Path;

use logue_server::ChatHost as _;

use super::agents::ServedAgents;
use crate::exit::CliError;
use crate::setup::session_agent::Agent;

/// Stores the agent of a session, unless another request was quicker. Returns whether it did.
///
/// The store orders requests that name different agents at the same time, on one or several servers.
///
/// # Errors
/// Returns an error with the code `agent_differs` if the session has another agent by now, or one of
/// the store.
pub(super) async fn remember(
    served: &ServedAgents,
    agent: &Agent,
    session: &str,
    name: &str,
) -> Result<bool, CliError> {
    let store = served.store();
    let earlier = agent.remember_first(session, store).await?;
    let own = earlier.as_ref().map(|label| {
        let file = label.as_str().map(Path::new);
        file.and_then(|file| served.agent_of_file(file))
    });
    match own {
        Some(own) if own.as_deref() != Some(name) => Err(differs(session)),
        own => Ok(own.is_none()),
    }
}

fn differs(session: &str) -> CliError {
    let message = format!("session `{session}` belongs to another agent");
    CliError::user("agent_differs", message)
        .with_help("name the agent of the session, or begin another one")
}
