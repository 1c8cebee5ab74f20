//! The first agent of a session: of a new one, and of one that exists without, such as a conversation.

use std::path::Path;

use logue_harness::store::SessionInfo;
use logue_server::ChatHost as _;

use super::agents::ServedAgents;
use crate::exit::CliError;
use crate::setup::session_agent::{AGENT, Agent};
use crate::setup::session_labels::{SessionLabels, replaced};
use crate::setup::store::store_failure;

/// Stores the agent of a session, unless another request was quicker.
///
/// Returns the labels of the session, which is read if it is new, and whether this request gave it the
/// agent. The store orders requests that name different agents at the same time, on one or several
/// servers.
///
/// # Errors
/// Returns an error with the code `agent_differs` if the session has another agent by now, and one
/// with `session_write_conflict` if the session was removed meanwhile, or one of the store.
pub(super) async fn remember<'a>(
    served: &'a ServedAgents,
    agent: &Agent,
    (session, known): (&'a str, Option<&SessionInfo>),
    name: &str,
) -> Result<(SessionLabels<'a>, bool), CliError> {
    let store = served.store();
    let mut labels = SessionLabels::new(store, session, known);
    let earlier = agent.remember_first(&labels).await?;
    let own = earlier.as_ref().map(|label| {
        let file = label.as_str().map(Path::new);
        file.and_then(|file| served.agent_of_file(file))
    });
    let begins = match own {
        Some(own) if own.as_deref() != Some(name) => return Err(differs(session)),
        own => own.is_none(),
    };
    let label = earlier.or_else(|| agent.own_label());
    if known.is_none() {
        let created = store.session(session).await;
        let created = created.map_err(|error| store_failure(&error))?;
        let created = created.filter(|info| info.labels.get(AGENT) == label.as_ref());
        let created = created.ok_or_else(|| replaced(session))?;
        labels = SessionLabels::new(store, session, Some(&created));
    }
    if label == agent.own_label() {
        agent.remember_others(&labels).await?;
    }
    Ok((labels, begins))
}

fn differs(session: &str) -> CliError {
    let message = format!("session `{session}` belongs to another agent");
    CliError::user("agent_differs", message)
        .with_help("name the agent of the session, or begin another one")
}
