//! The trace context of a request (W3C Trace Context), as the parent of its turns.

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::Response;
use tracing::Span;

/// The longest accepted `tracestate`, in bytes.
const MAX_STATE: usize = 512;

tokio::task_local! {
    /// The trace context of the request that the task answers.
    static REQUEST: Option<TraceContext>;
}

/// A place in a trace, in the form of the headers of W3C Trace Context.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceContext {
    /// The value of `traceparent`.
    pub traceparent: String,
    /// The value of `tracestate`; several headers are joined.
    pub tracestate: Option<String>,
}

impl TraceContext {
    /// Creates a trace context without a state.
    pub fn new(traceparent: impl Into<String>) -> Self {
        Self {
            traceparent: traceparent.into(),
            tracestate: None,
        }
    }

    /// Returns the context of a request; `None` without exactly one `traceparent`.
    fn of(headers: &HeaderMap) -> Option<Self> {
        let mut parents = headers.get_all("traceparent").iter();
        let parent = parents.next()?.to_str().ok()?;
        if parents.next().is_some() || !is_parent(parent) {
            return None;
        }
        let states = headers.get_all("tracestate").iter();
        let states: Vec<&str> = states.filter_map(|state| state.to_str().ok()).collect();
        let state = states.join(",");
        let mut context = Self::new(parent);
        context.tracestate = (!state.is_empty() && state.len() <= MAX_STATE).then_some(state);
        Some(context)
    }
}

/// The program's connection between its spans and traces of others.
pub trait TraceContexts: Send + Sync {
    /// Sets the parent of a span that has not begun; a malformed one is ignored.
    fn set_parent(&self, span: &Span, parent: &TraceContext);

    /// Links a span to another one; a malformed link is ignored.
    fn add_link(&self, span: &Span, to: &TraceContext);

    /// Returns the place of a span, if it is recorded.
    fn context_of(&self, span: &Span) -> Option<TraceContext>;

    /// Returns whether spans contain visible messages.
    fn captures_content(&self) -> bool;
}

/// Runs a request with its trace context.
pub(crate) async fn carry_trace(request: Request, next: Next) -> Response {
    let context = TraceContext::of(request.headers());
    carried(context, next.run(request)).await
}

/// Runs a task of a request with the trace context of the request.
pub(crate) async fn carried<T>(context: Option<TraceContext>, task: impl Future<Output = T>) -> T {
    REQUEST.scope(context, task).await
}

/// Returns the trace context of the current request.
pub(crate) fn current_trace() -> Option<TraceContext> {
    REQUEST.try_with(Clone::clone).ok().flatten()
}

/// Returns whether a text has the form of a `traceparent`, also of later versions.
fn is_parent(text: &str) -> bool {
    let mut parts = text.split('-');
    let mut next_is = |length: usize| {
        parts.next().is_some_and(|part| {
            let mut bytes = part.bytes();
            part.len() == length && bytes.all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        })
    };
    let has_form = [2, 32, 16, 2].into_iter().all(&mut next_is);
    let (is_v0, is_longer) = (text.starts_with("00-"), parts.next().is_some());
    has_form && !text.starts_with("ff") && !(is_v0 && is_longer)
}
