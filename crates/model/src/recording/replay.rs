//! A provider that plays a recording.

use super::Position;
use crate::{
    BoxFuture, EventHandler, FinishReason, ModelEvent, ModelRequest, ModelResponse, Provider,
    ProviderError, Recording,
};

/// A provider that plays a [`Recording`] without a network or a key.
///
/// A request that equals the recorded one receives the recorded response; any other request fails with
/// the difference. The provider has no state: each request determines its own position.
#[derive(Clone, Debug)]
pub struct Replay {
    recording: Recording,
}

impl Replay {
    /// Creates a provider that plays `recording`.
    pub fn new(recording: Recording) -> Self {
        Self { recording }
    }

    fn respond(
        &self,
        request: &ModelRequest<'_>,
        events: EventHandler<'_>,
    ) -> Result<ModelResponse, ProviderError> {
        let message = match self.recording.position(request) {
            Position::Response(message) => *message,
            refused => return Err(self.recording.refusal(refused)),
        };
        // A difference is more informative than a validation error, so it comes first.
        request.validate()?;
        for block in pieces(&message.text()) {
            events(ModelEvent::Text(block.to_owned()));
        }
        for (index, call) in message.tool_calls.iter().enumerate() {
            events(ModelEvent::ToolCall {
                index,
                name: call.name.clone(),
            });
            events(ModelEvent::Arguments {
                index,
                text: call.arguments.as_str().to_owned(),
            });
        }
        let finish_reason = if message.tool_calls.is_empty() {
            FinishReason::Stop
        } else {
            FinishReason::ToolCalls
        };
        Ok(ModelResponse::new(message, finish_reason))
    }
}

impl Provider for Replay {
    fn name(&self) -> &'static str {
        "replay"
    }

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
        events: EventHandler<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ProviderError>> {
        Box::pin(std::future::ready(self.respond(request, events)))
    }
}

/// Splits a text into words with their trailing white space, like a streamed response.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive([' ', '\n'])
}
