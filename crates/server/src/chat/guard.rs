//! Checks of requests before they reach a route: host, origin and token.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use logue_harness::Clock;
use tokio::time::Instant;

use super::access::{AccessTokens, COOKIE, Caller};
use super::completions::OpenAiError;
use super::current_tokens::{CurrentTokens, TokenRead, cut_at};
use super::extract::single;
use super::limits::{ClientLimits, RequestLimits, too_many};
use super::page;
use super::problem::Problem;
use super::rate::RateLimit;
use super::remote::Remote;

/// The header by which browsers name the site of a request's page.
const SITE: &str = "sec-fetch-site";
/// The wrong tokens of one address in a minute.
const FAILURES: u32 = 30;

/// The rules of requests.
pub(crate) struct Guard {
    /// The host names that requests may name.
    hosts: Vec<String>,
    tokens: CurrentTokens,
    clock: Arc<dyn Clock>,
    requests: RequestLimits,
    /// The wrong tokens of each address.
    failures: RateLimit,
}

/// Admits a request and adds its [`Caller`], or refuses it.
///
/// The request and its response end when the token of the caller is revoked or expires.
pub(crate) async fn admit(
    State(guard): State<Arc<Guard>>,
    mut request: Request,
    next: Next,
) -> Response {
    // The rest of the connection could be another request for a proxy that prefers `Content-Length`.
    let is_last = request.headers().contains_key(header::TRANSFER_ENCODING);
    let mut response = match guard.caller(&request) {
        Ok(caller) => {
            let end = caller.clone().map(|caller| guard.tokens.end_of(caller));
            request
                .extensions_mut()
                .insert(caller.unwrap_or_else(Caller::local));
            let mut response = match end {
                None => next.run(request).await,
                Some(end) => run_until(end, request, next).await,
            };
            let headers = response.headers_mut();
            for (name, value) in [
                ("x-content-type-options", "nosniff"),
                ("referrer-policy", "no-referrer"),
                ("x-frame-options", "DENY"),
                ("cross-origin-resource-policy", "same-origin"),
            ] {
                headers.insert(name, HeaderValue::from_static(value));
            }
            response
        }
        Err(problem) => refused(problem, request.uri().path()),
    };
    if is_last {
        close(&mut response);
    }
    response
}

/// Runs a request and sends its response until `end` completes.
async fn run_until(
    end: impl Future<Output = ()> + Send + 'static,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path().to_owned();
    let mut end = Box::pin(end);
    tokio::select! {
        biased;
        response = next.run(request) => cut_at(response, end),
        () = &mut end => refused(unauthorized(), &path),
    }
}

/// Ends the connection after an answer.
pub(crate) fn close(response: &mut Response) {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
}

/// Returns the answer to a refused request in the form of its path.
pub(crate) fn refused(problem: Problem, path: &str) -> Response {
    if is_of_openai(path) {
        OpenAiError::from(problem).into_response()
    } else {
        problem.into_response()
    }
}

/// Returns whether clients of a path expect errors in the form of the OpenAI API.
fn is_of_openai(path: &str) -> bool {
    let name = path
        .strip_prefix("/v1/")
        .and_then(|path| path.split('/').next());
    matches!(
        name,
        Some("chat" | "models" | "responses" | "conversations")
    )
}

impl Guard {
    /// Returns the rules of a server whose listener is on this machine only, or not.
    ///
    /// A client of this machine needs no token as long as there has been none since the start.
    pub(crate) fn new(
        hosts: Vec<String>,
        is_open: bool,
        tokens: Arc<dyn AccessTokens>,
        clock: Arc<dyn Clock>,
        limits: &ClientLimits,
    ) -> Self {
        Self {
            hosts,
            tokens: CurrentTokens::new(tokens, Arc::clone(&clock), is_open),
            clock,
            requests: RequestLimits::new(limits),
            failures: RateLimit::per_minute(FAILURES),
        }
    }

    /// Reads the tokens without end, so that requests end with their tokens.
    pub(crate) async fn watch_tokens(&self) {
        self.tokens.watch().await;
    }

