//! Histories without the parts of answers that later answers supersede.

use logue_message::ChatMessage;
use serde_json::Value;

use super::{Store, StoreError};

/// Reads a part of a history, with `null` in the place of each superseded message.
///
/// Messages keep their positions. A message is superseded by
/// [`ChatMessage::is_superseded_by`], also if the superseding message follows the part.
///
/// # Errors
/// Returns an error if the store fails.
pub async fn current_history(
    store: &dyn Store,
    session: &str,
    from: u64,
    limit: usize,
) -> Result<Vec<Value>, StoreError> {
    let mut messages = store.history(session, from, limit).await?;
    let last = messages.last();
    let next = if last.is_some_and(|last| part_of(last).is_some()) {
        let after = from + messages.len() as u64;
        match store.history(session, after, 1).await {
            Ok(mut next) => next.pop(),
            // It is not a readable answer.
            Err(StoreError::Damaged(_)) => None,
            Err(error) => return Err(error),
        }
    } else {
        None
    };
    for at in 0..messages.len() {
        let Some(part) = messages.get(at).and_then(part_of) else {
            continue;
        };
        let next = messages.get(at + 1).or(next.as_ref());
        let next = next.and_then(|next| ChatMessage::from_json(next).ok());
        if next.is_some_and(|next| part.is_superseded_by(&next)) {
            messages[at] = Value::Null;
        }
    }
    Ok(messages)
}

/// Returns a stored message that is the part of an interrupted answer.
fn part_of(stored: &Value) -> Option<ChatMessage> {
    // Messages with a status are rare, and the others are not decoded.
    stored.get("status")?;
    let message = ChatMessage::from_json(stored).ok()?;
    message.interrupted.then_some(message)
}
