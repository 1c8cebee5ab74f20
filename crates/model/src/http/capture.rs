//! Requests that are encoded and not sent.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use crate::{Category, ProviderError};

/// Receives the body of a request instead of a server. Cloning shares it.
///
/// A provider with a capture sends nothing: each request ends with an error.
#[derive(Clone, Debug, Default)]
pub struct RequestCapture(Arc<Mutex<Option<Value>>>);

impl RequestCapture {
    /// Returns the body of the last request, as a server would receive it.
    pub fn body(&self) -> Option<Value> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Keeps a body; returns the error that ends its request.
    pub(crate) fn keep(&self, body: &Value) -> ProviderError {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(body.clone());
        ProviderError::new(Category::InvalidRequest, "the request was not sent")
    }
}
