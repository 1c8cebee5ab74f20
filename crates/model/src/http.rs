//! One streaming request over HTTP, under limits, with failures sorted into categories.
//!
//! A server can be slow, endless, wrong or gone at every byte. Each of these has a limit here and
//! an error that says which limit it was; nothing a server sends makes this module wait or grow
//! without bound.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use serde_json::Value;

use crate::refusal::Refusal;
use crate::retry_after::retry_after;
use crate::{Category, ProviderError};

/// What one request may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time to a connection, of TLS too.
    pub connect: Duration,
    /// Time to the first byte of the answer, from before there is a connection.
    pub first_byte: Duration,
    /// Time between two pieces of the answer.
    pub idle: Duration,
    /// Time for the whole answer. A server that has said so much is neither away nor silent: its
    /// model does not come to an end, and would not the next time.
    pub total: Duration,
    /// Bytes of the whole answer, as they come over the wire.
    pub response_bytes: usize,
    /// Bytes of one event of the stream.
    pub event_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(120),
            idle: Duration::from_secs(60),
            total: Duration::from_secs(30 * 60),
            response_bytes: 64 * 1024 * 1024,
            event_bytes: 8 * 1024 * 1024,
        }
    }
}

/// Time that the body of an error answer may take.
const EXPLANATION: Duration = Duration::from_secs(5);

/// Time that the accounting behind a complete answer may take.
pub(crate) const ACCOUNTING: Duration = Duration::from_secs(2);

/// Bytes of an error answer that are read.
const ERROR_BODY: usize = 64 * 1024;

/// A client that shares its connections.
///
/// # Errors
/// The TLS set-up of this machine is unusable.
pub(crate) fn client(limits: &Limits) -> Result<Client, ProviderError> {
    static RING: OnceLock<()> = OnceLock::new();
    RING.get_or_init(|| {
        // An embedding program may have installed another provider before; then that one serves.
        drop(rustls::crypto::ring::default_provider().install_default());
    });
    Client::builder()
        .connect_timeout(limits.connect)
        // A redirect would carry the conversation to a host that nobody named.
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("logue/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| {
            ProviderError::new(
                Category::Unavailable,
                format!("no HTTP client can be set up: {}", with_causes(&error)),
            )
            .with_help("check this machine's CA certificates (package ca-certificates)")
        })
}

/// Sends a JSON body and gives the answer once its headers are there and its status is a success.
///
/// # Errors
/// Every failure up to there, by category.
pub(crate) async fn post(
    client: &Client,
    url: &Url,
    key: Option<&str>,
    body: &Value,
    limits: &Limits,
) -> Result<Response, ProviderError> {
    let mut request = client
        .post(url.clone())
        .header(CONTENT_TYPE, "application/json")
        .header(
            reqwest::header::ACCEPT,
            "text/event-stream, application/json",
        )
        .body(body.to_string());
    if let Some(key) = key {
        let mut value = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| {
            ProviderError::new(
                Category::Authentication,
                "the API key holds a character that no HTTP header can carry",
            )
            .with_help("set OPENAI_API_KEY again, without a newline at its end")
        })?;
        value.set_sensitive(true);
        request = request.header(AUTHORIZATION, value);
    }
    send(request, url, limits).await
}

/// Sends a request and gives the answer once its headers are there and its status is a success.
///
/// # Errors
/// Every failure up to there, by category.
pub(crate) async fn send(
    request: RequestBuilder,
    url: &Url,
    limits: &Limits,
) -> Result<Response, ProviderError> {
    // A server that has said nothing at all is silent, whichever limit says so.
    let silent = limits.first_byte.min(limits.total);
    let sent = tokio::time::timeout(silent, request.send()).await;
    let response = match sent {
        Err(_) => {
            return Err(ProviderError::new(
                Category::Unavailable,
                format!("{url} gave no answer within {}", seconds(silent)),
            )
            .with_help("try again, or raise `first_byte_seconds` under [model] in logue.toml"));
        }
        Ok(Err(error)) => return Err(send_error(url, &error, limits)),
        Ok(Ok(response)) => response,
    };
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let headers = response.headers().clone();
    // The status is the error; a body that does not come only explains less.
    let text = tokio::time::timeout(EXPLANATION, error_body(response, limits)).await;
    let text = text.unwrap_or_default();
    Err(status_error(url, status, &headers, &text))
}

