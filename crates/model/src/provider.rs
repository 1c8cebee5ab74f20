//! The provider interface and the providers that reach a model.

mod echo;
mod harmony;
mod http;

use std::sync::Arc;

use futures_util::future::BoxFuture;

pub use echo::Echo;
pub use harmony::{HarmonyCompletions, HarmonyOptions};
pub use http::HttpProvider;

use crate::{ModelEvent, ModelRequest, ModelResponse, ProviderError};

/// A callback that receives the events of a response.
pub type EventHandler<'a> = &'a mut (dyn FnMut(ModelEvent) + Send);

/// A source of model responses.
///
/// Dropping the future cancels the request. A provider keeps no conversation between two calls.
pub trait Provider: Send + Sync {
    /// Returns the provider name for telemetry (`gen_ai.provider.name`).
    fn name(&self) -> &'static str {
        "custom"
    }

    /// Returns whether models of the provider can receive images.
    ///
    /// Images of tool results are replaced by a note if not.
    fn takes_images(&self) -> bool {
        true
    }

    /// Requests the next assistant message and reports the events of the response to `events`.
    ///
    /// # Errors
    /// Returns a [`ProviderError`] with its category. Events may have been reported before it.
    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
        events: EventHandler<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ProviderError>>;
}

impl<P: Provider + ?Sized> Provider for Arc<P> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn takes_images(&self) -> bool {
        (**self).takes_images()
    }

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
        events: EventHandler<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ProviderError>> {
        (**self).complete(request, events)
    }
}
