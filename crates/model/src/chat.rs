//! Any server that speaks the Chat Completions format.

use std::time::Instant;

use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Url};
use serde_json::Value;

use crate::assemble::Assembler;
use crate::dialect::Dialect;
use crate::http::{self, Limits};
use crate::sse::SseDecoder;
use crate::wire;
use crate::{BoxFuture, Category, EventSink, Provider, ProviderError, Request, Response};

/// Where a server is and how to speak to it.
#[derive(Clone)]
pub struct ChatOptions {
    /// The address that `/chat/completions` is added to.
    pub base_url: String,
    /// The key, sent as a bearer token; servers on one's own machine need none.
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

/// A server with `/chat/completions`, asked over HTTP with streaming.
#[derive(Debug)]
pub struct ChatCompletions {
    options: ChatOptions,
    url: Url,
    dialect: Dialect,
    client: Client,
}

impl ChatCompletions {
    /// A provider for one server.
    ///
    /// # Errors
    /// The base URL is no address, or the TLS set-up of this machine is unusable.
    pub fn new(options: ChatOptions) -> Result<Self, ProviderError> {
        let url = endpoint(&options.base_url)?;
        let client = http::client(&options.limits)?;
        let dialect = Dialect::of(&options.base_url);
        Ok(Self {
            options,
            url,
            dialect,
            client,
        })
    }

    /// Nothing that a server or a library says may carry the key, or the password of the address.
    fn blot(&self, mut error: ProviderError) -> ProviderError {
        let password = self.url.password().filter(|password| !password.is_empty());
        for secret in self.options.api_key.as_deref().into_iter().chain(password) {
            if !secret.is_empty() {
                error.message = error.message.replace(secret, "[secret]");
            }
        }
        error
    }

    async fn ask(
        &self,
        request: &Request<'_>,
        mut events: EventSink<'_>,
    ) -> Result<Response, ProviderError> {
        let limits = &self.options.limits;
        let body = wire::request_body(request, self.dialect)?;
        let started = Instant::now();
        let key = self
            .options
            .api_key
            .as_deref()
            .filter(|key| !key.is_empty());
        let mut response = http::post(&self.client, &self.url, key, &body, limits).await?;
        let json = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|kind| kind.starts_with("application/json"));
        let mut assembler = Assembler::new(request.messages);
        let mut decoder = SseDecoder::new(limits.event_bytes);
        let mut whole = Vec::new();
        let mut received = 0_usize;
        let mut payloads = Vec::new();
        let mut finished = started;
        let mut events_seen = false;
        let mut opening = Vec::new();
        loop {
            let read = http::next_bytes(&mut response, limits);
            let bytes = if assembler.is_finished() {
                // The answer is complete; only the accounting may follow, and it is not waited for
                // long, nor can its absence fail the answer.
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
            if received > limits.response_bytes && !assembler.is_finished() {
                return Err(http::too_much(limits.response_bytes));
            }
            if started.elapsed() > limits.total && !assembler.is_finished() {
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
            if opening.len() < OPENING {
                let room = OPENING - opening.len();
                opening.extend_from_slice(&bytes[..bytes.len().min(room)]);
            }
            for payload in payloads.drain(..) {
                events_seen = true;
                if payload.trim_ascii() == b"[DONE]" {
                    return assembler.finish(&mut events);
                }
                assembler.chunk(&parse(&payload)?, &mut events)?;
            }
        }
        if json {
            assembler.chunk(&parse(&whole)?, &mut events)?;
            return assembler.finish(&mut events);
        }
        if assembler.is_finished() {
            return assembler.finish(&mut events);
        }
        Err(if received == 0 {
            http::broken_off("the server sent a success status and then nothing")
        } else if !events_seen && !looks_like_events(&opening) {
            no_events(&opening)
        } else if decoder.is_inside_event() {
            http::broken_off("the connection ended in the middle of an event")
        } else {
            http::broken_off("the stream ended before the model had finished")
        })
    }
}

impl Provider for ChatCompletions {
    fn name(&self) -> &'static str {
        self.dialect.provider_name()
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

fn parse(payload: &[u8]) -> Result<Value, ProviderError> {
    serde_json::from_slice(payload).map_err(|error| {
        let shown: String = String::from_utf8_lossy(payload).chars().take(120).collect();
        ProviderError::new(
            Category::InvalidResponse,
            format!("the server sent something that is not JSON ({error}): {shown:?}"),
        )
        .with_help("check that the base URL is one of a Chat Completions server")
    })
}

/// The address of the completions below a base URL.
fn endpoint(base_url: &str) -> Result<Url, ProviderError> {
    let wrong = |why: String| {
        ProviderError::new(Category::InvalidRequest, format!("the base URL `{base_url}` {why}"))
            .with_help("write it whole, such as http://localhost:8000/v1 (--base-url, OPENAI_BASE_URL or logue.toml)")
    };
    let mut url = Url::parse(base_url).map_err(|error| wrong(format!("is no address: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("does not begin with http:// or https://".to_owned()));
    }
    url.path_segments_mut()
        .map_err(|()| wrong("has no path that could be extended".to_owned()))?
        .pop_if_empty()
        .extend(["chat", "completions"]);
    Ok(url)
}

/// Bytes of an answer that are kept to say what it was instead of events.
const OPENING: usize = 120;

/// Whether the first bytes can be the beginning of an event stream.
fn looks_like_events(opening: &[u8]) -> bool {
    let opening = opening
        .strip_prefix(b"\xEF\xBB\xBF")
        .unwrap_or(opening)
        .trim_ascii_start();
    opening.is_empty()
        || [b":".as_slice(), b"data", b"event", b"id", b"retry"]
            .iter()
            .any(|field| {
                let len = field.len().min(opening.len());
                field[..len] == opening[..len]
            })
}

fn no_events(opening: &[u8]) -> ProviderError {
    let shown = String::from_utf8_lossy(opening);
    ProviderError::new(
        Category::InvalidResponse,
        format!("the server sent something that is no event stream: {shown:?}"),
    )
    .with_help("check that the base URL is one of a Chat Completions server, often ending in `/v1`")
}
