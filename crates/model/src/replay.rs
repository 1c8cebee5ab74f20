//! A recording in place of a model.

use crate::recording::Position;
use crate::{
    BoxFuture, Category, Event, EventSink, FinishReason, Provider, ProviderError, Recording,
    Request, Response,
};

/// Plays a [`Recording`]: a request that equals the recorded one gets the recorded answer, any
/// other one an error that shows the difference. It needs no network and no key, and holds no
/// state: each request finds its own place.
#[derive(Clone, Debug)]
pub struct Replay {
    recording: Recording,
}

impl Replay {
    /// A provider that plays `recording`.
    pub fn new(recording: Recording) -> Self {
        Self { recording }
    }

    fn answer(
        &self,
        request: &Request<'_>,
        events: EventSink<'_>,
    ) -> Result<Response, ProviderError> {
        let message = match self.recording.answer(request) {
            Position::Answer(message) => *message,
            Position::Differs(difference) => {
                return Err(ProviderError::new(Category::ReplayMismatch, difference).with_help(
                    "the prompt, a tool or a file that it reads has changed since the recording; \
                     undo the change, or make a new recording with --record",
                ));
            }
            Position::Ends => {
                let answers = match self.recording.answers() {
                    1 => "1 answer".to_owned(),
                    count => format!("{count} answers"),
                };
                return Err(ProviderError::new(
                    Category::ReplayExhausted,
                    format!(
                        "the recording ends here: it holds {answers} and this request is a further one"
                    ),
                )
                .with_help("name a model with -m to go on, or record a longer session"));
            }
        };
        // A difference says more than that the request is none, so it comes first.
        request.validate()?;
        for block in pieces(&message.text()) {
            events(Event::Text(block.to_owned()));
        }
        for (index, call) in message.tool_calls.iter().enumerate() {
            events(Event::ToolCall {
                index,
                name: call.name.clone(),
            });
            events(Event::Arguments {
                index,
                text: call.arguments.as_str().to_owned(),
            });
        }
        let finish_reason = if message.tool_calls.is_empty() {
            FinishReason::Stop
        } else {
            FinishReason::ToolCalls
        };
        Ok(Response::new(message, finish_reason))
    }
}

impl Provider for Replay {
    fn name(&self) -> &'static str {
        "replay"
    }

    fn complete<'a>(
        &'a self,
        request: &'a Request<'a>,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<Response, ProviderError>> {
        Box::pin(std::future::ready(self.answer(request, events)))
    }
}

/// The words of a text, each with the white space behind it, as a model would stream them.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive([' ', '\n'])
}
