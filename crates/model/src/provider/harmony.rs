//! The provider for gpt-oss models over a raw completion endpoint.
//!
//! ```text
//! ModelRequest ─▶ prompt ─▶ ids (or text) ─▶ server ─▶ ids (or text) ─▶ ModelEvent, ModelResponse
//! ```
//!
//! The server only runs the model; the prompt is rendered and the response parsed here. The server
//! needs neither a chat template nor a parser, so their defects cannot lose a response. The recovering
//! reader of [`openchatml::harmony`] parses the output; events and messages come from one machine.
//!
//! A prompt of token ids cannot be forged: message bodies are always ordinary text. In a prompt of
//! text, the server interprets every control token. A conversation that contains one is therefore not
//! sent as text, and text is used only if it is configured or the server rejects ids.

use futures_util::future::BoxFuture;

use crate::http::{HttpExchange, RequestCapture};
use crate::wire::harmony::{self, HarmonyServer, PromptForm};
use crate::{
    EndpointOptions, EventHandler, HttpLimits, ModelRequest, ModelResponse, Provider, ProviderError,
};

/// The address and behavior of a completion server.
#[derive(Clone)]
#[non_exhaustive]
pub struct HarmonyOptions {
    /// The base URL, to which `/completions` is appended.
    pub base_url: String,
    /// The key, sent as a bearer token.
    pub api_key: Option<String>,
    /// The limits of one request.
    pub limits: HttpLimits,
    /// Receives requests instead of the server.
    pub capture: Option<RequestCapture>,
    /// The form of prompts.
    pub prompt: PromptForm,
    /// The extensions that the server supports.
    pub server: HarmonyServer,
    /// Whether a truncated response, and one without text or calls, is not an error.
    pub accepts_incomplete: bool,
}

impl HarmonyOptions {
    /// Creates options for a server of unknown kind, without a key.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            api_key: None,
            limits: HttpLimits::default(),
            capture: None,
            prompt: PromptForm::default(),
            server: HarmonyServer::default(),
            accepts_incomplete: false,
        }
    }
}

impl std::fmt::Debug for HarmonyOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HarmonyOptions")
            .field("base_url", &self.base_url)
            .field("api_key", &self.api_key.as_ref().map(|_| "[key]"))
            .field("limits", &self.limits)
            .field("capture", &self.capture)
            .field("prompt", &self.prompt)
            .field("server", &self.server)
            .field("accepts_incomplete", &self.accepts_incomplete)
            .finish()
    }
}

/// A server with a raw completion endpoint and a gpt-oss model.
#[derive(Debug)]
pub struct HarmonyCompletions {
    exchange: HttpExchange,
    prompt: PromptForm,
    server: HarmonyServer,
    accepts_incomplete: bool,
}

impl HarmonyCompletions {
    /// Creates a provider for one server.
    ///
    /// # Errors
    /// Returns an error if the base URL is invalid or the TLS configuration of the machine is
    /// unusable.
    pub fn new(options: HarmonyOptions) -> Result<Self, ProviderError> {
        let HarmonyOptions {
            base_url,
            api_key,
            limits,
            capture,
            prompt,
            server,
            accepts_incomplete,
        } = options;
        let options = EndpointOptions {
            base_url,
            api_key,
            limits,
            capture,
        };
        Ok(Self {
            exchange: HttpExchange::new(options, harmony::endpoint(server))?,
            prompt,
            server,
            accepts_incomplete,
        })
    }
}

impl Provider for HarmonyCompletions {
    fn name(&self) -> &'static str {
        "gpt_oss"
    }

    fn takes_images(&self) -> bool {
        false
    }

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
        events: EventHandler<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ProviderError>> {
        Box::pin(async move {
            request.validate()?;
            let encoded =
                harmony::encode(request, self.server, self.prompt, self.accepts_incomplete)?;
            self.exchange.run(request, encoded, events).await
        })
    }
}
