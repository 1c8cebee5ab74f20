//! The messages of stored sessions.

use logue_harness::store::{SharedStore, current_history};
use logue_message::{ChatMessage, ShapeError};
use serde_json::Value;

use crate::exit::CliError;
use crate::setup::store::store_failure;

/// The number of messages that are read at once.
const PAGE: usize = 1_000;

/// Returns the messages `from..to` of a session's history, without superseded ones.
pub(crate) async fn messages(
    store: &SharedStore,
    session: &str,
    from: u64,
    to: u64,
) -> Result<Vec<Value>, CliError> {
    let mut messages = Vec::new();
    let mut at = from;
    while at < to {
        let wanted = usize::try_from(to - at).unwrap_or(PAGE).min(PAGE);
        let page = current_history(&**store, session, at, wanted).await;
        let page = page.map_err(|error| store_failure(&error))?;
        if page.is_empty() {
            break;
        }
        at += page.len() as u64;
        messages.extend(page.into_iter().filter(|message| !message.is_null()));
    }
    Ok(messages)
}

/// Returns valid messages from their JSON form.
pub(crate) fn typed(messages: &[Value]) -> Result<Vec<ChatMessage>, CliError> {
    let messages = messages.iter().enumerate();
    messages
        .map(|(index, value)| {
            let message = ChatMessage::from_json(value).map_err(|cause| invalid(index, &cause))?;
            message.validate().map_err(|cause| invalid(index, &cause))?;
            Ok(message)
        })
        .collect()
}

/// Creates the failure of an invalid message; messages count from 1.
pub(crate) fn invalid(index: usize, cause: &dyn std::fmt::Display) -> CliError {
    let message = format!(
        "message {} of the conversation is invalid: {cause}",
        index + 1
    );
    CliError::user(ShapeError::CATEGORY, message)
}
