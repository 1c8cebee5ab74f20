//! Parts of requests, refused with problem documents.

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::problem::Problem;

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
