//! A provider that repeats the user's message, without a server or a key.

use futures_util::future::BoxFuture;
use logue_message::{ChatMessage, Role};

use crate::{
    Category, EventHandler, FinishReason, ModelEvent, ModelRequest, ModelResponse, Provider,
    ProviderError,
};

/// A provider that responds with the text of the last user message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Echo;

impl Provider for Echo {
    fn name(&self) -> &'static str {
        "echo"
    }

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
        events: EventHandler<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ProviderError>> {
        Box::pin(std::future::ready(respond(request, events)))
    }
}

fn respond(
    request: &ModelRequest<'_>,
    events: EventHandler<'_>,
) -> Result<ModelResponse, ProviderError> {
    request.validate()?;
    let is_user = |message: &&ChatMessage| message.role == Role::User;
    let last = request.messages.iter().rev().find(is_user);
    let text = last.map(ChatMessage::text).unwrap_or_default();
    if text.is_empty() {
        return Err(ProviderError::new(
            Category::InvalidRequest,
            "the conversation has no user message to repeat",
        )
        .with_help("add a user message"));
    }
    events(ModelEvent::Text(text.clone()));
    Ok(ModelResponse::new(
        ChatMessage::assistant(text),
        FinishReason::Stop,
    ))
}
