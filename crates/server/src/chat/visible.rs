//! The part of messages and signals that clients receive.
//!
//! Reasoning, and messages of the roles `system` and `developer`, are hidden (OpenChatML 2.2 §6).
//! Every outlet of the server takes messages from here. The debug view alone contains hidden ones:
//! it requires a [`DebugView`].

use axum::http::StatusCode;
use logue_agent::{CONNECTION, deadline_after};
use logue_graph::SignalDescriptor;
use logue_harness::Timestamp;
use logue_harness::store::Suspension;
use logue_message::{ChatMessage, Content, ContentBlock, Role};
use serde_json::{Map, Value, json};

use super::access::{Caller, TokenScope};
use super::problem::Problem;

/// The permission to read hidden messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DebugView(());

impl DebugView {
    /// Returns the permission of a caller.
    ///
    /// # Errors
    /// Returns a problem if the server has no debug view, or the token no scope `debug`.
    pub(crate) fn of(caller: &Caller, is_enabled: bool) -> Result<Self, Problem> {
        if !is_enabled {
            let detail = "this server has no debug view";
            let problem = Problem::new(StatusCode::FORBIDDEN, "debug_view_disabled", detail);
            return Err(problem.with_help("start it with --debug-view"));
        }
        // Without tokens, clients on the server's machine may do everything that it allows.
        if caller.token.is_some() && !caller.has(TokenScope::Debug) {
            return Err(Problem::scope_missing(TokenScope::Debug));
        }
        Ok(Self(()))
    }
}

/// The part of stored messages that an answer contains.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MessageView {
    /// The part for every reader.
    Visible,
    /// Hidden messages as well.
    Debug(DebugView),
}

impl MessageView {
    /// Returns a message as this view has it; `None` if all is hidden.
    pub(crate) fn message(self, message: &ChatMessage) -> Option<ChatMessage> {
        match self {
            Self::Visible => visible_message(message),
            Self::Debug(DebugView(())) => Some(without_signatures(message.clone())),
        }
    }

    /// Returns the JSON of stored messages.
    pub(crate) fn json(self, stored: &[Value]) -> Vec<Value> {
        let shown = stored.iter().filter_map(|message| {
            // A message that cannot be read is hidden.
            let message = ChatMessage::from_json(message).ok()?;
            Some(self.message(&message)?.to_json())
        });
        shown.collect()
    }
}

/// Removes the values that only the provider of a model reads.
fn without_signatures(mut message: ChatMessage) -> ChatMessage {
    if let Content::Blocks(blocks) = &mut message.content {
        for block in blocks {
            match block {
                ContentBlock::Text { signature, .. } | ContentBlock::Thinking { signature, .. } => {
                    *signature = None;
                }
                ContentBlock::RedactedThinking { data } => data.clear(),
                _ => {}
            }
        }
    }
    for call in &mut message.tool_calls {
        call.signature = None;
    }
    message
}

/// Returns the visible part of a message; `None` if all is hidden.
pub(crate) fn visible_message(message: &ChatMessage) -> Option<ChatMessage> {
    if message.role == Role::System {
        return None;
    }
    let mut visible = message.clone();
    if let Content::Blocks(blocks) = &mut visible.content {
        blocks.retain(|block| !block.is_reasoning());
    }
    let visible = without_signatures(visible);
    let is_empty = visible.content.is_empty() && visible.tool_calls.is_empty();
    (!is_empty || visible.role == Role::Tool).then_some(visible)
}

/// Returns the JSON of the visible messages among stored ones.
pub(crate) fn visible_json<'a>(messages: impl IntoIterator<Item = &'a Value>) -> Vec<Value> {
    let messages = messages.into_iter();
    let visible = messages.filter_map(|message| {
        // A message that cannot be read is hidden.
        let message = ChatMessage::from_json(message).ok()?;
        Some(visible_message(&message)?.to_json())
    });
    visible.collect()
}

/// Returns a signal as clients receive it, without the connection to the model.
pub(crate) fn visible_signal(signal_id: &str, metadata: Option<&Value>) -> Value {
    let mut signal = Map::new();
    signal.insert("signal_id".to_owned(), json!(signal_id));
    for (name, value) in metadata.and_then(Value::as_object).into_iter().flatten() {
        if name != CONNECTION {
            signal.insert(name.clone(), value.clone());
        }
    }
    Value::Object(signal)
}

/// Returns a signal for which a turn has waited since a time.
pub(crate) fn visible_waiting(
    signal_id: &str,
    metadata: Option<&Value>,
    since: Timestamp,
) -> Value {
    let mut signal = visible_signal(signal_id, metadata);
    signal["since"] = json!(since.0);
    if let Some(at) = deadline_after(metadata, since) {
        signal["expires_at"] = json!(at.0);
    }
    signal
}

/// Returns the signal of a suspended turn as clients receive it.
pub(crate) fn visible_suspension(waiting: &Suspension) -> Value {
    visible_waiting(&waiting.signal_id, waiting.metadata.as_ref(), waiting.since)
}

/// Returns the signal of a descriptor as clients receive it.
pub(crate) fn visible_descriptor(descriptor: &SignalDescriptor) -> Value {
    visible_signal(&descriptor.signal_id, descriptor.metadata.as_ref())
}
