//! Bodies of requests: their size, and the time in which a client must send them.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::problem::Problem;

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
    let declared = parts.headers.get(header::CONTENT_LENGTH);
    let declared = declared.and_then(|length| length.to_str().ok()?.parse().ok());
    if declared.is_some_and(|length: usize| length > limits.bytes) {
        return refused(too_large(limits));
    }
    let problem = match tokio::time::timeout(limits.time, to_bytes(body, limits.bytes)).await {
        Ok(Ok(bytes)) => {
            return next
                .run(Request::from_parts(parts, Body::from(bytes)))
                .await;
        }
        Ok(Err(error)) if error.to_string().contains("limit") => too_large(limits),
        Ok(Err(_)) => Problem::invalid("the body of the request is incomplete"),
        Err(_) => {
            let seconds = limits.time.as_secs_f64();
            let detail = format!("the body of the request did not arrive within {seconds} s");
            Problem::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", detail)
        }
    };
    refused(problem)
}

fn too_large(limits: BodyLimits) -> Problem {
    let detail = format!(
        "the body of the request has more than {} bytes",
        limits.bytes
    );
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail)
}

/// The rest of the body is not read, so that the connection ends.
fn refused(problem: Problem) -> Response {
    let mut response = problem.into_response();
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
    response
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
        let head = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n");
        let text = format!("{head}connection: close\r\n\r\n{body}");
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
