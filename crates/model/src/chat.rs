//! Any server that speaks the Chat Completions format.

use reqwest::header::AUTHORIZATION;

use crate::answer::AnswerReader;
use crate::dialect::Dialect;
use crate::exchange::Exchange;
use crate::http::{Limits, Manner};
use crate::wire::{self, Wire};
use crate::{BoxFuture, EventSink, Provider, ProviderError, Request, Response, Rules};

/// Where a model server is and how to speak to it, whatever its wire format.
#[derive(Clone)]
pub struct ChatOptions {
    /// The address that the path of the format is added to.
    pub base_url: String,
    /// The key, sent in the header that the format has for it; servers on one's own machine need
    /// none.
    pub api_key: Option<String>,
    /// What one request may cost.
    pub limits: Limits,
}

impl std::fmt::Debug for ChatOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatOptions")
            .field("base_url", &self.base_url)
            .field("api_key", &self.api_key.as_ref().map(|_| "[key]"))
            .field("limits", &self.limits)
            .finish()
    }
}

static MANNER: Manner = Manner {
    path: &["chat", "completions"],
    doubled: None,
    key_header: AUTHORIZATION,
    key_prefix: "Bearer ",
    key_variable: "OPENAI_API_KEY",
    headers: &[],
    example: "http://localhost:8000/v1",
};

/// A server with `/chat/completions`, asked over HTTP.
#[derive(Debug)]
pub struct ChatCompletions {
    exchange: Exchange,
    rules: Rules,
    stream: bool,
}

impl ChatCompletions {
    /// A provider for one server, which streams. Its kind is the one that the address suggests.
    ///
    /// # Errors
    /// The base URL is no address, or the TLS set-up of this machine is unusable.
    pub fn new(options: ChatOptions) -> Result<Self, ProviderError> {
        let rules = *Dialect::of(&options.base_url).rules();
        Ok(Self {
            exchange: Exchange::new(options, &MANNER)?,
            rules,
            stream: true,
        })
    }

    /// The same for a server of another kind.
    #[must_use]
    pub fn with_dialect(self, dialect: Dialect) -> Self {
        self.with_rules(*dialect.rules())
    }

    /// The same for a server with rules of its own.
    #[must_use]
    pub fn with_rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// The same, streaming or not. Without a stream the events come at once, when the answer is
    /// complete.
    #[must_use]
    pub fn with_stream(mut self, stream: bool) -> Self {
        self.stream = stream;
        self
    }
}

impl Provider for ChatCompletions {
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
            let body = wire::request_body(request, &self.rules, self.stream)?;
            let limits = &self.exchange.options.limits;
            let reader = AnswerReader::new(Wire::Chat, limits.event_bytes);
            self.exchange.ask(request, &body, reader, events).await
        })
    }
}
