//! The answers of sessions' turns, which continue when their clients leave.

use logue_agent::TurnReport;
use logue_harness::chat::ChatTurnOutcome;
use serde_json::Value;
use tokio::sync::mpsc;

use super::answer::{AnswerStream, end_of};
use super::parts::{AnswerEnd, Part, add};
use crate::chat::api::Api;
use crate::chat::parameters::TurnParameters;
use crate::chat::problem::Problem;
use crate::chat::sse::{EventId, EventReader, EventScope};
use crate::chat::turns::RunningTurn;

/// The parts of an answer that its client has not received.
#[derive(Default)]
struct Unsent {
    parts: Vec<Part>,
    /// Whether the client has received a text.
    has_sent: bool,
    /// Whether the end alone has the remaining text.
    has_lost: bool,
}

/// The events of a turn that its client receives.
#[derive(Clone, Copy)]
pub(super) struct AnswerEvents {
    /// The last event before them.
    pub(super) after: EventId,
    /// The number of the last event of an earlier delivery of the request.
    pub(super) logged: u64,
}

/// The answer of a turn of a session.
struct SessionAnswer {
    api: Api,
    session: String,
    parameters: TurnParameters,
    parts: mpsc::Sender<Part>,
}

impl AnswerStream {
    /// Returns the answer of a session's turn.
    ///
    /// Without events, the answer has no pieces.
    pub(super) fn of_session(
        api: &Api,
        session: &str,
        (turn, events): (RunningTurn, Option<AnswerEvents>),
        parameters: TurnParameters,
    ) -> Self {
        let (sender, parts) = mpsc::channel(64);
        let answer = SessionAnswer {
            api: api.clone(),
            session: session.to_owned(),
            parameters,
            parts: sender,
        };
        tokio::spawn(async move {
            // The client may be gone.
            let _ = answer.send(turn, events).await;
        });
        Self::of_parts(parts)
    }
}

impl Unsent {
    /// Adds the part of an event of the turn.
    fn event(&mut self, event: &Value, is_structured: bool) {
        let part = match event.get("type").and_then(Value::as_str) {
            // Text before a call is not part of a structured answer.
            Some("answer.delta") if !is_structured => {
                let text = event.get("text").and_then(Value::as_str);
                Part::Text(text.unwrap_or_default().to_owned())
            }
            Some("answer.completed") => Part::Complete,
            // The text of an answer without an end is not part of the history.
            Some("answer.started" | "answer.withdrawn" | "turn.recovered") => Part::Withdrawn,
            // Events between are missing.
            Some("reset") => {
                self.has_lost = true;
                return;
            }
            Some("turn.completed" | "turn.suspended" | "turn.failed") => {
                // The outcome contains the text of the history.
                self.has_lost |= !self.has_sent;
                return;
            }
            _ => return,
        };
        add(&mut self.parts, part);
    }

    /// Returns the parts to send now.
    ///
    /// While `may_withdraw` is set, the text of an answer without an end remains.
    fn take(&mut self, may_withdraw: bool) -> Vec<Part> {
        if self.has_lost {
            self.parts.clear();
        }
        let is_complete = |part: &Part| matches!(part, Part::Complete);
        let end = if may_withdraw {
            let last = self.parts.iter().rposition(is_complete);
            last.map_or(0, |last| last + 1)
        } else {
            self.parts.len()
        };
        let taken: Vec<Part> = self.parts.drain(..end).collect();
        self.has_sent |= taken.iter().any(|part| matches!(part, Part::Text(_)));
        taken
    }
}

impl SessionAnswer {
    /// Sends the parts of the answer. Returns `None` if the client left.
    async fn send(self, turn: RunningTurn, events: Option<AnswerEvents>) -> Option<()> {
        let entry = turn.entry;
        if let Some((entry, events)) = entry.zip(events) {
            self.send_texts(entry, events).await?;
        }
        let end = match self.api.outcome(turn).await {
            Some(outcome) => self.end_of(&outcome, entry).await,
            None => Err(Problem::server_ends()),
        };
        self.parts.send(Part::End(end)).await.ok()
    }

    async fn send_texts(&self, entry: u64, events: AnswerEvents) -> Option<()> {
        let turns = &self.api.turns;
        let AnswerEvents { after, logged } = events;
        let shutdown = self.api.shutdown.clone();
        let scope = EventScope::Turn(entry);
        let mut reader = EventReader::new(turns.clone(), &self.session, after, scope, shutdown);
        let is_structured = self.parameters.is_structured();
        let mut unsent = Unsent::default();
        while let Some(events) = reader.next_texts().await {
            for event in &events {
                unsent.event(event, is_structured);
            }
            // If a process ended within an answer, the next event of the turn withdraws its text.
            for part in unsent.take(reader.last() <= logged) {
                self.parts.send(part).await.ok()?;
            }
        }
        Some(())
    }

    /// Returns the end of the answer, with the stored usage of its turn.
    async fn end_of(
        &self,
        outcome: &ChatTurnOutcome,
        entry: Option<u64>,
    ) -> Result<AnswerEnd, Problem> {
        let mut end = end_of(outcome, &self.parameters)?;
        let Some(entry) = entry.filter(|_| end.usage.is_none()) else {
            return Ok(end);
        };
        let store = self.api.store();
        if let Some(stored) = store.outcome_of(&self.session, entry).await? {
            let info = store.session(&self.session).await?;
            let fields = info.map(|info| info.fields).unwrap_or_default();
            end.report(&TurnReport::from_outcome(&stored, &fields));
        }
        Ok(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn texts(parts: &[Part]) -> Vec<&str> {
        let texts = parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    #[test]
    fn a_text_that_may_be_withdrawn_is_not_sent() {
        let mut unsent = Unsent::default();
        let add = |unsent: &mut Unsent, kind: &str, text: &str| {
            unsent.event(&json!({"type": kind, "text": text}), false);
        };
        add(&mut unsent, "answer.delta", "one");
        add(&mut unsent, "answer.completed", "");
        add(&mut unsent, "answer.delta", "half");
        assert_eq!(texts(&unsent.take(true)), ["one"]);
        add(&mut unsent, "turn.recovered", "");
        add(&mut unsent, "answer.delta", "two");
        assert_eq!(texts(&unsent.take(false)), ["two"]);
        // A turn that ended before a text was sent is sent by its outcome.
        let mut unsent = Unsent::default();
        add(&mut unsent, "answer.delta", "one");
        add(&mut unsent, "turn.completed", "");
        assert!(unsent.take(false).is_empty());
    }
}
