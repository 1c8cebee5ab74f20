//! One model request over HTTP and its response, for every wire format.

use std::time::{Duration, Instant};

use reqwest::{Client, Url};
use serde_json::Value;

use super::client::{create_client, next_bytes, seconds, send};
use super::{EndpointOptions, HttpLimits, RequestTarget, WireEndpoint, redact};
use crate::stream::{ResponseReader, make_ids_unique};
use crate::wire::WireRequest;
use crate::{Category, EventHandler, ModelRequest, ModelResponse, ProviderError};

/// The time limit for usage data that follows a complete response.
const USAGE_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection to one endpoint.
#[derive(Debug)]
pub(crate) struct HttpExchange {
    options: EndpointOptions,
    endpoint: &'static WireEndpoint,
    /// The URL to which the target of a request is appended.
    base: Url,
    client: Client,
}

impl HttpExchange {
    /// Creates a connection to one server.
    ///
    /// # Errors
    /// Returns an error if the base URL is invalid or the TLS configuration of the machine is
    /// unusable.
    pub(crate) fn new(
        options: EndpointOptions,
        endpoint: &'static WireEndpoint,
    ) -> Result<Self, ProviderError> {
        let base = endpoint.base(&options.base_url)?;
        let client = create_client(&options.limits)?;
        Ok(Self {
            options,
            endpoint,
            base,
            client,
        })
    }

    /// Sends an encoded request and reads the response.
    ///
    /// # Errors
    /// Returns every failure with its category. Messages contain neither the key nor the password and
    /// the query of the URL.
    pub(crate) async fn run(
        &self,
        request: &ModelRequest<'_>,
        encoded: WireRequest<'_>,
        events: EventHandler<'_>,
    ) -> Result<ModelResponse, ProviderError> {
        if let Some(capture) = &self.options.capture {
            return Err(capture.keep(&encoded.body));
        }
        let limits = &self.options.limits;
        // Waiting for usage data must not fail a complete response, so its time is added.
        let total = limits.total + USAGE_TIMEOUT;
        let result = match tokio::time::timeout(total, self.exchange(encoded, events)).await {
            Ok(result) => result,
            Err(_) => Err(total_time_exceeded(limits)),
        };
        // A query may contain a key.
        let (password, query) = (self.base.password(), self.base.query());
        let key = self.options.api_key.as_deref();
        let secrets = key.into_iter().chain(password).chain(query);
        let mut response = result.map_err(|error| redact(error, secrets))?;
        make_ids_unique(&mut response.message, request.messages);
        Ok(response)
    }

    async fn exchange(
        &self,
        encoded: WireRequest<'_>,
        events: EventHandler<'_>,
    ) -> Result<ModelResponse, ProviderError> {
        let limits = &self.options.limits;
        let reader = ResponseReader::with_decoder(encoded.decoder, limits.event_bytes);
        let target = &encoded.target;
        let started = Instant::now();
        let (started, response) = match (self.post(target, &encoded.body).await, encoded.fallback) {
            (Err(error), Some(fallback)) if (fallback.applies_to)(&error) => {
                let body = (fallback.body)()?;
                (Instant::now(), self.post(target, &body).await?)
            }
            (result, _) => (started, result?),
        };
        self.read(response, started, reader, events).await
    }

    async fn post(
        &self,
        target: &RequestTarget,
        body: &Value,
    ) -> Result<reqwest::Response, ProviderError> {
        let url = WireEndpoint::url(&self.base, target);
        let key = self.options.api_key.as_deref();
        let key = key.filter(|key| !key.is_empty());
        let request = self.endpoint.request(&self.client, &url, key, body)?;
        let response = send(request, &url, &self.options.limits).await;
        response.map_err(|error| self.endpoint.adapt_help(target, error))
    }

    async fn read(
        &self,
        mut response: reqwest::Response,
        started: Instant,
        mut reader: ResponseReader,
        events: EventHandler<'_>,
    ) -> Result<ModelResponse, ProviderError> {
        let limits = &self.options.limits;
        let mut received = 0_usize;
        let mut finished = started;
        while !reader.has_ended() {
            let next = next_bytes(&mut response, limits);
            let bytes = if reader.is_finished() {
                // The response is complete; late or missing usage data must not fail it.
                match tokio::time::timeout(USAGE_TIMEOUT, next).await {
                    Ok(Ok(Some(bytes))) if finished.elapsed() < USAGE_TIMEOUT => bytes,
                    _ => break,
                }
            } else {
                finished = Instant::now();
                match next.await? {
                    Some(bytes) => bytes,
                    None => break,
                }
            };
            received += bytes.len();
            if received > limits.response_bytes && !reader.is_finished() {
                return Err(size_exceeded(limits));
            }
            if started.elapsed() > limits.total && !reader.is_finished() {
                return Err(total_time_exceeded(limits));
            }
            reader.push(&bytes, &mut *events)?;
        }
        reader.finish(events)
    }
}

fn size_exceeded(limits: &HttpLimits) -> ProviderError {
    ProviderError::new(
        Category::InvalidResponse,
        format!(
            "the response exceeds {} bytes; the request was cancelled",
            limits.response_bytes
        ),
    )
    .without_quotes()
    .with_help(
        "set `max_tokens` in <config/>, or raise `max_response_bytes` under [model] in logue.toml",
    )
}

fn total_time_exceeded(limits: &HttpLimits) -> ProviderError {
    ProviderError::new(
        Category::InvalidResponse,
        format!(
            "the response was not complete after {}",
            seconds(limits.total)
        ),
    )
    .without_quotes()
    .with_help(
        "set `max_tokens` in <config/>, or raise `total_timeout_seconds` under [model] in logue.toml",
    )
}
