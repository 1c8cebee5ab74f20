//! Servers over HTTP.
//!
//! Connections use the clients of the [`Fetcher`], so only allowed hosts are contacted. Redirects
//! are not followed, because they could leak a secret.

use std::collections::HashMap;
use std::error::Error;

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use super::oauth;
use super::options::McpOptions;
use super::transport::ServerTransport;
use crate::Fetcher;

/// Connects to `url` with the settings of the server.
pub(crate) async fn transport(
    network: &Fetcher,
    url: &str,
    name: &str,
    options: &McpOptions,
) -> Result<ServerTransport, String> {
    let declared = url;
    let (url, client) = network.client_for(url).map_err(|error| error.message)?;
    let settings = options.settings(name);
    let mut headers = HashMap::new();
    for (header, value) in &settings.headers {
        let read = HeaderName::try_from(header.as_str())
            .ok()
            .zip(HeaderValue::try_from(value.as_str()).ok());
        let Some((header, mut value)) = read else {
            return Err(format!("`{header}` of its settings is not a valid header"));
        };
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
        .custom_headers(headers)
        .max_sse_event_size(options.message_bytes);
    let bearer = match settings.bearer.clone() {
        Some(bearer) => Some(bearer),
        None => oauth::token(network, declared, &settings, options.tokens.as_ref()).await?,
    };
    if let Some(bearer) = bearer {
        config = config.auth_header(bearer);
    }
    let transport = StreamableHttpClientTransport::with_client(client.clone(), config);
    Ok(ServerTransport::Http(Box::new(transport)))
}

/// Formats an error with its causes, and the remedy if authorization is required.
pub(crate) fn why(error: &(dyn Error + 'static), name: &str) -> String {
    let mut text = without_transport(&error.to_string());
    let mut cause = error.source();
    while let Some(inner) = cause {
        let words = inner.to_string();
        if !text.contains(&words) && !words.contains("Transport [") {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = inner.source();
    }
    if text.contains("Auth required") || text.contains("authorization required") {
        text = format!("it requires authorization; `logue mcp login {name}` logs in ({text})");
    }
    text
}

/// Replaces the name of the library's transport in the text of an error.
fn without_transport(text: &str) -> String {
    let cause = text
        .split_once("Transport [")
        .and_then(|(_, rest)| rest.split_once("] error: "));
    match cause {
        Some((_, cause)) => format!("the connection failed: {cause}"),
        None => text.to_owned(),
    }
}
