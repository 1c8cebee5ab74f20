//! Anthropic Messages.
//!
//! A request is instructions and turns that alternate between user and assistant; results of tools
//! are blocks of the user's turn. `thinking` comes signed and is sent again exactly as it came, and
//! so is what is redacted. The format has no way of its own in which every model can be held to a
//! schema, so the answer is asked for as the input of a tool, and becomes text again when it is read.

mod answer;
mod request;

use reqwest::header::HeaderName;

pub(crate) use answer::Decoding;

use crate::answer::AnswerReader;
use crate::exchange::Exchange;
use crate::http::Manner;
use crate::{BoxFuture, ChatOptions, EventSink, Provider, ProviderError, Request, Response, Rules};

static MANNER: Manner = Manner {
    path: &["v1", "messages"],
    doubled: Some("v1"),
    key_header: HeaderName::from_static("x-api-key"),
    key_prefix: "",
    key_variable: "ANTHROPIC_API_KEY",
    headers: &[("anthropic-version", "2023-06-01")],
    example: "https://api.anthropic.com",
};

/// A server with `/v1/messages`, asked over HTTP.
#[derive(Debug)]
pub struct Anthropic {
    exchange: Exchange,
    rules: Rules,
    stream: bool,
}

impl Anthropic {
    /// A provider for one server, which streams.
    ///
    /// # Errors
    /// The base URL is no address, or the TLS set-up of this machine is unusable.
    pub fn new(options: ChatOptions) -> Result<Self, ProviderError> {
        Ok(Self {
            exchange: Exchange::new(options, &MANNER)?,
            rules: Rules::ANTHROPIC,
            stream: true,
        })
    }

    /// The same for a server with rules of its own.
    #[must_use]
    pub fn with_rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// The same, streaming or not.
    #[must_use]
    pub fn with_stream(mut self, stream: bool) -> Self {
        self.stream = stream;
        self
    }
}

impl Provider for Anthropic {
    fn name(&self) -> &'static str {
        self.rules.name
    }

    fn complete<'a>(
        &'a self,
        request: &'a Request<'a>,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<Response, ProviderError>> {
        Box::pin(async move {
            request.validate()?;
            let asked = request::request(request, &self.rules, self.stream)?;
            let limits = &self.exchange.options.limits;
            let decoding = Decoding::with_answer_tool(asked.answer_tool);
            let reader = AnswerReader::with_decoder(Box::new(decoding), limits.event_bytes);
            self.exchange
                .ask(request, &asked.body, reader, events)
                .await
        })
    }
}
