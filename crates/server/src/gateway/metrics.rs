//! Counters of a gateway.

use std::sync::Arc;

use axum::http::StatusCode;
use logue_model::Usage;

use crate::chat::problem::Problem;
use crate::metrics::Registry;
use crate::metrics::families::{
    GATEWAY_REASKS, GATEWAY_REPAIRS, GATEWAY_REQUESTS, GATEWAY_TOKENS, OF_GATEWAY,
};

/// The counters of a gateway.
pub(crate) struct GatewayMetrics(Arc<Registry>);

impl Default for GatewayMetrics {
    fn default() -> Self {
        Self(Arc::new(Registry::new(OF_GATEWAY)))
    }
}

impl GatewayMetrics {
    /// Returns the registry of all metrics.
    pub(super) fn registry(&self) -> &Arc<Registry> {
        &self.0
    }

    /// Counts a request that was accepted or refused.
    pub(super) fn request(&self, outcome: Result<(), &Problem>) {
        let outcome = match outcome {
            Ok(()) => "ok",
            Err(problem) if problem.status == StatusCode::TOO_MANY_REQUESTS => "limited",
            Err(problem) if problem.status.is_client_error() => "client_error",
            Err(_) => "upstream_error",
        };
        self.0.add(&GATEWAY_REQUESTS, &[outcome], 1);
    }

    /// Counts a request whose client left.
    pub(super) fn cancelled(&self) {
        self.0.add(&GATEWAY_REQUESTS, &["cancelled"], 1);
    }

    pub(super) fn repair(&self, code: &'static str) {
        self.0.add(&GATEWAY_REPAIRS, &[code], 1);
    }

    pub(super) fn reask(&self, cause: &'static str) {
        self.0.add(&GATEWAY_REASKS, &[cause], 1);
    }

    pub(super) fn tokens(&self, usage: &Usage) {
        for (kind, count) in usage.by_kind() {
            self.0.add(&GATEWAY_TOKENS, &[kind], count);
        }
    }

    /// Returns the counters as text.
    pub(super) fn to_text(&self) -> String {
        self.0.to_text()
    }
}
