//! Parents and links of spans from traces of other programs.

use std::collections::HashMap;

use logue_server::{TraceContext, TraceContexts};
use opentelemetry::Context;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{SpanContext, TraceContextExt as _};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// The connection of exported spans with other traces.
#[derive(Debug)]
pub(super) struct SpanContexts {
    pub(super) captures_content: bool,
}

impl TraceContexts for SpanContexts {
    fn set_parent(&self, span: &Span, parent: &TraceContext) {
        if let Some(parent) = remote(parent) {
            // A span that is not recorded has no parent.
            drop(span.set_parent(Context::new().with_remote_span_context(parent)));
        }
    }

    fn add_link(&self, span: &Span, to: &TraceContext) {
        if let Some(to) = remote(to) {
            span.add_link(to);
        }
    }

    fn context_of(&self, span: &Span) -> Option<TraceContext> {
        let context = span.context();
        let own = context.span().span_context().clone();
        let flags = own.trace_flags().to_u8();
        let text = format!("00-{}-{}-{flags:02x}", own.trace_id(), own.span_id());
        own.is_valid().then(|| TraceContext::new(text))
    }

    fn captures_content(&self) -> bool {
        self.captures_content
    }
}

/// Returns the place in a trace; `None` if it is malformed.
fn remote(context: &TraceContext) -> Option<SpanContext> {
    let parent = ("traceparent".to_owned(), context.traceparent.clone());
    let state = context.tracestate.clone();
    let state = state.map(|state| ("tracestate".to_owned(), state));
    let carrier: HashMap<String, String> = [parent].into_iter().chain(state).collect();
    let extracted = TraceContextPropagator::new().extract_with_context(&Context::new(), &carrier);
    let place = extracted.span().span_context().clone();
    place.is_valid().then_some(place)
}
