//! Limits of a gateway.

use crate::ChatServerOptions;

/// Limits of a gateway.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GatewayOptions {
    /// The limits of the listener.
    pub listener: ChatServerOptions,
    /// The number of requests that run at once; others are refused.
    pub max_requests: usize,
}

impl Default for GatewayOptions {
    fn default() -> Self {
        Self {
            listener: ChatServerOptions::default(),
            max_requests: 256,
        }
    }
}

impl GatewayOptions {
    /// Sets the limits of the listener.
    #[must_use]
    pub fn with_listener(mut self, listener: ChatServerOptions) -> Self {
        self.listener = listener;
        self
    }

    /// Sets the number of requests that run at once.
    #[must_use]
    pub const fn with_max_requests(mut self, max_requests: usize) -> Self {
        self.max_requests = max_requests;
        self
    }
}
