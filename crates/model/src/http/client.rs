//! The HTTP client: sending under limits and classification of failures.

use std::io;
use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};

use super::retry_after::retry_after;
use super::tls;
use super::{HttpLimits, ServerError};
use crate::stream::interrupted;
use crate::{Category, ProviderError};

/// The time limit for the body of an error response.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// The number of bytes of an error response that are read.
const MAX_ERROR_BODY_BYTES: usize = 64 * 1024;

/// The remedy if certificates cannot be verified.
const CERTIFICATES: &str = "check this machine's CA certificates (package ca-certificates)";

/// Creates a client with a connection pool.
///
/// # Errors
/// Returns an error if the TLS configuration of the machine is unusable.
pub(crate) fn create_client(limits: &HttpLimits) -> Result<Client, ProviderError> {
    let no_client = |cause: &dyn std::error::Error| {
        let message = format!("cannot create an HTTP client: {}", with_causes(cause));
        ProviderError::new(Category::Unavailable, message).with_help(CERTIFICATES)
    };
    let tls = tls::config().map_err(|error| no_client(&error))?;
    // The proxy of the environment applies, as users of a command line expect.
    Client::builder()
        .connect_timeout(limits.connect)
        // A redirect would send the conversation to a host that the user did not configure.
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("logue/", env!("CARGO_PKG_VERSION")))
        .tls_backend_preconfigured(tls)
        .build()
        .map_err(|error| no_client(&error))
}

/// Sends a request and returns the response once its success status has arrived.
///
/// # Errors
/// Returns an error if the request cannot be sent, exceeds a time limit or is answered with an error
/// status.
pub(crate) async fn send(
    request: RequestBuilder,
    url: &Url,
    limits: &HttpLimits,
) -> Result<Response, ProviderError> {
    let timeout = limits.first_byte.min(limits.total);
    let response = match tokio::time::timeout(timeout, request.send()).await {
        Err(_) => {
            return Err(ProviderError::new(
                Category::Unavailable,
                format!("{url} sent no response within {}", seconds(timeout)),
            )
            .with_public(format!(
                "the model server sent no response within {}",
                seconds(timeout)
            ))
            .with_help(
                "try again, or raise `first_byte_timeout_seconds` under [model] in logue.toml",
            ));
        }
        Ok(Err(error)) => return Err(send_error(url, &error, limits)),
        Ok(Ok(response)) => response,
    };
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let headers = response.headers().clone();
    // The status is the error; a missing body only shortens the message.
    let text = tokio::time::timeout(ERROR_BODY_TIMEOUT, error_body(response, limits)).await;
    let text = text.unwrap_or_default();
    Err(status_error(url, status, &headers, &text))
}

/// Returns the next bytes of a response, or `None` at its end.
///
/// # Errors
/// Returns an error if the connection fails or the idle limit expires.
pub(crate) async fn next_bytes(
    response: &mut Response,
    limits: &HttpLimits,
) -> Result<Option<Vec<u8>>, ProviderError> {
    match tokio::time::timeout(limits.idle, response.chunk()).await {
        Err(_) => Err(ProviderError::new(
            Category::Unavailable,
            format!(
                "the server sent nothing for {} within the response",
                seconds(limits.idle)
            ),
        )
        .without_quotes()
        .with_help("try again, or raise `idle_timeout_seconds` under [model] in logue.toml")),
        Ok(Err(error)) => Err(interrupted(&with_causes(&error))),
        Ok(Ok(bytes)) => Ok(bytes.map(|bytes| bytes.to_vec())),
    }
}

pub(super) fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

fn send_error(url: &Url, error: &reqwest::Error, limits: &HttpLimits) -> ProviderError {
    let causes = with_causes(error);
    if error.is_builder() {
        return ProviderError::new(
            Category::InvalidRequest,
            format!("cannot send a request to `{url}`: {causes}"),
        )
        .with_help("check the base URL (--base-url, the environment or logue.toml)");
    }
    if error.is_connect() && error.is_timeout() {
        return ProviderError::new(
            Category::Unavailable,
            format!("no connection to {url} within {}", seconds(limits.connect)),
        )
        .with_public(format!("no connection to the model server within {}", seconds(limits.connect)))
        .with_help(
            "check the host, its port and the network, or raise `connect_timeout_seconds` under [model] \
             in logue.toml",
        );
    }
    let message = if error.is_connect() {
        format!("cannot reach {url}: {causes}")
    } else {
        format!("the request to {url} failed: {causes}")
    };
    let is_tls = has_tls_error(error);
    let help = if is_tls {
        CERTIFICATES
    } else {
        "check that the server runs and that the base URL is right, then try again"
    };
    let public = match (is_tls, error.is_connect()) {
        (true, _) => "no encrypted connection to the model server",
        (false, true) if is_refused(error) => "the model server refuses connections",
        (false, true) => "the model server cannot be reached",
        (false, false) => "the request to the model server failed",
    };
    ProviderError::new(Category::Unavailable, message)
        .with_help(help)
        .with_public(public)
}

/// Returns whether a connection was refused.
fn is_refused(error: &(dyn std::error::Error + 'static)) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|io| io.kind() == io::ErrorKind::ConnectionRefused)
        || error.source().is_some_and(is_refused)
}

/// Returns whether a connection failed because of TLS. An I/O error hides the error that it wraps.
fn has_tls_error(error: &(dyn std::error::Error + 'static)) -> bool {
    let io = error.downcast_ref::<io::Error>();
    error.is::<rustls::Error>()
        || io
            .and_then(io::Error::get_ref)
            .is_some_and(|inner| has_tls_error(inner))
        || error.source().is_some_and(has_tls_error)
}

async fn error_body(mut response: Response, limits: &HttpLimits) -> String {
    let mut body = Vec::new();
    while let Ok(Some(bytes)) = next_bytes(&mut response, limits).await {
        body.extend_from_slice(&bytes);
        if body.len() >= MAX_ERROR_BODY_BYTES {
            body.truncate(MAX_ERROR_BODY_BYTES);
            break;
        }
    }
    String::from_utf8_lossy(&body).into_owned()
}

fn status_error(url: &Url, status: StatusCode, headers: &HeaderMap, body: &str) -> ProviderError {
    let error = ServerError::from_response(status.as_u16(), body);
    let mut error = error.into_error(&format!("{url} returned {status}"));
    error.status = Some(status.as_u16());
    error.retry_after = retry_after(headers, SystemTime::now());
    if let (true, Some(wait)) = (error.transient, error.retry_after) {
        let seconds = wait.as_secs_f64().ceil();
        error.help = Some(format!(
            "wait {seconds} s, as the server requests, then run it again"
        ));
    }
    error
}

/// Formats an error with its chain of causes.
///
/// The causes contain the reason of a failed request.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let cause_text = error.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        cause = error.source();
    }
    text
}
