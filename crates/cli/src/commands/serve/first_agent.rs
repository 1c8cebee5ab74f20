//! The first agent of a session: of a new one, and of one that exists without, such as a conversation.

use std::time::Duration;

use logue_harness::store::{LeaseResult, SessionInfo};
use logue_harness::{Clock as _, SystemClock};
use logue_server::{ChatHost as _, OPENED_BY};
use serde_json::json;

use super::agents::ServedAgents;
use crate::exit::{CliError, Exit};
use crate::setup::session_agent::{AGENT, Agent};
use crate::setup::store::{new_id, store_failure};

/// The lease under which an agent is stored.
const LEASE: Duration = Duration::from_secs(10);
/// The pause between two attempts to get it.
const PAUSE: Duration = Duration::from_millis(50);
/// The most attempts, which outlast a lease.
const ATTEMPTS: usize = 300;

/// Stores the agent of a session, unless another request was quicker.
///
/// The lease of the session orders requests that name different agents at the same time, on one or
/// several servers.
///
/// # Errors
/// Returns an error with the code `agent_differs` if the session has another agent by now, or one of
/// the store.
pub(super) async fn remember(
    served: &ServedAgents,
    agent: &Agent,
    (session, known): (&str, Option<&SessionInfo>),
    name: &str,
) -> Result<(), CliError> {
    let (store, owner) = (served.store(), new_id());
    match known {
        None => {
            // Only a session that exists has a lease.
            let now = SystemClock.now();
            let made = store.set_label(session, OPENED_BY, json!("serve"), now);
            made.await.map_err(|error| store_failure(&error))?;
        }
        Some(info) if info.labels.contains_key(AGENT) => {
            return match served.agent_of(info) {
                Some(own) if own != name => Err(differs(session)),
                _ => agent.remember(session, store).await,
            };
        }
        Some(_) => {}
    }
    for _ in 0..ATTEMPTS {
        let taken = store.acquire(session, &owner, SystemClock.now(), LEASE);
        let taken = taken.await.map_err(|error| store_failure(&error))?;
        let known = served.session(session).await?;
        let is_assigned = known
            .as_ref()
            .is_some_and(|info| info.labels.contains_key(AGENT));
        let own = known.and_then(|info| served.agent_of(&info));
        let is_other = is_assigned && own.as_deref() != Some(name);
        let result = match &taken {
            _ if is_other => Err(differs(session)),
            // The owner of the lease may be about to store its agent.
            LeaseResult::Held { .. } if !is_assigned => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            _ => agent.remember(session, store).await,
        };
        if let LeaseResult::Lease(lease) = &taken {
            let released = store.release(lease).await;
            released.map_err(|error| store_failure(&error))?;
        }
        return result;
    }
    let message = format!("another server uses session `{session}`");
    Err(CliError::new(Exit::Retryable, "store_unavailable", message))
}

fn differs(session: &str) -> CliError {
    let message = format!("session `{session}` belongs to another agent");
    CliError::user("agent_differs", message)
        .with_help("name the agent of the session, or begin another one")
}
