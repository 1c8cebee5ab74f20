//! The provider for every model server with a JSON wire format.

use futures_util::future::BoxFuture;

use crate::http::HttpExchange;
use crate::{
    EndpointOptions, EventHandler, ModelRequest, ModelResponse, Provider, ProviderError,
    ServerKind, ServerProfile, WireFormat,
};

/// A model server that is reached over HTTP in one of the [`WireFormat`]s.
///
/// ```no_run
/// use logue_model::{EndpointOptions, HttpProvider, WireFormat};
///
/// # fn main() -> Result<(), logue_model::ProviderError> {
/// let options = EndpointOptions::new("https://api.openai.com/v1").with_api_key("sk-…");
/// let provider = HttpProvider::new(WireFormat::Responses, options)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct HttpProvider {
    format: WireFormat,
    exchange: HttpExchange,
    profile: ServerProfile,
    is_streaming: bool,
}

impl HttpProvider {
    /// Creates a streaming provider; the base URL determines the [`ServerKind`].
    ///
    /// # Errors
    /// Returns an error if the base URL is invalid or the TLS configuration of the machine is
    /// unusable.
    pub fn new(format: WireFormat, options: EndpointOptions) -> Result<Self, ProviderError> {
        let profile = *format.profile(ServerKind::from_base_url(&options.base_url));
        Ok(Self {
            format,
            exchange: HttpExchange::new(options, &format.wire().endpoint)?,
            profile,
            is_streaming: true,
        })
    }

    /// Sets the kind of the server.
    #[must_use]
    pub fn with_server_kind(self, kind: ServerKind) -> Self {
        let profile = *self.format.profile(kind);
        self.with_profile(profile)
    }

    /// Sets the profile of the server.
    #[must_use]
    pub fn with_profile(mut self, profile: ServerProfile) -> Self {
        self.profile = profile;
        self
    }

    /// Sets whether the response is streamed.
    ///
    /// Without a stream, all events are reported when the response is complete.
    #[must_use]
    pub fn with_stream(mut self, is_streaming: bool) -> Self {
        self.is_streaming = is_streaming;
        self
    }
}

impl Provider for HttpProvider {
    fn name(&self) -> &'static str {
        self.profile.name
    }

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
        events: EventHandler<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ProviderError>> {
        Box::pin(async move {
            request.validate()?;
            let encoded = (self.format.wire().encode)(request, &self.profile, self.is_streaming)?;
            self.exchange.run(request, encoded, events).await
        })
    }
}
