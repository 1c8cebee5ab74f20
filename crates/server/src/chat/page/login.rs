//! The login of browsers: a cookie that is derived from a token.

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use super::super::access::{COOKIE, Caller, TokenScope, cookie_of};
use super::super::api::Api;
use super::super::problem::Problem;
use super::super::visible::DebugView;

/// The time after which a browser forgets the cookie, in seconds.
const AGE: u64 = 30 * 24 * 60 * 60;

/// `GET /v1/me`: what the caller may do.
pub(crate) async fn me(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
) -> Json<Value> {
    let scopes = TokenScope::ALL.into_iter();
    let scopes: Vec<&str> = scopes
        .filter(|scope| caller.has(*scope))
        .map(TokenScope::as_str)
        .collect();
    let is_debugging = DebugView::of(&caller, api.has_debug_view).is_ok();
    Json(json!({"token": caller.token, "scopes": scopes, "debug_view": is_debugging}))
}

/// `POST /v1/login`: sets the cookie of the token in `Authorization`.
///
/// The checks of all requests have verified the token.
pub(crate) async fn login(
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let secret = headers.get(header::AUTHORIZATION);
    let secret = secret.and_then(|value| value.to_str().ok());
    let secret = secret.and_then(|value| Some(value.split_once(' ')?.1.trim()));
    let (Some(secret), Some(name)) = (secret, &caller.token) else {
        let problem = Problem::invalid("a login has a token")
            .with_help("send it as `Authorization: Bearer TOKEN`");
        return Err(problem);
    };
    let mut response = Json(json!({ "token": name })).into_response();
    set_cookie(&mut response, &headers, &cookie_of(secret), AGE);
    Ok(response)
}

/// `POST /v1/logout`: removes the cookie.
pub(crate) async fn logout(headers: HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    set_cookie(&mut response, &headers, "", 0);
    response
}

/// Sets the cookie for the paths beside that of the request.
///
/// Without the attribute `Path` a browser takes the folder of the address that it sees, so that the
/// cookie has the prefix of a proxy.
fn set_cookie(response: &mut Response, request: &HeaderMap, value: &str, age: u64) {
    let origin = request.get(header::ORIGIN);
    let is_https = origin.is_some_and(|origin| origin.as_bytes().starts_with(b"https://"));
    let secure = if is_https { "; Secure" } else { "" };
    let cookie = format!("{COOKIE}={value}; Max-Age={age}; HttpOnly; SameSite=Strict{secure}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
}
