//! The decoder interface of a wire format.

use serde_json::Value;

use crate::{EventHandler, ModelResponse, ProviderError};

/// Decodes the JSON of one wire format into events and a response.
///
/// The input is either the payloads of an event stream, in order, or one complete response.
pub(crate) trait Decoder: std::fmt::Debug + Send {
    /// Decodes one stream payload or a complete response.
    ///
    /// # Errors
    /// Returns an error if the JSON reports a server error or does not match the format.
    fn decode(&mut self, value: &Value, events: &mut EventHandler<'_>)
    -> Result<(), ProviderError>;

    /// Returns whether the stop reason has arrived; only usage data may follow.
    fn is_finished(&self) -> bool;

    /// Returns whether no payload can follow.
    fn has_ended(&self) -> bool {
        false
    }

    /// Builds the complete response.
    ///
    /// # Errors
    /// Returns an error if the decoded payloads are not a complete response.
    fn finish(
        self: Box<Self>,
        events: &mut EventHandler<'_>,
    ) -> Result<ModelResponse, ProviderError>;
}