/// The next bytes of an answer; `None` at its end.
///
/// # Errors
/// The connection breaks, or nothing arrives within the idle limit.
pub(crate) async fn next_bytes(
    response: &mut Response,
    limits: &Limits,
) -> Result<Option<Vec<u8>>, ProviderError> {
    match tokio::time::timeout(limits.idle, response.chunk()).await {
        Err(_) => Err(ProviderError::new(
            Category::Unavailable,
            format!(
                "the server sent nothing for {} in mid-answer",
                seconds(limits.idle)
            ),
        )
        .with_help("try again, or raise `idle_seconds` under [model] in logue.toml")),
        Ok(Err(error)) => Err(broken_off(&with_causes(&error))),
        Ok(Ok(bytes)) => Ok(bytes.map(|bytes| bytes.to_vec())),
    }
}

/// The error of an answer that ends before it is complete.
pub(crate) fn broken_off(how: &str) -> ProviderError {
    ProviderError::new(
        Category::Unavailable,
        format!("the answer broke off: {how}"),
    )
    .with_help("nothing of the incomplete answer was kept; run the same command again")
}

/// The error of an answer that is larger than its limit.
pub(crate) fn too_much(limit: usize) -> ProviderError {
    ProviderError::new(
        Category::InvalidResponse,
        format!("the answer is larger than {limit} bytes; the request was ended"),
    )
    .with_help(
        "set `max_tokens` in <config/>, or raise `response_bytes` under [model] in logue.toml",
    )
}

/// The error of an answer that takes longer than its limit.
pub(crate) fn too_long(limits: &Limits) -> ProviderError {
    ProviderError::new(
        Category::InvalidResponse,
        format!(
            "the answer was not complete after {}",
            seconds(limits.total)
        ),
    )
    .with_help(
        "set `max_tokens` in <config/>, or raise `total_seconds` under [model] in logue.toml",
    )
}

/// A request that ends at its total limit, wherever it is. The time that accounting may take is on
/// top, so that it is never the reason why a complete answer is lost.
///
/// # Errors
/// What `request` fails with, or that it took too long.
pub(crate) async fn within_total<T>(
    limits: &Limits,
    request: impl Future<Output = Result<T, ProviderError>>,
) -> Result<T, ProviderError> {
    match tokio::time::timeout(limits.total + ACCOUNTING, request).await {
        Ok(result) => result,
        Err(_) => Err(too_long(limits)),
    }
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

fn send_error(url: &Url, error: &reqwest::Error, limits: &Limits) -> ProviderError {
    let causes = with_causes(error);
    if error.is_builder() {
        return ProviderError::new(
            Category::InvalidRequest,
            format!("`{url}` is no address that a request can be sent to: {causes}"),
        )
        .with_help("check the base URL (--base-url, OPENAI_BASE_URL or logue.toml)");
    }
    if error.is_connect() && error.is_timeout() {
        return ProviderError::new(
            Category::Unavailable,
            format!("no connection to {url} within {}", seconds(limits.connect)),
        )
        .with_help(
            "check the host, its port and what lies between, or raise `connect_seconds` under \
             [model] in logue.toml",
        );
    }
    let message = if error.is_connect() {
        format!("cannot reach {url}: {causes}")
    } else {
        format!("the request to {url} failed: {causes}")
    };
    ProviderError::new(Category::Unavailable, message)
        .with_help("check that the server runs and that the base URL is right, then try again")
}

async fn error_body(mut response: Response, limits: &Limits) -> String {
    let mut body = Vec::new();
    // The status is the error; its body only explains, so whatever breaks here is not reported.
    while let Ok(Some(bytes)) = next_bytes(&mut response, limits).await {
        body.extend_from_slice(&bytes);
        if body.len() >= ERROR_BODY {
            body.truncate(ERROR_BODY);
            break;
        }
    }
    String::from_utf8_lossy(&body).into_owned()
}

fn status_error(url: &Url, status: StatusCode, headers: &HeaderMap, body: &str) -> ProviderError {
    let refusal = Refusal::of_answer(status.as_u16(), body);
    let mut error = refusal.into_error(&format!("{url} answered {status}"));
    error.retry_after = retry_after(headers, SystemTime::now());
    if let (true, Some(wait)) = (error.transient, error.retry_after) {
        let seconds = wait.as_secs_f64().ceil();
        error.help = Some(format!(
            "the server asks to wait {seconds} s, then run it again"
        ));
    }
    error
}

/// An error with the chain of its causes, which is where the reason of a failed request is.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = error.source();
    }
    text
}
