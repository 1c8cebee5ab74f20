//! The state of the routes, with their sessions, permissions and bodies.

use std::sync::Arc;

use axum::body::Bytes;
use logue_harness::chat::ChatTurnOutcome;
use logue_harness::store::{SessionInfo, SharedStore, StoreError};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::access::{Caller, TokenScope};
use super::completions::{AnswerPart, HistoryIndex};
use super::drain::has_ended;
use super::host::{SessionChat, TurnAgent};
use super::kept_answers::KeptAnswers;
use super::limits::TurnLimits;
use super::parameters::TurnParameters;
use super::problem::Problem;
use super::readiness::Readiness;
use super::turns::{RunningTurn, Turns};

/// The code of a session whose agent is not the requested one.
pub(crate) const AGENT_DIFFERS: &str = "agent_differs";

/// The state of the routes.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) turns: Arc<Turns>,
    pub(crate) limits: Arc<TurnLimits>,
    /// The histories that requests without a session continue; `None` if they are stateless.
    pub(crate) histories: Option<Arc<HistoryIndex>>,
    /// The last answer of the store.
    pub(crate) readiness: Arc<Readiness>,
    /// The answers of stateless requests with an idempotency key.
    pub(crate) kept_answers: Arc<KeptAnswers<AnswerPart>>,
    /// Becomes true when the server begins no more turns.
    pub(crate) draining: watch::Receiver<bool>,
    /// Becomes true at the end of the server.
    pub(crate) shutdown: watch::Receiver<bool>,
    /// Whether the server has a debug view.
    pub(crate) has_debug_view: bool,
}

impl Api {
    /// Removes a session with its events.
    ///
    /// # Errors
    /// Returns an error if another store continues the session, or the log or the store fails.
    pub(crate) async fn remove_session(&self, session: &str) -> Result<(), StoreError> {
        if let Some(location) = self.store().location(session).await? {
            location.check(session)?;
        }
        // The events are removed first: without its session, a later one of the name would have them.
        self.turns.hub.remove(session).await?;
        self.store().delete(session).await?;
        // A reader may have begun the log anew meanwhile.
        self.turns.hub.remove(session).await?;
        Ok(())
    }

    /// Waits for the outcome of a turn; `None` if the server ends before it.
    pub(crate) async fn outcome(&self, turn: RunningTurn) -> Option<ChatTurnOutcome> {
        let mut shutdown = self.shutdown.clone();
        tokio::select! {
            biased;
            outcome = turn.outcome() => outcome,
            () = has_ended(&mut shutdown) => None,
        }
    }

    /// Prepares a turn of a session.
    ///
    /// A request that another one precedes at a new session has the answer of a later request: the
    /// session of an agent that the caller may not use is missing, and another agent differs.
    pub(crate) async fn chat(
        &self,
        caller: &Caller,
        session: &str,
        agent: TurnAgent<'_>,
        parameters: TurnParameters,
    ) -> Result<SessionChat, Problem> {
        let is_first = matches!(agent, TurnAgent::First { .. });
        match self.turns.host.chat_with(session, agent, parameters).await {
            Err(error) if is_first && error.category == AGENT_DIFFERS => {
                self.session(caller, session).await?;
                Err(error.into())
            }
            chat => Ok(chat?),
        }
    }

    pub(crate) fn store(&self) -> &SharedStore {
        self.turns.host.store()
    }

    /// Returns a session of this server that the caller may use, with its agent.
    ///
    /// A session of others is reported as missing.
    pub(crate) async fn session(
        &self,
        caller: &Caller,
        session: &str,
    ) -> Result<(SessionInfo, String), Problem> {
        self.known_session(caller, session)
            .await?
            .ok_or_else(|| Problem::unknown_session(session))
    }

    /// Returns a session like [`session`](Self::session); `None` if the id is free.
    pub(crate) async fn known_session(
        &self,
        caller: &Caller,
        session: &str,
    ) -> Result<Option<(SessionInfo, String)>, Problem> {
        let Some(info) = self.store().session(session).await? else {
            return Ok(None);
        };
        let agent = self.turns.host.agent_of(&info);
        match agent.filter(|agent| caller.may_use(agent)) {
            Some(agent) => Ok(Some((info, agent))),
            None => Err(Problem::unknown_session(session)),
        }
    }
}

/// Refuses a session that another store continues.
pub(crate) fn require_here(info: &SessionInfo) -> Result<(), StoreError> {
    let location = info.elsewhere.clone();
    location.map_or(Ok(()), |location| location.check(&info.session))
}

/// Refuses a caller without a permission.
pub(crate) fn require(caller: &Caller, scope: TokenScope) -> Result<(), Problem> {
    if caller.has(scope) {
        return Ok(());
    }
    Err(Problem::scope_missing(scope))
}

/// Parses the JSON body of a request; an empty one is `{}`.
pub(crate) fn body<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, Problem> {
    let bytes: &[u8] = if bytes.is_empty() { b"{}" } else { bytes };
    // A list would be read as the fields in their order.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(Problem::invalid("the request body must be a JSON object"));
    }
    serde_json::from_slice(bytes)
        .map_err(|error| Problem::invalid(format!("invalid request body: {error}")))
}
