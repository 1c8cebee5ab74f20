//! The end of a server: what runs may end, and nothing new begins.

use std::time::Duration;

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

/// The time in which handlers answer themselves at the end of the server.
const GRACE: Duration = Duration::from_millis(100);

/// Answers a request that still runs when the server ends.
pub(crate) async fn end_with_server(
    State(mut shutdown): State<watch::Receiver<bool>>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path().to_owned();
    let ended = async move {
        has_ended(&mut shutdown).await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        biased;
        response = next.run(request) => response,
        () = ended => refused(Problem::server_ends(), &path),
    }
}

/// Waits for the end of the server.
pub(crate) async fn has_ended(shutdown: &mut watch::Receiver<bool>) {
    // Without a sender, the server has ended.
    drop(shutdown.wait_for(|is_down| *is_down).await);
}
