//! Parts of requests, refused with problem documents.

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use serde::de::DeserializeOwned;

use super::problem::Problem;

/// Returns the value of a header that may occur once.
pub(crate) fn single<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    // With several, a proxy and this server could check different ones.
    if values.next().is_some() {
        return Err(Problem::invalid(format!("several `{name}` headers")));
    }
    match first.map(HeaderValue::to_str) {
        None => Ok(None),
        Some(Ok(text)) => Ok(Some(text)),
        Some(Err(_)) => Err(Problem::invalid(format!("invalid header `{name}`"))),
    }
}

/// The variables of a path.
pub(crate) struct PathOf<T>(pub(crate) T);

/// The parameters of a query.
pub(crate) struct QueryOf<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for PathOf<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::from_request_parts(parts, state).await;
        path.map(|Path(value)| Self(value))
            .map_err(|error| Problem::invalid(format!("invalid path: {}", error.body_text())))
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryOf<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = Query::from_request_parts(parts, state).await;
        query
            .map(|Query(value)| Self(value))
            .map_err(|error| Problem::invalid(format!("invalid query: {}", error.body_text())))
    }
}
