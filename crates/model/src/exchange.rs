//! One request to a server and its answer, under limits, for every wire format.

use std::time::Instant;

use reqwest::{Client, Url};
use serde_json::Value;

use crate::answer::AnswerReader;
use crate::draft::make_ids_unique;
use crate::http::{self, Manner};
use crate::{ChatOptions, EventSink, ProviderError, Request, Response};

/// A server that is asked.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) options: ChatOptions,
    manner: &'static Manner,
    url: Url,
    client: Client,
}

impl Exchange {
    /// For one server.
    ///
    /// # Errors
    /// The base URL is no address, or the TLS set-up of this machine is unusable.
    pub(crate) fn new(
        options: ChatOptions,
        manner: &'static Manner,
    ) -> Result<Self, ProviderError> {
        let url = manner.endpoint(&options.base_url)?;
        let client = http::client(&options.limits)?;
        Ok(Self {
            options,
            manner,
            url,
            client,
        })
    }

    /// Sends `body` and reads the answer.
    ///
    /// # Errors
    /// Every failure, by category. None of them holds the key, or the password of the address.
    pub(crate) async fn ask(
        &self,
        request: &Request<'_>,
        body: &Value,
        reader: AnswerReader,
        events: EventSink<'_>,
    ) -> Result<Response, ProviderError> {
        let limits = &self.options.limits;
        let answer = http::within_total(limits, self.answer(body, reader, events)).await;
        let mut response = answer.map_err(|error| self.blot(error))?;
        make_ids_unique(&mut response.message, request.messages);
        Ok(response)
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

    async fn answer(
        &self,
        body: &Value,
        mut reader: AnswerReader,
        events: EventSink<'_>,
    ) -> Result<Response, ProviderError> {
        let limits = &self.options.limits;
        let started = Instant::now();
        let key = self.options.api_key.as_deref();
        let key = key.filter(|key| !key.is_empty());
        let mut response =
            http::post(&self.client, &self.url, self.manner, key, body, limits).await?;
        let mut received = 0_usize;
        let mut finished = started;
        while !reader.has_ended() {
            let read = http::next_bytes(&mut response, limits);
            let bytes = if reader.is_finished() {
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
            if received > limits.response_bytes && !reader.is_finished() {
                return Err(http::too_much(limits.response_bytes));
            }
            if started.elapsed() > limits.total && !reader.is_finished() {
                return Err(http::too_long(limits));
            }
            reader.push(&bytes, &mut *events)?;
        }
        reader.finish(events)
    }
}
