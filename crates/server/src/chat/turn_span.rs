//! The span of a turn, with its parent and its links.

use std::sync::Arc;

use logue_agent::AgentSpan;
use logue_harness::Clock;
use logue_harness::chat::{ChatTurnOutcome, ErroredTurn};
use logue_harness::store::{Store, StoreError};
use logue_message::ChatMessage;
use serde_json::{Map, Value, json};
use tracing::Span;

use super::host::{ChatHost, TurnFailure};
use super::trace_context::{TraceContext, TraceContexts, current_trace};
use super::visible::visible_message;

/// The label with the spans of suspended turns, by the ids of their invocations.
const TRACES: &str = "traces";

/// The span of a turn.
pub(crate) struct TurnSpan {
    host: Arc<dyn ChatHost>,
    span: AgentSpan,
    /// The session; `None` if nothing is kept of the turn.
    session: Option<String>,
}

impl TurnSpan {
    /// Opens the span of a turn, whose parent is that of the current request.
    pub(crate) fn new(host: &Arc<dyn ChatHost>, agent: &str, session: Option<&str>) -> Self {
        let span = AgentSpan::new(agent, session);
        if let (Some(traces), Some(parent)) = (host.traces(), current_trace()) {
            traces.set_parent(span.as_span(), &parent);
        }
        Self {
            host: Arc::clone(host),
            span,
            session: session.map(str::to_owned),
        }
    }

    /// Returns the span, in which the turn has to run.
    pub(crate) fn as_span(&self) -> &Span {
        self.span.as_span()
    }

    /// Records the message that begins the turn, if content is captured.
    pub(crate) fn begun(&self, message: Option<&ChatMessage>) {
        if self.captures_content() {
            let visible = message.and_then(visible_message);
            self.span.record_input(visible.iter());
        }
    }

    /// Records the outcome.
    pub(crate) fn ended(&self, outcome: &ChatTurnOutcome) {
        self.span.ended(outcome);
        if self.captures_content() {
            let visible = outcome.messages().iter().filter_map(visible_message);
            let visible: Vec<ChatMessage> = visible.collect();
            self.span.record_output(&visible);
        }
    }

    /// Reports a failed turn of an agent.
    pub(crate) fn failed(&self, agent: &str, status: Option<u16>, turn: &ErroredTurn) {
        // A cancelled turn has not failed.
        if turn.error_category != "turn_cancelled" {
            self.host.turn_failed(&TurnFailure {
                code: &turn.error_category,
                agent,
                session: self.session.as_deref(),
                status,
            });
        }
    }

    fn captures_content(&self) -> bool {
        self.host
            .traces()
            .is_some_and(TraceContexts::captures_content)
    }

    /// Links a resumed turn to the span of its suspension, and records a suspended turn.
    ///
    /// # Errors
    /// Returns an error if the store fails; the span then has no link.
    pub(crate) async fn link(
        &self,
        clock: &dyn Clock,
        session: &str,
        outcome: &ChatTurnOutcome,
    ) -> Result<(), StoreError> {
        let (Some(traces), Some(id)) = (self.host.traces(), invocation_id(outcome)) else {
            return Ok(());
        };
        let store: &dyn Store = &**self.host.store();
        let Some(mut info) = store.session(session).await? else {
            return Ok(());
        };
        let mut kept = match info.labels.remove(TRACES) {
            Some(Value::Object(kept)) => kept,
            _ => Map::new(),
        };
        let earlier = kept.remove(id);
        let is_resumed = earlier.is_some();
        if let Some(Value::String(earlier)) = earlier {
            traces.add_link(self.as_span(), &TraceContext::new(earlier));
        }
        let own = match outcome {
            ChatTurnOutcome::Suspended(_) => traces.context_of(self.as_span()),
            _ => None,
        };
        if let Some(own) = &own {
            kept.insert(id.to_owned(), json!(own.traceparent));
        }
        if own.is_some() || is_resumed {
            let label = Value::Object(kept);
            store.set_label(session, TRACES, label, clock.now()).await?;
        }
        Ok(())
    }
}

/// Returns the id of the run of a turn; a refused turn has none.
fn invocation_id(outcome: &ChatTurnOutcome) -> Option<&str> {
    match outcome {
        ChatTurnOutcome::Completed(turn) => Some(&turn.invocation_id),
        ChatTurnOutcome::Suspended(turn) => Some(&turn.invocation_id),
        ChatTurnOutcome::Errored(turn) => turn.invocation_id.as_deref(),
    }
}
