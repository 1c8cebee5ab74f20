//! Bodies of requests: their size, and the time in which a client must send them.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::StreamExt as _;

use super::extract::single;
use super::guard::{close, refused};
use super::problem::Problem;
use super::unique_keys::check_unique_keys;

/// The limits of a request's body.
#[derive(Clone, Copy)]
pub(crate) struct BodyLimits {
    pub(crate) bytes: usize,
    pub(crate) time: Duration,
}

/// Reads the body of a request before its route, or refuses the request.
pub(crate) async fn read_body(
    State(limits): State<BodyLimits>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    match accepted(&parts, body, limits).await {
        Ok(bytes) => {
            let request = Request::from_parts(parts, Body::from(bytes));
            next.run(request).await
        }
        Err(problem) => {
            let mut response = refused(problem, parts.uri.path());
            // The rest of the body is not read.
            close(&mut response);
            response
        }
    }
}

async fn accepted(parts: &Parts, body: Body, limits: BodyLimits) -> Result<Bytes, Problem> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    if !parts.method.is_safe() {
        check_kind(&parts.headers)?;
    }
    if usize::try_from(body.size_hint().lower()).map_or(true, |bytes| bytes > limits.bytes) {
        return Err(too_large(limits));
    }
    let read = tokio::time::timeout(limits.time, read(body, limits));
    let bytes = read.await.unwrap_or_else(|_| {
        let seconds = limits.time.as_secs_f64();
        let detail = format!("the body of the request did not arrive within {seconds} s");
        let status = StatusCode::REQUEST_TIMEOUT;
        Err(Problem::new(status, "request_timeout", detail))
    })?;
    check_unique_keys(&bytes)?;
    Ok(bytes)
}

async fn read(body: Body, limits: BodyLimits) -> Result<Bytes, Problem> {
    let mut parts = body.into_data_stream();
    let mut bytes = Vec::new();
    while let Some(part) = parts.next().await {
        let incomplete = |_| Problem::invalid("the body of the request is incomplete");
        let part = part.map_err(incomplete)?;
        if part.len() > limits.bytes - bytes.len() {
            return Err(too_large(limits));
        }
        bytes.extend_from_slice(&part);
    }
    Ok(bytes.into())
}

/// Refuses a body that is not JSON.
///
/// A page of another origin can send other types, such as a form, without a question of the browser.
fn check_kind(headers: &HeaderMap) -> Result<(), Problem> {
    let kind = single(headers, header::CONTENT_TYPE.as_str())?.unwrap_or_default();
    let name = kind.split(';').next().unwrap_or_default().trim();
    let name = name.to_ascii_lowercase();
    let is_json =
        name == "application/json" || name.starts_with("application/") && name.ends_with("+json");
    if is_json {
        return Ok(());
    }
    let detail = format!("the type of the body is `{kind}`, not `application/json`");
    let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    Err(Problem::new(status, "content_type_unsupported", detail)
        .with_help("send JSON with `Content-Type: application/json`"))
}

fn too_large(limits: BodyLimits) -> Problem {
    let detail = format!(
        "the body of the request has more than {} bytes",
        limits.bytes
    );
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::Router;
    use axum::body::Bytes;
    use axum::middleware::from_fn_with_state;
    use axum::routing::post;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::{BodyLimits, read_body};

    /// Returns the answer to a request whose body declares a length.
    async fn answer(body: &str, length: usize) -> String {
        let limits = BodyLimits {
            bytes: 100,
            time: Duration::from_millis(200),
        };
        let length_of = |bytes: Bytes| async move { bytes.len().to_string() };
        let router = Router::new()
            .route("/", post(length_of))
            .layer(from_fn_with_state(limits, read_body));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move { axum::serve(listener, router).await });
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = "POST / HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";
        let text = format!("{head}content-length: {length}\r\nconnection: close\r\n\r\n{body}");
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        server.abort();
        answer
    }

    #[tokio::test]
    async fn a_body_must_arrive_in_time_and_within_its_limit() {
        let whole = answer("text", 4).await;
        assert!(
            whole.starts_with("HTTP/1.1 200") && whole.ends_with('4'),
            "{whole}"
        );
        let slow = answer("te", 4).await;
        assert!(slow.starts_with("HTTP/1.1 408"), "{slow}");
        assert!(slow.contains("request_timeout"), "{slow}");
        let large = answer("", 101).await;
        assert!(large.starts_with("HTTP/1.1 413"), "{large}");
        assert!(large.contains("body_too_large"), "{large}");
    }
}
