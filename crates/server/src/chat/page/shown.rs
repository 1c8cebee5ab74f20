//! Messages as the page shows them.

use logue_message::{ChatMessage, Role};
use serde_json::{Value, json};

use super::super::visible::MessageView;
use super::markdown::nodes_of;

/// Returns the messages of a part of a history that begins at a position.
///
/// Each has its position, and the nodes of its text if it is of the model.
pub(crate) fn shown_messages(view: MessageView, from: u64, stored: &[Value]) -> Vec<Value> {
    let stored = (from..).zip(stored);
    let shown = stored.filter_map(|(position, message)| {
        // A message that cannot be read is hidden.
        let message = view.message(&ChatMessage::from_json(message).ok()?)?;
        let mut shown = json!({"position": position, "message": message.to_json()});
        if message.role == Role::Assistant {
            shown["nodes"] = Value::Array(nodes_of(&message.text()));
        }
        Some(shown)
    });
    shown.collect()
}
