//! Removal of secrets from the steps of a turn.

use std::borrow::Cow;
use std::sync::Arc;

use logue_graph::NodeContext;
use logue_harness::chat::{Redact, has_placeholder};
use logue_message::{ChatMessage, ToolCall};

use crate::permission::redacted_call::redacted_call;
use crate::turn::listener::{Listener, TurnEvent};

/// The redaction of a turn.
#[derive(Clone, Default)]
pub(crate) struct TurnRedaction {
    redact: Option<Arc<dyn Redact>>,
    /// Whether the messages of the turn are stored as they are in its state.
    is_stored: bool,
}

impl TurnRedaction {
    /// The redaction of a session: messages, results and events contain no secrets.
    pub(crate) const fn of_session(redact: Option<Arc<dyn Redact>>) -> Self {
        Self {
            redact,
            is_stored: true,
        }
    }

    /// The redaction of a transcript's turn: only what it suspends with contains no secrets.
    pub(crate) const fn of_transcript(redact: Option<Arc<dyn Redact>>) -> Self {
        Self {
            redact,
            is_stored: false,
        }
    }

    /// Returns the redaction of what is stored when the turn suspends, and of the audit.
    pub(crate) fn redact(&self) -> Option<&dyn Redact> {
        self.redact.as_deref()
    }

    /// Returns the redaction of messages, results and events.
    fn stored(&self) -> Option<&dyn Redact> {
        self.redact().filter(|_| self.is_stored)
    }

    /// Returns whether pieces of an answer are withheld until it is complete.
    ///
    /// A secret may begin in one piece and end in another.
    pub(crate) fn withholds_pieces(&self) -> bool {
        self.stored().is_some()
    }

    /// Returns whether stored arguments may contain a placeholder.
    pub(crate) fn is_redacted(&self, call: &ToolCall) -> bool {
        let arguments = call.arguments.as_str();
        match self.redact() {
            Some(redact) => redact.is_redacted(arguments),
            // The patterns may have been removed since.
            None => has_placeholder(arguments),
        }
    }

    /// Returns a message as the turn keeps it.
    pub(crate) fn message(&self, message: &ChatMessage) -> ChatMessage {
        let mut message = message.clone();
        if let Some(redact) = self.stored() {
            redact.message(&mut message);
        }
        message
    }

    /// Returns the text of a result as the turn keeps it.
    pub(crate) fn result(&self, text: String, is_json: bool) -> String {
        let Some(redact) = self.stored() else {
            return text;
        };
        let redacted = if is_json {
            redact.arguments(&text)
        } else {
            redact.text(&text)
        };
        match redacted {
            Cow::Owned(redacted) => redacted,
            Cow::Borrowed(_) => text,
        }
    }

    /// Emits an event without secrets.
    pub(crate) fn emit(&self, ctx: &NodeContext<TurnEvent>, event: TurnEvent) {
        if let Some(event) = self.event(event) {
            ctx.emit(event);
        }
    }

    /// Returns an event as listeners receive it; `None` for pieces of an answer.
    pub(crate) fn event(&self, event: TurnEvent) -> Option<TurnEvent> {
        let Some(redact) = self.stored() else {
            return Some(event);
        };
        Some(match event {
            TurnEvent::Delta(_) | TurnEvent::Reasoning(_) | TurnEvent::ReasoningSummary { .. } => {
                return None;
            }
            TurnEvent::Retrying {
                attempt,
                wait,
                category,
                message,
            } => TurnEvent::Retrying {
                attempt,
                wait,
                category,
                message: redact.text(&message).into_owned(),
            },
            TurnEvent::Reasking { reason } => TurnEvent::Reasking {
                reason: redact.text(&reason).into_owned(),
            },
            TurnEvent::MessageCompleted(message) => {
                TurnEvent::MessageCompleted(Arc::new(self.message(&message)))
            }
            TurnEvent::ToolStarted(call) => TurnEvent::ToolStarted(shown(redact, &call)),
            TurnEvent::ToolEnded {
                call,
                ok,
                code,
                text,
            } => TurnEvent::ToolEnded {
                call: shown(redact, &call),
                ok,
                code,
                text: redact.text(&text).into_owned(),
            },
            TurnEvent::ToolFailed { call, diagnostic } => TurnEvent::ToolFailed {
                call: shown(redact, &call),
                diagnostic: redact.text(&diagnostic).into_owned(),
            },
            TurnEvent::OfAgent { agent, event } => TurnEvent::OfAgent {
                agent,
                event: Box::new(self.event(*event)?),
            },
            event => event,
        })
    }
}

fn shown(redact: &dyn Redact, call: &ToolCall) -> Arc<ToolCall> {
    Arc::new(redacted_call(Some(redact), call).into_owned())
}

/// Forwards events without secrets.
pub(crate) struct RedactedListener {
    pub(crate) listener: Arc<dyn Listener>,
    pub(crate) redaction: TurnRedaction,
}

impl Listener for RedactedListener {
    fn event(&self, event: TurnEvent) {
        if let Some(event) = self.redaction.event(event) {
            self.listener.event(event);
        }
    }
}
