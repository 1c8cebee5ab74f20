//! `send` for what is not yet a message: the JSON that a transport delivers.

use logue_message::{ChatMessage, ShapeError};
use serde_json::Value;

use super::ChatHarness;
use super::failure::Failure;
use super::options::SendOptions;
use super::outcome::ChatTurnOutcome;

impl<E: Send + 'static> ChatHarness<E> {
    /// Sends a message given as JSON with [`send_with`](Self::send_with).
    ///
    /// A value that is not a message, or has a wrong shape, is refused as
    /// `chat_message_shape_invalid`: nothing is loaded or stored.
    pub async fn send_json(
        &self,
        session_id: &str,
        message: &Value,
        options: SendOptions,
    ) -> ChatTurnOutcome {
        match ChatMessage::from_json(message) {
            Ok(message) => self.send_with(session_id, message, options).await,
            Err(error) => {
                let failure = if session_id.is_empty() {
                    Failure::unresolved()
                } else {
                    Failure::new(ShapeError::CATEGORY, error.to_string())
                };
                self.inner.errored(failure, None)
            }
        }
    }
}
