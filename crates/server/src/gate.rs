//! Who may ask over HTTP: whoever has the token, and no page of a browser.

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::http::Token;

/// Lets through what carries the token, and answers everything else.
pub(crate) async fn gate(State(token): State<Token>, request: Request, next: Next) -> Response {
    // A browser says where a page is from; no page has any business here.
    if request.headers().contains_key(header::ORIGIN) {
        return (StatusCode::FORBIDDEN, "pages of a browser are not served\n").into_response();
    }
    let given = request.headers().get(header::AUTHORIZATION);
    let given = given.and_then(|value| value.to_str().ok());
    let bearer = given.and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    if !bearer.is_some_and(|bearer| token.is(bearer)) {
        let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
        let text = "the token is missing or wrong\n";
        return (StatusCode::UNAUTHORIZED, challenge, text).into_response();
    }
    next.run(request).await
}
