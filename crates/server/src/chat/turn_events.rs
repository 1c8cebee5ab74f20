//! The events of a turn as clients receive them.

use std::collections::HashMap;
use std::sync::Arc;

use logue_agent::TurnEvent;
use logue_message::{ChatMessage, Role};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::visible::visible_message;

/// The maximum number of bytes of events that wait for the log.
const MAX_KEPT: usize = 1 << 20;

/// Maps the events of one turn to the JSON that clients receive.
///
/// Adjacent pieces of text become one event.
pub(crate) struct TurnEvents {
    entry: u64,
    /// The text that the next event precedes.
    text: String,
    /// Whether the reasoning of the current request was reported.
    is_thinking: bool,
    /// The beginnings of running calls.
    begun: HashMap<String, Instant>,
    events: Vec<(u64, Arc<str>)>,
}

impl TurnEvents {
    /// Creates the mapping for the turn of an entry.
    pub(crate) fn new(entry: u64) -> Self {
        Self {
            entry,
            text: String::new(),
            is_thinking: false,
            begun: HashMap::new(),
            events: Vec::new(),
        }
    }

    /// Adds the acceptance of a message.
    pub(crate) fn accepted(&mut self, message: Option<&ChatMessage>) {
        let message = message.and_then(visible_message);
        let message = message.map(|message| message.to_json());
        self.push("turn.accepted", json!({ "message": message }));
    }

    /// Adds the takeover of a turn whose process ended: its incomplete answer is over.
    pub(crate) fn recovered(&mut self) {
        self.push("turn.recovered", json!({}));
    }

    /// Adds the end of a call that an ended process had begun.
    ///
    /// `call` is the event of its beginning, and `text` the result that the model receives.
    pub(crate) fn interrupted(&mut self, call: &Value, text: Option<&str>) {
        self.push(
            "tool.ended",
            json!({"call_id": call["call_id"], "name": call["name"], "interrupted": true,
                "text": text, "agent": call["agent"]}),
        );
    }

    /// Adds an event of the turn.
    pub(crate) fn event(&mut self, event: TurnEvent) {
        let (agent, event) = match event {
            TurnEvent::OfAgent { agent, event } => (Some(agent), *event),
            event => (None, event),
        };
        let agent = agent.map(|agent| json!({"src": agent.src, "call_id": agent.call_id}));
        match event {
            TurnEvent::ToolStarted(call) => {
                if agent.is_none() {
                    self.begun.insert(call.id.clone(), Instant::now());
                }
                self.push(
                    "tool.started",
                    json!({"call_id": call.id, "name": call.name,
                        "arguments": call.arguments.as_str(), "agent": agent}),
                );
            }
            TurnEvent::ToolEnded {
                call,
                ok,
                code,
                text,
            } => {
                let begun = self.begun.remove(&call.id);
                let millis = begun.map(|begun| begun.elapsed().as_millis().min(1 << 50) as u64);
                self.push(
                    "tool.ended",
                    json!({"call_id": call.id, "name": call.name, "ok": ok, "code": code,
                        "text": text, "milliseconds": millis, "agent": agent}),
                );
            }
            // The text of an agent is not shown.
            _ if agent.is_some() => {}
            TurnEvent::Asking(request) => {
                self.is_thinking = false;
                self.push("answer.started", json!({ "request": request }));
            }
            TurnEvent::Delta(text) => self.text.push_str(&text),
            TurnEvent::Reasoning(_) | TurnEvent::ReasoningSummary { .. } if !self.is_thinking => {
                self.is_thinking = true;
                self.push("answer.thinking", json!({}));
            }
            TurnEvent::Calling(name) => self.push("answer.calling", json!({ "name": name })),
            TurnEvent::MessageCompleted(message) if message.role == Role::Assistant => {
                if let Some(message) = visible_message(&message) {
                    self.push("answer.completed", json!({"message": message.to_json()}));
                }
            }
            TurnEvent::Retrying {
                attempt,
                wait,
                category,
                ..
            } => self.push(
                "answer.withdrawn",
                json!({"reason": category, "attempt": attempt,
                    "wait_seconds": wait.as_secs_f64()}),
            ),
            TurnEvent::Reasking { .. } => {
                self.push("answer.withdrawn", json!({"reason": "schema_violation"}));
            }
            _ => {}
        }
    }

    /// Puts events back that could not be logged.
    ///
    /// If they are too many, they are replaced by one that states that the answer is incomplete.
    pub(crate) fn put_back(&mut self, mut events: Vec<(u64, Arc<str>)>) {
        let bytes: usize = events.iter().map(|(_, text)| text.len()).sum();
        if bytes > MAX_KEPT {
            events.clear();
            events.push((
                self.entry,
                event_text("turn.recovered", self.entry, json!({})),
            ));
        }
        events.append(&mut self.events);
        self.events = events;
    }

    /// Returns the events since the last call.
    pub(crate) fn take(&mut self) -> Vec<(u64, Arc<str>)> {
        self.flush();
        std::mem::take(&mut self.events)
    }

    fn flush(&mut self) {
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text);
            let event = event_text("answer.delta", self.entry, json!({ "text": text }));
            self.events.push((self.entry, event));
        }
    }

    fn push(&mut self, kind: &str, data: Value) {
        self.flush();
        self.events
            .push((self.entry, event_text(kind, self.entry, data)));
    }
}

/// Returns the JSON of an event, without absent values. It begins with the type.
pub(crate) fn event_text(kind: &str, entry: u64, data: Value) -> Arc<str> {
    let mut present = match data {
        Value::Object(data) => data,
        _ => Map::new(),
    };
    present.retain(|_, value| !value.is_null());
    let data = Value::Object(present).to_string();
    let data = data.strip_prefix('{').unwrap_or_default();
    let comma = if data == "}" { "" } else { "," };
    format!("{TYPE}{kind}\",\"turn\":{entry}{comma}{data}").into()
}

/// Returns the type of an event.
pub(crate) fn event_kind(text: &str) -> &str {
    let kind = text.strip_prefix(TYPE);
    let kind = kind.and_then(|rest| rest.split_once('"'));
    kind.map_or("message", |(kind, _)| kind)
}

/// The beginning of the JSON of each event.
const TYPE: &str = "{\"type\":\"";
