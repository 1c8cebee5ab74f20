//! The endpoint and authentication scheme of a wire format, as data.

use std::borrow::Cow;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, RequestBuilder, Url};
use serde_json::Value;

use super::redact::redacted_base_url;
use crate::{Category, ProviderAccount, ProviderError};

/// The endpoint and authentication scheme of a wire format.
#[derive(Debug)]
pub(crate) struct WireEndpoint {
    /// A final segment of the base URL that the path of a request replaces.
    pub(crate) replaced_segment: Option<&'static str>,
    /// The headers and the variable of the key.
    pub(crate) account: &'static ProviderAccount,
    /// An example of a base URL.
    pub(crate) example: &'static str,
}

/// The part of a request's URL that follows the base URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestTarget {
    /// The path segments, which are percent-encoded when they are appended.
    pub(crate) path: Vec<Cow<'static, str>>,
}

impl RequestTarget {
    /// Creates a target from fixed path segments.
    pub(crate) fn from_path(path: &[&'static str]) -> Self {
        Self {
            path: path.iter().copied().map(Cow::Borrowed).collect(),
        }
    }
}

/// Returns whether a text is a complete HTTP URL.
pub fn is_base_url(text: &str) -> bool {
    parse_base_url(text).is_ok()
}

/// Parses an HTTP URL; an error is the cause in plain words.
pub(crate) fn parse_base_url(text: &str) -> Result<Url, String> {
    match Url::parse(text) {
        Ok(url) if url.fragment().is_some() => {
            Err("it has a fragment, which no server receives; write `#` as `%23`".to_owned())
        }
        Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(url),
        Err(error) if text.trim_start().starts_with("http") && text.contains("://") => {
            Err(error.to_string())
        }
        _ => Err("it must begin with http:// or https://".to_owned()),
    }
}

impl WireEndpoint {
    /// Returns the URL to which the targets of requests are appended.
    ///
    /// # Errors
    /// Returns an error if the base URL is not an HTTP URL.
    pub(crate) fn base(&self, base_url: &str) -> Result<Url, ProviderError> {
        let invalid_url = |cause: &str| {
            ProviderError::new(
                Category::InvalidRequest,
                format!(
                    "invalid base URL `{}`: {cause}",
                    redacted_base_url(base_url)
                ),
            )
            .with_help(format!(
                "use a complete URL such as {} (--base-url, the environment or logue.toml)",
                self.example
            ))
        };
        let mut url = parse_base_url(base_url).map_err(|cause| invalid_url(&cause))?;
        let last_segment = url.path().trim_end_matches('/').rsplit('/').next();
        let is_replaced = self.replaced_segment.is_some() && self.replaced_segment == last_segment;
        let mut segments = url
            .path_segments_mut()
            .map_err(|()| invalid_url("its path cannot be extended"))?;
        segments.pop_if_empty();
        if is_replaced {
            segments.pop();
        }
        drop(segments);
        Ok(url)
    }

    /// Returns the URL of a request below the URL from [`base`](Self::base).
    pub(crate) fn url(base: &Url, target: &RequestTarget) -> Url {
        let mut url = base.clone();
        // `base` accepts only URLs whose path can be extended.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(&target.path);
        }
        url
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
        for (name, value) in self.account.headers {
            request = request.header(*name, *value);
        }
        if let Some(key) = key {
            let value = format!("{}{key}", self.account.key_prefix);
            let mut value = HeaderValue::from_str(&value).map_err(|_| {
                ProviderError::new(
                    Category::Authentication,
                    "the API key contains a character that is invalid in an HTTP header",
                )
                .with_help(format!(
                    "set {} again, without a trailing newline",
                    self.account.key_variable
                ))
            })?;
            value.set_sensitive(true);
            request = request.header(self.account.key_header, value);
        }
        Ok(request)
    }

    /// Adapts a help text from Chat Completions to the format.
    pub(crate) fn adapt_help(
        &self,
        target: &RequestTarget,
        mut error: ProviderError,
    ) -> ProviderError {
        error.help = error.help.map(|help| {
            help.replace("OPENAI_API_KEY", self.account.key_variable)
                .replace("/chat/completions", &format!("/{}", target.path.join("/")))
                .replace("often `/v1`", &format!("such as {}", self.example))
        });
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_may_contain_the_name_of_the_model() {
        let endpoint = WireEndpoint {
            replaced_segment: Some("v1"),
            account: ProviderAccount::OPENAI,
            example: "https://example.com",
        };
        let target = RequestTarget {
            path: vec!["v2".into(), "models".into(), "a/b:run".into()],
        };
        for (base, query) in [("/", ""), ("", ""), ("/?api-version=1", "?api-version=1")] {
            let base = endpoint.base(&format!("https://example.com/x/v1{base}"));
            let url = WireEndpoint::url(&base.unwrap(), &target);
            let expected = format!("https://example.com/x/v2/models/a%2Fb:run{query}");
            assert_eq!(url.as_str(), expected);
        }
    }
}