    /// Returns the caller of a permitted request; `None` for a public path.
    fn caller(&self, request: &Request) -> Result<Option<Caller>, Problem> {
        let headers = request.headers();
        let (method, path) = (request.method(), request.uri().path());
        let remote = request.extensions().get::<Remote>().copied();
        let host = single(headers, header::HOST.as_str())?;
        let host = host.unwrap_or_default();
        // Another name comes from a page of a browser (DNS rebinding).
        if !self.is_own_host(host) {
            let detail = "this server has another host name";
            return Err(Problem::new(StatusCode::FORBIDDEN, "host_refused", detail)
                .with_help("name it with --host-name when the server starts"));
        }
        // Proxies check the host of such a target, and this server the header.
        if let Some(authority) = request.uri().authority()
            && !authority.as_str().eq_ignore_ascii_case(host)
        {
            return Err(Problem::invalid(
                "the target of the request names another host",
            ));
        }
        let origin = single(headers, header::ORIGIN.as_str())?;
        if origin.is_some_and(|origin| !is_origin_of(origin, host)) {
            let detail = "pages of other origins are not served";
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "origin_refused",
                detail,
            ));
        }
        // A form or an image of another page has this header in every current browser.
        let site = headers.get(SITE);
        let is_foreign = site.is_some_and(|site| site == "cross-site" || site == "same-site");
        // A link of another page may lead to this one.
        if is_foreign && (method != Method::GET || !is_public(path)) {
            let detail = "requests of other sites are not served";
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "origin_refused",
                detail,
            ));
        }
        if is_public(path) {
            return Ok(None);
        }
        let caller = self.known_caller(method, headers, remote)?.at(remote);
        self.requests.count(&caller)?;
        Ok(Some(caller))
    }

    /// Returns the caller by its token or cookie.
    fn known_caller(
        &self,
        method: &Method,
        headers: &HeaderMap,
        remote: Option<Remote>,
    ) -> Result<Caller, Problem> {
        let TokenRead { tokens, is_open } = self.tokens.read();
        // Clients of OpenAI always send a key.
        if let Some(secret) = bearer(headers)?.filter(|_| !is_open) {
            let caller = Caller::of_token(&tokens, secret, self.clock.now());
            return caller.ok_or_else(|| self.failed(remote));
        }
        if let Some(cookie) = cookie(headers) {
            // A cookie is sent also with requests that another page causes.
            let site = headers.get(SITE);
            let is_own = headers.contains_key(header::ORIGIN)
                || site.is_some_and(|site| site == "same-origin");
            if !is_own && !method.is_safe() {
                let detail = "a request with a cookie requires `Origin`";
                return Err(Problem::new(
                    StatusCode::FORBIDDEN,
                    "origin_refused",
                    detail,
                ));
            }
            let caller = Caller::of_cookie(&tokens, cookie, self.clock.now());
            if !is_open {
                return caller.ok_or_else(|| self.failed(remote));
            }
        }
        if is_open {
            return Ok(Caller::local());
        }
        Err(unauthorized())
    }

    /// Counts a wrong token. A right one is always accepted: others may share the address.
    fn failed(&self, remote: Option<Remote>) -> Problem {
        let Some(remote) = remote else {
            return unauthorized();
        };
        match self.failures.take(&remote.limit_key(), Instant::now()) {
            Ok(()) => unauthorized(),
            Err(wait) => too_many(wait, "the address sends too many wrong tokens"),
        }
    }

    fn is_own_host(&self, host: &str) -> bool {
        let mut own = self.hosts.iter();
        let name = without_port(host);
        name.is_some_and(|name| own.any(|own| own.eq_ignore_ascii_case(name)))
    }
}

/// Returns whether a path needs no token.
fn is_public(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz" | "/openapi.json" | "/docs") || page::is_file(path)
}

fn unauthorized() -> Problem {
    let detail = "the token is missing, unknown or expired";
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
        .with_help("create one with `logue serve token create NAME`")
        .with_help("send it as `Authorization: Bearer TOKEN`")
}

/// Returns the value of the page's cookie.
fn cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter();
    let mut pairs = cookies
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    pairs
        .find(|(name, _)| *name == COOKIE)
        .map(|(_, value)| value)
}

fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let Some(value) = single(headers, header::AUTHORIZATION.as_str())? else {
        return Ok(None);
    };
    match value.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Ok(Some(token.trim())),
        _ => Err(unauthorized()),
    }
}

/// Returns the name of a host without its port; `None` if it is malformed.
fn without_port(host: &str) -> Option<&str> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let (name, rest) = rest.split_once(']')?;
            let port = rest.strip_prefix(':');
            (name, port.or_else(|| rest.is_empty().then_some(""))?)
        }
        None => host.split_once(':').unwrap_or((host, "")),
    };
    port.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then_some(name)
}

/// Returns whether a page has the address that its request names.
fn is_origin_of(origin: &str, host: &str) -> bool {
    let Some((scheme, address)) = origin.split_once("://") else {
        return false;
    };
    matches!(scheme, "http" | "https") && address.eq_ignore_ascii_case(host)
}
