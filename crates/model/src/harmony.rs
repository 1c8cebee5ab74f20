//! Models of the gpt-oss family over `/v1/completions`: the prompt is made and the answer read here.
//!
//! ```text
//! Request ─▶ Conversation ─▶ ids (or text) ─▶ server ─▶ ids (or text) ─▶ IdStream ─▶ Event, Response
//! ```
//!
//! The server only runs the model. It needs no chat template and no parser of its own, so the
//! mistakes of those cannot lose an answer: what the model emits is read by the recovering reader of
//! [`openchatml::harmony`], whose streamed events and whole messages come from one machine.
//!
//! A prompt of token ids cannot be forged from within: bodies are ordinary text whatever they spell.
//! A prompt of text can, because its reader takes every control token for real. So a conversation
//! that holds one is not sent as text, and text is sent only if somebody chose it or the server says
//! that it takes no ids.

mod prompt;
mod reading;
mod scan;
mod server;

use std::time::Instant;

use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Url};
use serde_json::Value;

use self::prompt::Prompt;
use self::reading::Reading;
pub use self::server::HarmonyServer;
use crate::http::{self, Limits};
use crate::sse::SseDecoder;
use crate::{BoxFuture, Category, EventSink, Provider, ProviderError, Request, Response};

/// In which form a prompt is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PromptForm {
    /// As ids; as text only if the server says that it takes no ids and the text is safe.
    #[default]
    Auto,
    /// As ids.
    Ids,
    /// As text, refused where the conversation holds a control token.
    Text,
}

/// Where a server is and how to speak to it.
#[derive(Clone)]
pub struct HarmonyOptions {
    /// The address that `/completions` is added to.
    pub base_url: String,
    /// The key, sent as a bearer token.
    pub api_key: Option<String>,
    /// What one request may cost.
    pub limits: Limits,
    /// In which form prompts are sent.
    pub prompt: PromptForm,
    /// What the server understands beyond the format that all share.
    pub server: HarmonyServer,
}

impl HarmonyOptions {
    /// A server of no particular kind, without a key.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            api_key: None,
            limits: Limits::default(),
            prompt: PromptForm::default(),
            server: HarmonyServer::default(),
        }
    }
}

impl std::fmt::Debug for HarmonyOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HarmonyOptions")
            .field("base_url", &self.base_url)
            .field("api_key", &self.api_key.as_ref().map(|_| "[key]"))
            .field("limits", &self.limits)
            .field("prompt", &self.prompt)
            .field("server", &self.server)
            .finish()
    }
}

/// A server that completes prompts, asked in the language of gpt-oss models.
#[derive(Debug)]
pub struct HarmonyCompletions {
    options: HarmonyOptions,
    url: Url,
    client: Client,
}

impl HarmonyCompletions {
    /// A provider for one server.
    ///
    /// # Errors
    /// The base URL is no address, or the TLS set-up of this machine is unusable.
    pub fn new(options: HarmonyOptions) -> Result<Self, ProviderError> {
        let url = options.server.endpoint(&options.base_url)?;
        let client = http::client(&options.limits)?;
        Ok(Self {
            options,
            url,
            client,
        })
    }

    async fn ask(
        &self,
        request: &Request<'_>,
        mut events: EventSink<'_>,
    ) -> Result<Response, ProviderError> {
        let prompt = Prompt::new(request)?;
        let (started, response) = self.post(request, &prompt).await?;
        let reading = Reading::new(request, prompt.opening());
        self.read(response, started, reading, &mut events).await
    }

    /// Sends the prompt, in the form that the server takes.
    async fn post(
        &self,
        request: &Request<'_>,
        prompt: &Prompt,
    ) -> Result<(Instant, reqwest::Response), ProviderError> {
        let send = async |form: Value| {
            let body = self.options.server.body(request, form);
            let key = self.options.api_key.as_deref();
            let key = key.filter(|key| !key.is_empty());
            let started = Instant::now();
            let limits = &self.options.limits;
            let response = http::post(&self.client, &self.url, key, &body, limits).await?;
            Ok((started, response))
        };
        match self.options.prompt {
            PromptForm::Text => send(prompt.text()?.into()).await,
            PromptForm::Ids => send(prompt.ids()?.into()).await,
            PromptForm::Auto => match send(prompt.ids()?.into()).await {
                Err(error) if server::refuses_ids(&error) => send(prompt.text()?.into()).await,
                sent => sent,
            },
        }
    }

    async fn read(
        &self,
        mut response: reqwest::Response,
        started: Instant,
        mut reading: Reading,
        events: &mut EventSink<'_>,
    ) -> Result<Response, ProviderError> {
        let limits = &self.options.limits;
        let json = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|kind| kind.starts_with("application/json"));
        let mut decoder = SseDecoder::new(limits.event_bytes);
        let mut whole = Vec::new();
        let mut payloads = Vec::new();
        let mut received = 0_usize;
        let mut finished = started;
        loop {
            let read = http::next_bytes(&mut response, limits);
            let bytes = if reading.is_finished() {
                // Only the accounting may follow; its absence does not fail a complete answer.
                match tokio::time::timeout(http::ACCOUNTING, read).await {
                    Ok(Ok(Some(bytes))) if finished.elapsed() < http::ACCOUNTING => bytes,
                    _ => break,
                }
            } else {
                finished = Instant::now();
                match read.await? {
                    Some(bytes) => bytes,
                    None => break,
                }
            };
            received += bytes.len();
            if received > limits.response_bytes && !reading.is_finished() {
                return Err(http::too_much(limits.response_bytes));
            }
            if started.elapsed() > limits.total && !reading.is_finished() {
                return Err(http::too_long(limits));
            }
            if json {
                whole.extend_from_slice(&bytes);
                continue;
            }
            decoder.push(&bytes, &mut payloads).map_err(|error| {
                ProviderError::new(Category::InvalidResponse, error.to_string())
                    .with_help("raise `event_bytes` under [model] in logue.toml if this is right")
            })?;
            for payload in payloads.drain(..) {
                if payload.trim_ascii() == b"[DONE]" {
                    return reading.finish(events);
                }
                reading.chunk(&server::parse(&payload)?, events)?;
            }
        }
        if json {
            reading.chunk(&server::parse(&whole)?, events)?;
            return reading.finish(events);
        }
        if reading.is_finished() {
            return reading.finish(events);
        }
        Err(http::broken_off(if received == 0 {
            "the server sent a success status and then nothing"
        } else if decoder.is_inside_event() {
            "the connection ended in the middle of an event"
        } else {
            "the stream ended before the model had finished"
        }))
    }

    /// Nothing that a server or a library says may carry the key, or the password of the address.
    fn blot(&self, mut error: ProviderError) -> ProviderError {
        let password = self.url.password().filter(|password| !password.is_empty());
        for secret in self.options.api_key.as_deref().into_iter().chain(password) {
            if !secret.is_empty() {
                error.message = error.message.replace(secret, "[secret]");
            }
        }
        error.help = error
            .help
            .map(|help| help.replace("/chat/completions", "/completions"));
        error
    }
}

impl Provider for HarmonyCompletions {
    fn name(&self) -> &'static str {
        "gpt_oss"
    }

    fn complete<'a>(
        &'a self,
        request: &'a Request<'a>,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<Response, ProviderError>> {
        Box::pin(async move {
            request.validate()?;
            http::within_total(&self.options.limits, self.ask(request, events))
                .await
                .map_err(|error| self.blot(error))
        })
    }
}
