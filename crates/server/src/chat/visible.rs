//! The part of messages and signals that clients receive.
//!
//! Reasoning, and messages of the roles `system` and `developer`, are hidden (OpenChatML 2.2 §6).
//! Every outlet of the server takes messages from here.

use logue_agent::{CONNECTION, deadline_after};
use logue_graph::SignalDescriptor;
use logue_harness::Timestamp;
use logue_harness::store::Suspension;
use logue_message::{ChatMessage, Content, ContentBlock, Role};
use serde_json::{Map, Value, json};

/// Returns the visible part of a message; `None` if all is hidden.
pub(crate) fn visible_message(message: &ChatMessage) -> Option<ChatMessage> {
    if message.role == Role::System {
        return None;
    }
    let mut visible = message.clone();
    if let Content::Blocks(blocks) = &mut visible.content {
        blocks.retain(|block| !block.is_reasoning());
        for block in blocks {
            if let ContentBlock::Text { signature, .. } = block {
                *signature = None;
            }
        }
    }
    for call in &mut visible.tool_calls {
        call.signature = None;
    }
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
