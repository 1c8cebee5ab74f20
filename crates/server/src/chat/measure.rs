//! Measures of turns and streams.

use std::sync::{Arc, Mutex, PoisonError};

use logue_agent::TurnEvent;
use logue_graph::RunEvent;
use logue_harness::chat::{ChatEvent, ChatTurnOutcome, wake_time};
use logue_harness::store::{Store, StoreError, SuspensionFilter, SuspensionStatus};
use logue_message::ChatMessage;
use tokio::time::Instant;

use super::turn_span::TurnSpan;

use crate::metrics::Registry;
use crate::metrics::families::{
    APPROVALS_WAITING, EVENT_STREAMS_OPEN, FIRST_DELTA_SECONDS, LISTEN_UP, OF_AGENTS, TOKENS,
    TURN_SECONDS, TURNS, TURNS_RUNNING,
};

/// The measures of a server of agents.
pub(crate) struct Measures {
    registry: Arc<Registry>,
    /// The number of turns that wait for a decision, at a version of the store.
    waiting: Mutex<Option<(u64, usize)>>,
}

impl Default for Measures {
    fn default() -> Self {
        Self {
            registry: Arc::new(Registry::new(OF_AGENTS)),
            waiting: Mutex::default(),
        }
    }
}

impl Measures {
    /// Returns the registry of all metrics.
    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Returns all metrics as text.
    ///
    /// While the store cannot be read, the number of approvals is the last known one.
    pub(crate) async fn to_text(&self, store: &dyn Store, running: usize) -> String {
        if let Ok(waiting) = self.approvals(store).await {
            self.registry.set(&APPROVALS_WAITING, waiting);
        }
        self.registry.set(&TURNS_RUNNING, running);
        self.registry.to_text()
    }

    /// Notes whether notifications of other nodes arrive.
    pub(crate) fn set_listening(&self, is_up: bool) {
        self.registry.set(&LISTEN_UP, usize::from(is_up));
    }

    /// Counts the turns that wait for a decision, once for each version of the store.
    async fn approvals(&self, store: &dyn Store) -> Result<usize, StoreError> {
        let version = store.version().await?;
        let known = *self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(version), Some((counted, count))) = (version, known)
            && version == counted
        {
            return Ok(count);
        }
        let filter = SuspensionFilter {
            status: Some(SuspensionStatus::Suspended),
            is_usable: true,
            ..SuspensionFilter::default()
        };
        let waiting = store.suspensions(filter).await?;
        // A timer waits for a time.
        let waiting = waiting.iter().filter(|one| wake_time(one).is_none());
        let count = waiting.count();
        let mut known = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        *known = version.map(|version| (version, count));
        Ok(count)
    }
}

/// An open reader of events.
pub(crate) struct OpenStream(Arc<Measures>);

impl OpenStream {
    pub(crate) fn new(measures: &Arc<Measures>) -> Self {
        measures.registry.change(&EVENT_STREAMS_OPEN, 1);
        Self(Arc::clone(measures))
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.registry.change(&EVENT_STREAMS_OPEN, -1);
    }
}

/// The measures of one turn.
pub(crate) struct TurnMeter {
    measures: Arc<Measures>,
    agent: String,
    span: TurnSpan,
    requested: Instant,
    /// The status of the model server's answer that failed the turn.
    status: Option<u16>,
    /// Whether the turn is this server's, and no repetition of an earlier one.
    has_begun: bool,
    has_text: bool,
    has_ended: bool,
}

impl TurnMeter {
    /// Creates the measures of a turn that is requested now.
    pub(crate) fn new(measures: &Arc<Measures>, agent: &str, span: TurnSpan) -> Self {
        Self {
            measures: Arc::clone(measures),
            agent: agent.to_owned(),
            span,
            requested: Instant::now(),
            status: None,
            has_begun: false,
            has_text: false,
            has_ended: false,
        }
    }

    /// Creates the measures of a turn that cannot be a repetition.
    pub(crate) fn of_begun(
        measures: &Arc<Measures>,
        agent: &str,
        span: TurnSpan,
        message: &ChatMessage,
    ) -> Self {
        let mut meter = Self::new(measures, agent, span);
        meter.begin(Some(message));
        meter
    }

    /// Counts the turn, which a message begins, as one of this server.
    pub(crate) fn begin(&mut self, message: Option<&ChatMessage>) {
        self.has_begun = true;
        self.span.begun(message);
    }

    /// Returns the span of the turn.
    pub(crate) fn span(&self) -> &TurnSpan {
        &self.span
    }

    /// Measures an event of the turn.
    pub(crate) fn event(&mut self, event: &ChatEvent<TurnEvent>) {
        match event {
            ChatEvent::Run {
                event: RunEvent::Emitted(event),
                ..
            } => self.turn_event(event),
            ChatEvent::Outcome(outcome) => {
                self.span.ended(outcome);
                if let ChatTurnOutcome::Errored(turn) = &**outcome
                    && self.has_begun
                    && !self.has_ended
                {
                    self.span.failed(&self.agent, self.status, turn);
                }
                self.end(match **outcome {
                    ChatTurnOutcome::Completed(_) => "completed",
                    ChatTurnOutcome::Suspended(_) => "suspended",
                    ChatTurnOutcome::Errored(_) => "errored",
                });
            }
            _ => {}
        }
    }

    fn turn_event(&mut self, event: &TurnEvent) {
        match event {
            TurnEvent::Delta(_) if !self.has_text => {
                self.has_text = true;
                let waited = self.requested.elapsed().as_secs_f64();
                let registry = &self.measures.registry;
                registry.observe(&FIRST_DELTA_SECONDS, &[&self.agent], waited);
            }
            TurnEvent::Answered {
                model,
                usage: Some(usage),
            } => {
                for (kind, count) in usage.by_kind() {
                    let labels = [&*self.agent, model, kind];
                    self.measures.registry.add(&TOKENS, &labels, count);
                }
            }
            TurnEvent::RequestFailed { status } => self.status = *status,
            // The text of an agent is not shown, and its failure is not that of the turn.
            TurnEvent::OfAgent { event, .. }
                if !matches!(
                    **event,
                    TurnEvent::Delta(_) | TurnEvent::RequestFailed { .. }
                ) =>
            {
                self.turn_event(event);
            }
            _ => {}
        }
    }

    fn end(&mut self, outcome: &str) {
        if !self.has_begun || std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        let registry = &self.measures.registry;
        registry.add(&TURNS, &[&self.agent, outcome], 1);
        let seconds = self.requested.elapsed().as_secs_f64();
        registry.observe(&TURN_SECONDS, &[&self.agent], seconds);
    }
}

impl Drop for TurnMeter {
    fn drop(&mut self) {
        // The client of a turn that is not stored has left, or the server ends.
        self.end("cut");
    }
}
