//! The endpoint and authentication scheme of a wire format, as data.

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Client, RequestBuilder, Url};
use serde_json::Value;

use crate::{Category, ProviderError};

/// The endpoint and authentication scheme of a wire format.
#[derive(Debug)]
pub(crate) struct WireEndpoint {
    /// The path segments that are appended to a base URL.
    pub(crate) path: &'static [&'static str],
    /// A final segment of the base URL that `path` replaces.
    pub(crate) replaced_segment: Option<&'static str>,
    /// The header that carries the key.
    pub(crate) key_header: HeaderName,
    /// The text before the key in the header.
    pub(crate) key_prefix: &'static str,
    /// The environment variable that usually contains the key.
    pub(crate) key_variable: &'static str,
    /// Further headers.
    pub(crate) headers: &'static [(&'static str, &'static str)],
    /// An example of a base URL.
    pub(crate) example: &'static str,
}

impl WireEndpoint {
    /// Returns the URL of the endpoint below a base URL.
    ///
    /// # Errors
    /// Returns an error if the base URL is not an HTTP URL.
    pub(crate) fn url(&self, base_url: &str) -> Result<Url, ProviderError> {
        let invalid_url = |cause: &str| {
            ProviderError::new(
                Category::InvalidRequest,
                format!("invalid base URL `{base_url}`: {cause}"),
            )
            .with_help(format!(
                "use a complete URL such as {} (--base-url, the environment or logue.toml)",
                self.example
            ))
        };
        let mut url = Url::parse(base_url).map_err(|error| invalid_url(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(invalid_url("it must begin with http:// or https://"));
        }
        let last_segment = url.path().trim_end_matches('/').rsplit('/').next();
        let is_replaced = self.replaced_segment.is_some() && self.replaced_segment == last_segment;
        let mut segments = url
            .path_segments_mut()
            .map_err(|()| invalid_url("its path cannot be extended"))?;
        segments.pop_if_empty();
        if is_replaced {
            segments.pop();
        }
        segments.extend(self.path);
        drop(segments);
        Ok(url)
    }

    /// Builds the request that posts a JSON body.
    ///
    /// # Errors
    /// Returns an error if the key contains a character that is invalid in a header.
    pub(crate) fn request(
        &self,
        client: &Client,
        url: &Url,
        key: Option<&str>,
        body: &Value,
    ) -> Result<RequestBuilder, ProviderError> {
        let mut request = client
            .post(url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream, application/json")
            .body(body.to_string());
        for (name, value) in self.headers {
            request = request.header(*name, *value);
        }
        if let Some(key) = key {
            let value = format!("{}{key}", self.key_prefix);
            let mut value = HeaderValue::from_str(&value).map_err(|_| {
                ProviderError::new(
                    Category::Authentication,
                    "the API key contains a character that is invalid in an HTTP header",
                )
                .with_help(format!(
                    "set {} again, without a trailing newline",
                    self.key_variable
                ))
            })?;
            value.set_sensitive(true);
            request = request.header(&self.key_header, value);
        }
        Ok(request)
    }

    /// Adapts a help text from Chat Completions to the format.
    pub(crate) fn adapt_help(&self, mut error: ProviderError) -> ProviderError {
        error.help = error.help.map(|help| {
            help.replace("OPENAI_API_KEY", self.key_variable)
                .replace("/chat/completions", &format!("/{}", self.path.join("/")))
                .replace("often `/v1`", &format!("such as {}", self.example))
        });
        error
    }
}
