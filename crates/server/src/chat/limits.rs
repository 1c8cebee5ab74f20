//! Limits of clients: turns that run at once, and requests in a minute.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;
use tokio::time::Instant;

use super::access::Caller;
use super::problem::Problem;
use super::rate::RateLimit;

/// The seconds after which a client may try again when turns end.
const RETRY_SECONDS: u64 = 1;

/// Limits of the clients of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientLimits {
    /// The turns of one agent that run at once.
    pub agent_turns: usize,
    /// The limits of agents that have their own.
    pub own_agent_turns: BTreeMap<String, usize>,
    /// The turns of one token that run at once.
    ///
    /// Clients without a token have this limit for each address.
    pub token_turns: usize,
    /// The requests of one token in a minute.
    pub token_requests: u32,
    /// The requests of one address in a minute; `None` for any number.
    ///
    /// They are those of clients that need no token.
    pub address_requests: Option<u32>,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            agent_turns: 1_024,
            own_agent_turns: BTreeMap::new(),
            token_turns: 512,
            token_requests: 6_000,
            address_requests: None,
        }
    }
}

impl ClientLimits {
    /// Sets the turns of one agent, and those of agents with their own limits.
    #[must_use]
    pub fn with_agent_turns(mut self, turns: usize, own: BTreeMap<String, usize>) -> Self {
        self.agent_turns = turns;
        self.own_agent_turns = own;
        self
    }

    /// Sets the turns of one token.
    #[must_use]
    pub const fn with_token_turns(mut self, turns: usize) -> Self {
        self.token_turns = turns;
        self
    }

    /// Sets the requests in a minute, of tokens and of clients that need none.
    #[must_use]
    pub const fn with_requests(mut self, requests: u32) -> Self {
        self.token_requests = requests;
        self.address_requests = Some(requests);
        self
    }
}

/// The turns that clients run, by agent and by client.
pub(crate) struct TurnLimits {
    limits: ClientLimits,
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    agents: HashMap<String, usize>,
    clients: HashMap<String, usize>,
}

/// The right to run one turn, held until the turn has ended.
pub(crate) struct TurnPermit {
    turns: Arc<TurnLimits>,
    agent: String,
    client: String,
}

impl TurnLimits {
    pub(crate) fn new(limits: ClientLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            running: Mutex::default(),
        })
    }

    /// Permits a turn of a client.
    ///
    /// # Errors
    /// Returns a problem if the agent or the client runs as many turns as it may.
    pub(crate) fn permit(
        self: &Arc<Self>,
        caller: &Caller,
        agent: &str,
    ) -> Result<TurnPermit, Problem> {
        let client = caller.limit_key();
        let mut running = self.running();
        let most = self.limits.own_agent_turns.get(agent);
        let most = *most.unwrap_or(&self.limits.agent_turns);
        if running.agents.get(agent).is_some_and(|now| *now >= most) || most == 0 {
            let detail = format!("the agent `{agent}` runs {most} turns, which is its limit");
            return Err(limited(detail));
        }
        let most = self.limits.token_turns;
        if running.clients.get(&client).is_some_and(|now| *now >= most) || most == 0 {
            let detail = format!("the client runs {most} turns, which is its limit");
            return Err(limited(detail));
        }
        *running.agents.entry(agent.to_owned()).or_default() += 1;
        *running.clients.entry(client.clone()).or_default() += 1;
        Ok(TurnPermit {
            turns: Arc::clone(self),
            agent: agent.to_owned(),
            client,
        })
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TurnPermit {
    fn drop(&mut self) {
        let mut running = self.turns.running();
        less(&mut running.agents, &self.agent);
        less(&mut running.clients, &self.client);
    }
}

/// The permits of accepted turns.
///
/// A client that receives an outcome may start the next turn, so that a permit ends before a task
/// appends its outcome to the log.
#[derive(Default)]
pub(crate) struct HeldPermits(Mutex<Vec<(String, u64, TurnPermit)>>);

/// Ends the permit of an entry when it is dropped.
pub(crate) struct HeldPermit<'a> {
    permits: &'a HeldPermits,
    session: &'a str,
    entry: u64,
}

impl HeldPermits {
    /// Holds a permit until its entry has an outcome or the returned value ends.
    pub(crate) fn hold<'a>(
        &'a self,
        session: &'a str,
        entry: u64,
        permit: TurnPermit,
    ) -> HeldPermit<'a> {
        self.list().push((session.to_owned(), entry, permit));
        HeldPermit {
            permits: self,
            session,
            entry,
        }
    }

    /// Ends the permits of an entry.
    pub(crate) fn release(&self, session: &str, entry: u64) {
        self.list()
            .retain(|(own, number, _)| *number != entry || own != session);
    }

    fn list(&self) -> MutexGuard<'_, Vec<(String, u64, TurnPermit)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HeldPermit<'_> {
    fn drop(&mut self) {
        self.permits.release(self.session, self.entry);
    }
}

/// Counts one less.
///
/// A name without any is removed, which bounds the table by running turns.
fn less(counts: &mut HashMap<String, usize>, name: &str) {
    if let Some(count) = counts.get_mut(name) {
        *count -= 1;
        if *count == 0 {
            counts.remove(name);
        }
    }
}

fn limited(detail: String) -> Problem {
    let mut problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "turns_limited", detail)
        .with_help("nothing was stored: try again when a turn has ended");
    problem.retry_after = Some(RETRY_SECONDS);
    problem
}

/// The requests of clients in a minute.
pub(crate) struct RequestLimits {
    tokens: RateLimit,
    addresses: Option<RateLimit>,
}

impl RequestLimits {
    pub(crate) fn new(limits: &ClientLimits) -> Self {
        Self {
            tokens: RateLimit::per_minute(limits.token_requests),
            addresses: limits.address_requests.map(RateLimit::per_minute),
        }
    }

    /// Counts a request of a client.
    ///
    /// # Errors
    /// Returns a problem if the client has sent as many as it may.
    pub(crate) fn count(&self, caller: &Caller) -> Result<(), Problem> {
        let limit = match caller.token_hash {
            Some(_) => Some(&self.tokens),
            None => self.addresses.as_ref(),
        };
        let Some(limit) = limit else { return Ok(()) };
        let taken = limit.take(&caller.limit_key(), Instant::now());
        taken.map_err(|wait| too_many(wait, "the client sends too many requests"))
    }
}

/// Returns the problem of a client that must wait for some seconds.
pub(crate) fn too_many(wait: u64, detail: &str) -> Problem {
    let status = StatusCode::TOO_MANY_REQUESTS;
    let mut problem = Problem::new(status, "rate_limited", detail);
    problem.retry_after = Some(wait);
    problem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_counts_until_it_is_dropped() {
        let own = [("small".to_owned(), 1)].into();
        let limits = ClientLimits::default()
            .with_agent_turns(3, own)
            .with_token_turns(2);
        let turns = TurnLimits::new(limits);
        let caller = Caller::local();
        let code = |agent: &str| match turns.permit(&caller, agent) {
            Ok(_) => String::new(),
            Err(problem) => problem.detail,
        };
        let first = turns.permit(&caller, "small").ok();
        assert!(first.is_some());
        assert!(
            code("small").contains("`small` runs 1"),
            "{}",
            code("small")
        );
        let second = turns.permit(&caller, "large").ok();
        assert!(code("large").contains("client runs 2"), "{}", code("large"));
        drop(first);
        assert_eq!(code("small"), "");
        drop(second);
        assert!(turns.running().agents.is_empty());
        assert!(turns.running().clients.is_empty());
    }
}
