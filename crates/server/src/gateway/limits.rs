//! Limits of a gateway.

use std::fmt;
use std::sync::Arc;

use logue_model::ProviderError;

use crate::{ChatServerOptions, TraceContexts};

/// A receiver of failed requests to the upstream server.
pub type UpstreamReport = Arc<dyn Fn(&ProviderError) + Send + Sync>;

/// Limits of a gateway.
#[derive(Clone)]
#[non_exhaustive]
pub struct GatewayOptions {
    /// The limits of the listener.
    pub listener: ChatServerOptions,
    /// The number of requests that run at once; others are refused.
    pub max_requests: usize,
    /// The connection of spans with traces of other programs, if spans are exported.
    pub traces: Option<&'static dyn TraceContexts>,
    /// The receiver of failed requests, whose messages may repeat a conversation.
    pub report: Option<UpstreamReport>,
}

impl fmt::Debug for GatewayOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayOptions")
            .field("listener", &self.listener)
            .field("max_requests", &self.max_requests)
            .finish_non_exhaustive()
    }
}

impl Default for GatewayOptions {
    fn default() -> Self {
        Self {
            listener: ChatServerOptions::default(),
            max_requests: 256,
            traces: None,
            report: None,
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

    /// Sets the receiver of failed requests to the upstream server.
    #[must_use]
    pub fn with_report(mut self, report: UpstreamReport) -> Self {
        self.report = Some(report);
        self
    }

    /// Sets the connection of spans with traces of other programs.
    #[must_use]
    pub const fn with_traces(mut self, traces: Option<&'static dyn TraceContexts>) -> Self {
        self.traces = traces;
        self
    }
}
