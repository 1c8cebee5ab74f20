//! A path prefix below which a server answers, for proxies that do not remove it.

use std::future::{Ready, ready};
use std::sync::Arc;

use axum::http::uri::PathAndQuery;
use axum::http::{HeaderValue, Request, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::future::Either;
use hyper::service::Service;

use super::problem::Problem;

/// A service whose requests have a prefix, which is removed.
#[derive(Clone, Debug)]
pub(crate) struct BelowPrefix<S> {
    inner: S,
    prefix: Option<Arc<str>>,
}

impl<S> BelowPrefix<S> {
    /// Creates a service; without a prefix, requests are unchanged.
    pub(crate) const fn new(inner: S, prefix: Option<Arc<str>>) -> Self {
        Self { inner, prefix }
    }
}

impl<B, S: Service<Request<B>, Response = Response>> Service<Request<B>> for BelowPrefix<S> {
    type Response = Response;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<Response, S::Error>>>;

    fn call(&self, mut request: Request<B>) -> Self::Future {
        if let Some(prefix) = &self.prefix {
            match place(prefix, request.uri()) {
                Place::Below(uri) => *request.uri_mut() = uri,
                Place::Edge(location) => return Either::Right(ready(Ok(moved(&location)))),
                Place::Outside => {
                    let detail = "path not found";
                    let problem = Problem::new(StatusCode::NOT_FOUND, "path_not_found", detail);
                    let problem = problem.with_help(format!("all paths begin with `{prefix}/`"));
                    return Either::Right(ready(Ok(problem.into_response())));
                }
            }
        }
        Either::Left(self.inner.call(request))
    }
}

/// The place of a request relative to a prefix.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// Below it, with the address without the prefix.
    Below(Uri),
    /// The prefix without its final slash, with the address that has it.
    Edge(String),
    Outside,
}

fn place(prefix: &str, uri: &Uri) -> Place {
    let path = uri.path();
    // Programs that watch the process reach it without the proxy.
    if matches!(path, "/healthz" | "/readyz") {
        return Place::Below(uri.clone());
    }
    let query = uri.query().map(|query| format!("?{query}"));
    let query = query.unwrap_or_default();
    match path.strip_prefix(prefix) {
        Some("") => Place::Edge(format!("{prefix}/{query}")),
        Some(rest) if rest.starts_with('/') => {
            let rest = format!("{rest}{query}").parse::<PathAndQuery>();
            rest.map_or(Place::Outside, |rest| Place::Below(Uri::from(rest)))
        }
        _ => Place::Outside,
    }
}

/// Returns a redirection to an address of the same host.
fn moved(location: &str) -> Response {
    let mut response = StatusCode::PERMANENT_REDIRECT.into_response();
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_below_the_prefix_are_served() {
        let place = |path: &'static str| place("/logue", &Uri::from_static(path));
        let below = |path: &'static str| Place::Below(Uri::from_static(path));
        assert_eq!(place("/logue/"), below("/"));
        assert_eq!(place("/logue/v1/me?a=/logue/b"), below("/v1/me?a=/logue/b"));
        assert_eq!(place("http://host/logue/v1/me"), below("/v1/me"));
        assert_eq!(place("/logue/logue/x"), below("/logue/x"));
        assert_eq!(place("/logue/logue"), below("/logue"));
        assert_eq!(place("/readyz"), below("/readyz"));
        assert_eq!(place("/logue"), Place::Edge("/logue/".to_owned()));
        assert_eq!(place("/logue?a=b"), Place::Edge("/logue/?a=b".to_owned()));
        for outside in [
            "/",
            "/v1/me",
            "/loguex/v1/me",
            "/LOGUE/",
            "/x/logue/",
            "/%6cogue/",
        ] {
            assert_eq!(place(outside), Place::Outside, "{outside}");
        }
    }
}
