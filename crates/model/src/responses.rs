//! `OpenAI` Responses, and servers that speak its format.
//!
//! Nothing is stored at the server (`store: false`): the conversation is sent whole each time, and
//! reasoning comes back encrypted and is sent again with it. A reasoning item is one
//! [`ContentBlock::Thinking`](logue_message::ContentBlock::Thinking) for each part of its summary, all with the
//! item's id, the last one with its encrypted content as the signature.

mod answer;
mod request;

use reqwest::header::AUTHORIZATION;

pub(crate) use answer::Decoding;

use crate::answer::AnswerReader;
use crate::dialect::Dialect;
use crate::exchange::Exchange;
use crate::http::Manner;
use crate::wire::Wire;
use crate::{BoxFuture, ChatOptions, EventSink, Provider, ProviderError, Request, Response, Rules};

static MANNER: Manner = Manner {
    path: &["responses"],
    doubled: None,
    key_header: AUTHORIZATION,
    key_prefix: "Bearer ",
    key_variable: "OPENAI_API_KEY",
    headers: &[],
    example: "https://api.openai.com/v1",
};

/// A server with `/responses`, asked over HTTP.
#[derive(Debug)]
pub struct Responses {
    exchange: Exchange,
    rules: Rules,
    stream: bool,
}

impl Responses {
    /// A provider for one server, which streams. Its kind is the one that the address suggests.
    ///
    /// # Errors
    /// The base URL is no address, or the TLS set-up of this machine is unusable.
    pub fn new(options: ChatOptions) -> Result<Self, ProviderError> {
        let rules = *Dialect::of(&options.base_url).responses_rules();
        Ok(Self {
            exchange: Exchange::new(options, &MANNER)?,
            rules,
            stream: true,
        })
    }

    /// The same for a server of another kind.
    #[must_use]
    pub fn with_dialect(self, dialect: Dialect) -> Self {
        self.with_rules(*dialect.responses_rules())
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

impl Provider for Responses {
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
            let body = request::request_body(request, &self.rules, self.stream)?;
            let limits = &self.exchange.options.limits;
            let reader = AnswerReader::new(Wire::Responses, limits.event_bytes);
            self.exchange.ask(request, &body, reader, events).await
        })
    }
}
