//! The end of a server: what runs may end, and nothing new begins.

use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use tokio::sync::watch;

use super::guard::refused;
use super::problem::Problem;

/// Refuses requests that may begin a turn while the server ends.
pub(crate) async fn refuse_new_work(
    State(draining): State<watch::Receiver<bool>>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    if *draining.borrow() && begins_work(request.method(), path) {
        let problem = Problem::server_draining();
        return refused(problem, path);
    }
    next.run(request).await
}

/// Returns whether a request may begin a turn: it posts, and does not only end or show something.
fn begins_work(method: &Method, path: &str) -> bool {
    method == Method::POST
        && !path.ends_with("/cancel")
        && !matches!(path, "/v1/login" | "/v1/logout" | "/v1/markdown")
}
