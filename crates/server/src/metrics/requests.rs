//! Counts of HTTP requests and of their problems.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

use super::families::{HTTP_REQUESTS, PROBLEMS};
use super::registry::Registry;

/// The value of a label for everything that the server does not know.
const OTHER: &str = "other";
/// The longest code that is counted by itself.
const MAX_CODE: usize = 64;

/// The code of the problem that a response reports.
#[derive(Clone, Debug)]
pub(crate) struct ProblemCode(pub(crate) String);

/// Counts a request when it has its response, or its client has left.
pub(crate) async fn count_request(
    State(registry): State<Arc<Registry>>,
    request: Request,
    next: Next,
) -> Response {
    let route = request.extensions().get::<MatchedPath>();
    let mut counted = Counted {
        registry: &registry,
        method: method(request.method()),
        route: route.map_or_else(|| OTHER.to_owned(), |route| route.as_str().to_owned()),
        status: "none",
    };
    let response = next.run(request).await;
    counted.status = class(response.status());
    if let Some(ProblemCode(code)) = response.extensions().get() {
        registry.add(&PROBLEMS, &[label_of(code)], 1);
    }
    response
}

/// A request that is counted when it is dropped.
struct Counted<'r> {
    registry: &'r Registry,
    method: &'static str,
    route: String,
    status: &'static str,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let labels = [self.method, &self.route, self.status];
        self.registry.add(&HTTP_REQUESTS, &labels, 1);
    }
}

fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => OTHER,
    }
}

fn class(status: StatusCode) -> &'static str {
    match status.as_u16() {
        100..200 => "1xx",
        200..300 => "2xx",
        300..400 => "3xx",
        400..500 => "4xx",
        _ => "5xx",
    }
}

/// Returns the label of a code; texts that are not codes have a common one.
fn label_of(code: &str) -> &str {
    let is_code = !code.is_empty()
        && code.len() <= MAX_CODE
        && code
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if is_code { code } else { OTHER }
}
