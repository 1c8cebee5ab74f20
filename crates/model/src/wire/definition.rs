//! The parts that define a wire format.

use serde_json::Value;

use crate::http::{RequestTarget, WireEndpoint};
use crate::stream::Decoder;
use crate::{ModelRequest, ProviderError, ServerKind, ServerProfile};

/// The implementation of a wire format.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) endpoint: WireEndpoint,
    pub(crate) profile: fn(ServerKind) -> &'static ServerProfile,
    pub(crate) encode: Encode,
    /// Creates a decoder that does not depend on a request.
    pub(crate) decoder: fn() -> Box<dyn Decoder>,
}

/// Encodes a request for a server; the flag selects a streamed response.
///
/// # Errors
/// Returns an error if the format or the server cannot represent the request.
pub(crate) type Encode = for<'r> fn(
    &'r ModelRequest<'r>,
    &ServerProfile,
    bool,
) -> Result<WireRequest<'r>, ProviderError>;

/// An encoded request and the decoder of its response.
#[derive(Debug)]
pub(crate) struct WireRequest<'r> {
    pub(crate) target: RequestTarget,
    pub(crate) body: Value,
    pub(crate) decoder: Box<dyn Decoder>,
    pub(crate) fallback: Option<Fallback<'r>>,
}

impl WireRequest<'_> {
    pub(crate) fn new(target: RequestTarget, body: Value, decoder: Box<dyn Decoder>) -> Self {
        Self {
            target,
            body,
            decoder,
            fallback: None,
        }
    }
}

/// A second body for a server that rejects the first one.
pub(crate) struct Fallback<'r> {
    /// Returns whether the fallback applies to an error.
    pub(crate) applies_to: fn(&ProviderError) -> bool,
    /// Builds the second body.
    pub(crate) body: Box<dyn FnOnce() -> Result<Value, ProviderError> + Send + 'r>,
}

impl std::fmt::Debug for Fallback<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fallback").finish_non_exhaustive()
    }
}
