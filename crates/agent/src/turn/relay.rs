//! The events of a run, as whoever watches a turn is told them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use logue_graph::{EventSink, NodePlace, RunEvent};
use logue_message::{ChatMessage, Role, ToolCall};
use serde_json::Value;

use crate::turn::listener::{Listener, TurnEvent};

/// The name of the event that the model is asked; its value is how often.
pub(crate) const ASKING: &str = "asking";
/// The name of the event that the model writes a call; its value is the tool.
pub(crate) const CALLING: &str = "calling";
/// The name of the event that the model is asked again after a wait; its value is an object.
pub(crate) const RETRYING: &str = "retrying";
/// The name of the event that an answer has to be mended; its value is what is wrong with it.
pub(crate) const REASKING: &str = "reasking";
/// The name of the event that a turn goes on with calls; its value is a message that holds them.
pub(crate) const GOING_ON: &str = "going_on";
/// The name of the event that a tool's arguments go unchecked; its value has `tool` and `why`.
pub(crate) const UNCHECKED: &str = "unchecked";

/// Tells a [`Listener`] what happens in the run of an [`Assistant`](crate::Assistant).
pub struct Relay {
    listener: Arc<dyn Listener>,
    state: Mutex<Known>,
}

/// What earlier events said of calls.
#[derive(Default)]
struct Known {
    calls: BTreeMap<String, ToolCall>,
    results: BTreeMap<String, String>,
}

impl Relay {
    /// Tells `listener`.
    pub fn new(listener: Arc<dyn Listener>) -> Self {
        Self {
            listener,
            state: Mutex::default(),
        }
    }

    /// Tells an event.
    pub fn tell(&self, event: &RunEvent) {
        match event {
            RunEvent::Text(text) => self.listener.event(TurnEvent::Delta(text)),
            RunEvent::Reasoning(_) => self.listener.event(TurnEvent::Thinking),
            RunEvent::Custom { name, value } if name == ASKING => {
                let number = value.as_u64().and_then(|n| usize::try_from(n).ok());
                self.listener.event(TurnEvent::Asking(number.unwrap_or(1)));
            }
            RunEvent::Custom { name, value } if name == CALLING => {
                let tool = value.as_str().unwrap_or_default();
                self.listener.event(TurnEvent::Calling(tool));
            }
            RunEvent::Custom { name, value } if name == UNCHECKED => {
                let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
                let (tool, why) = (text("tool"), text("why"));
                self.listener.event(TurnEvent::Unchecked { tool, why });
            }
            RunEvent::Custom { name, value } if name == RETRYING => self.retrying(value),
            RunEvent::Custom { name, value } if name == REASKING => {
                let reason = value.as_str().unwrap_or_default();
                self.listener.event(TurnEvent::Reasking { reason });
            }
            RunEvent::Custom { name, value } if name == GOING_ON => {
                let message = ChatMessage::from_json(value).ok();
                self.remember(
                    message
                        .map(|message| message.tool_calls)
                        .unwrap_or_default(),
                );
            }
            RunEvent::Message(message) => self.message(message),
            RunEvent::ToolStarted { id, name } => {
                let call = self.call(id, name);
                self.listener.event(TurnEvent::ToolStarted(&call));
            }
            RunEvent::ToolEnded { id, name, ok } => {
                let call = self.call(id, name);
                let text = self.lock().results.remove(id).unwrap_or_default();
                self.listener.event(TurnEvent::ToolEnded {
                    call: &call,
                    ok: *ok,
                    text: &text,
                });
            }
            _ => {}
        }
    }

    fn retrying(&self, value: &Value) {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
        let attempt = value.get("attempt").and_then(Value::as_u64);
        let wait = value.get("wait_seconds").and_then(Value::as_f64);
        let wait = wait.and_then(|wait| Duration::try_from_secs_f64(wait).ok());
        self.listener.event(TurnEvent::Retrying {
            attempt: attempt.unwrap_or(1),
            wait: wait.unwrap_or_default(),
            category: text("category"),
            message: text("message"),
        });
    }

    fn message(&self, message: &Value) {
        let Ok(message) = ChatMessage::from_json(message) else {
            return;
        };
        let text = message.text();
        if message.role == Role::Tool {
            let id = message.tool_call_id.unwrap_or_default();
            self.lock().results.insert(id, text);
            return;
        }
        let calls = message.tool_calls.len();
        self.remember(message.tool_calls);
        let text = &text;
        self.listener.event(TurnEvent::Answered { text, calls });
    }

    fn remember(&self, calls: Vec<ToolCall>) {
        let calls = calls.into_iter().map(|call| (call.id.clone(), call));
        self.lock().calls.extend(calls);
    }

    /// The call of that id.
    fn call(&self, id: &str, name: &str) -> ToolCall {
        let known = self.lock().calls.get(id).cloned();
        known.unwrap_or_else(|| ToolCall::new(id, name, ""))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventSink for Relay {
    fn emit(&self, _: &NodePlace, event: RunEvent) {
        self.tell(&event);
    }
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay").finish_non_exhaustive()
    }
}
