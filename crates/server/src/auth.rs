//! Authorization of HTTP requests by a bearer token.

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::http::BearerToken;

/// Passes requests with the token and refuses all others, including those of browser pages.
pub(crate) async fn authorize(
    State(token): State<BearerToken>,
    request: Request,
    next: Next,
) -> Response {
    // Browsers send the origin of a page; pages have no access.
    if request.headers().contains_key(header::ORIGIN) {
        return (StatusCode::FORBIDDEN, "pages of a browser are not served\n").into_response();
    }
    // With several, a proxy and this server could check different ones.
    if request.headers().get_all(header::HOST).iter().count() > 1 {
        return (StatusCode::BAD_REQUEST, "a request names one host\n").into_response();
    }
    let given = request.headers().get(header::AUTHORIZATION);
    let given = given.and_then(|value| value.to_str().ok());
    let bearer = given.and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    if !bearer.is_some_and(|bearer| token.matches(bearer)) {
        let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
        let text = "the token is missing or wrong\n";
        return (StatusCode::UNAUTHORIZED, challenge, text).into_response();
    }
    next.run(request).await
}
