//! The gateway: its listener, its state and its end.

use std::io;
use std::pin::pin;
use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use logue_graph::IdSource;
use logue_harness::Clock;
use logue_model::{Provider, StructuredProvider};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout_at};

use super::limits::GatewayOptions;
use super::metrics::GatewayMetrics;
use super::routes::routes;
use super::state::Gateway;
use crate::chat::access::AccessTokens;
use crate::chat::bodies::{BodyLimits, read_body};
use crate::chat::connections::Connections;
use crate::chat::guard::admit;
use crate::chat::limits::TurnLimits;
use crate::chat::server::{AFTER_DRAIN, guard};
use crate::chat::trace_context::carry_trace;
use crate::metrics::count_request;

/// A server that answers OpenAI-compatible requests with one gpt-oss model.
pub struct GatewayServer {
    provider: Arc<dyn Provider>,
    model: String,
    tokens: Arc<dyn AccessTokens>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    options: GatewayOptions,
}

impl std::fmt::Debug for GatewayServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GatewayServer")
            .field("model", &self.model)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl GatewayServer {
    /// Creates a gateway to a model.
    ///
    /// The provider is a [`HarmonyCompletions`](logue_model::HarmonyCompletions) that
    /// [accepts incomplete responses](logue_model::HarmonyOptions::accepts_incomplete).
    pub fn new(
        provider: Arc<dyn Provider>,
        model: impl Into<String>,
        tokens: Arc<dyn AccessTokens>,
        (clock, ids): (Arc<dyn Clock>, Arc<dyn IdSource>),
        options: GatewayOptions,
    ) -> Self {
        Self {
            provider,
            model: model.into(),
            tokens,
            clock,
            ids,
            options,
        }
    }

    /// Serves clients until `end` completes, and then until running requests have ended.
    ///
    /// After `end`, connections are still accepted, and requests to the model are refused.
    /// Requests that have not ended after [`ChatServerOptions::drain`](crate::ChatServerOptions::drain)
    /// are answered with `server_ends`.
    ///
    /// # Errors
    /// Returns an error if the address of the listener is unknown.
    pub async fn serve(
        self,
        listener: TcpListener,
        end: impl Future<Output = ()> + Send,
    ) -> io::Result<()> {
        let address = listener.local_addr()?;
        let limits = &self.options.listener;
        let (ends, shutdown) = watch::channel(false);
        let (cuts, cut) = watch::channel(false);
        let guard = guard(address, limits, &self.tokens, &self.clock);
        let gateway = Gateway {
            provider: StructuredProvider::new(self.provider),
            model: self.model,
            clock: self.clock,
            ids: self.ids,
            metrics: GatewayMetrics::default(),
            report: self.options.report,
            traces: self.options.traces,
            free: Arc::new(Semaphore::new(self.options.max_requests)),
            limits: TurnLimits::new(limits.limits.clone()),
            kept: Arc::default(),
            shutdown,
            cut,
        };
        let running = Arc::clone(&gateway.free);
        let registry = Arc::clone(gateway.metrics.registry());
        let body = BodyLimits {
            bytes: limits.max_body_bytes,
            time: limits.body_timeout,
        };
        let router = routes(Arc::new(gateway))
            .layer(from_fn(carry_trace))
            .layer(DefaultBodyLimit::max(limits.max_body_bytes))
            .layer(from_fn_with_state(body, read_body))
            .layer(from_fn_with_state(Arc::clone(&guard), admit))
            .layer(from_fn_with_state(registry, count_request));
        let tokens = tokio::spawn(async move { guard.watch_tokens().await });
        let open = Connections::new(limits);
        tokio::select! {
            () = open.accept(&listener, &router) => {}
            () = end => {}
        }
        // Load balancers may connect to see the condition until running requests have ended.
        ends.send_replace(true);
        let drained = Instant::now() + limits.drain;
        let places = u32::try_from(self.options.max_requests).unwrap_or(u32::MAX);
        tokio::select! {
            _ = timeout_at(drained, running.acquire_many(places)) => {}
            () = open.accept(&listener, &router) => {}
        }
        drop(listener);
        let rest = drained.saturating_duration_since(Instant::now());
        let mut closed = pin!(open.close(rest + AFTER_DRAIN));
        let is_closed = timeout_at(drained, closed.as_mut()).await.is_ok();
        if !is_closed {
            cuts.send_replace(true);
            closed.await;
        }
        tokens.abort();
        Ok(())
    }
}
