//! The state of a gateway.

use std::sync::Arc;

use axum::http::StatusCode;
use logue_graph::IdSource;
use logue_harness::Clock;
use logue_model::{Provider, StructuredProvider};
use tokio::sync::{Semaphore, watch};

use super::exchange::Part;
use super::limits::UpstreamReport;
use super::metrics::GatewayMetrics;
use crate::chat::TraceContexts;
use crate::chat::access::Caller;
use crate::chat::kept_answers::KeptAnswers;
use crate::chat::limits::TurnLimits;
use crate::chat::problem::Problem;

/// The state of the routes of a gateway.
pub(crate) struct Gateway {
    pub(super) provider: StructuredProvider<Arc<dyn Provider>>,
    pub(super) model: String,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ids: Arc<dyn IdSource>,
    pub(super) metrics: GatewayMetrics,
    pub(super) report: Option<UpstreamReport>,
    pub(super) traces: Option<&'static dyn TraceContexts>,
    pub(super) free: Arc<Semaphore>,
    /// The requests of each client.
    pub(super) limits: Arc<TurnLimits>,
    /// The answers of requests with an idempotency key.
    pub(super) kept: Arc<KeptAnswers<Part>>,
    /// Becomes true at the end of the server.
    pub(super) shutdown: watch::Receiver<bool>,
    /// Becomes true when requests that still run end.
    pub(super) cut: watch::Receiver<bool>,
}

/// Refuses another model than the gateway's.
pub(super) fn check_model(gateway: &Gateway, caller: &Caller, name: &str) -> Result<(), Problem> {
    if name == gateway.model && caller.may_use(name) {
        return Ok(());
    }
    let own = if caller.may_use(&gateway.model) {
        format!("; this gateway serves `{}`", gateway.model)
    } else {
        String::new()
    };
    let detail = format!("model `{name}` not found{own}");
    Err(Problem::new(
        StatusCode::NOT_FOUND,
        "model_not_found",
        detail,
    ))
}
