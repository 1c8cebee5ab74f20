//! The connection options of a model server.

use super::{HttpLimits, RequestCapture};

/// The address, key and limits of a model server, for every wire format.
#[derive(Clone)]
#[non_exhaustive]
pub struct EndpointOptions {
    /// The base URL, to which the path of the wire format is appended.
    pub base_url: String,
    /// The API key; local servers usually need none.
    pub api_key: Option<String>,
    /// The limits of one request.
    pub limits: HttpLimits,
    /// Receives requests instead of the server.
    pub capture: Option<RequestCapture>,
}

impl EndpointOptions {
    /// Creates options without a key and with the default limits.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            api_key: None,
            limits: HttpLimits::default(),
            capture: None,
        }
    }

    /// Sets the API key.
    #[must_use]
    pub fn with_api_key(mut self, api_key: impl Into<String>) -> Self {
        self.api_key = Some(api_key.into());
        self
    }

    /// Sets the limits of one request.
    #[must_use]
    pub fn with_limits(mut self, limits: HttpLimits) -> Self {
        self.limits = limits;
        self
    }
}

impl std::fmt::Debug for EndpointOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EndpointOptions")
            .field("base_url", &self.base_url)
            .field("api_key", &self.api_key.as_ref().map(|_| "[key]"))
            .field("limits", &self.limits)
            .field("capture", &self.capture)
            .finish()
    }
}
