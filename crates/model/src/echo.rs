//! The model that repeats: for trying things without a server or a key.

use logue_message::{ChatMessage, Role};

use crate::{
    BoxFuture, Category, Event, EventSink, FinishReason, Provider, ProviderError, Request, Response,
};

/// Answers with the text of the last user message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Echo;

impl Provider for Echo {
    fn name(&self) -> &'static str {
        "echo"
    }

    fn complete<'a>(
        &'a self,
        request: &'a Request<'a>,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<Response, ProviderError>> {
        if let Err(error) = request.validate() {
            return Box::pin(std::future::ready(Err(error)));
        }
        let said = request
            .messages
            .iter()
            .rev()
            .find(|message| message.role == Role::User);
        let text = said.map(ChatMessage::text).unwrap_or_default();
        let result = if text.is_empty() {
            Err(ProviderError::new(
                Category::InvalidRequest,
                "there is no user message to repeat",
            )
            .with_help("say something first"))
        } else {
            events(Event::Text(text.clone()));
            Ok(Response::new(
                ChatMessage::assistant(text),
                FinishReason::Stop,
            ))
        };
        Box::pin(std::future::ready(result))
    }
}
