//! Servers that stall at different points, and the limit that ends the wait.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::{Duration, Instant};

use crate::limits_with;
use logue_message::ChatMessage;
use logue_model::{
    Category, HttpLimits, ModelRequest, Provider as _, ProviderError, SamplingSettings,
};
use testkit::{Stall, StallingServer};
use tokio::net::{TcpSocket, TcpStream};

use super::{client_with, millis};

const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
const WORD: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"word \"}}]}\n\n";

/// Limits that no test reaches.
fn patient() -> HttpLimits {
    limits_with(HttpLimits::default(), |limits| {
        limits.connect = Duration::from_secs(20);
        limits.first_byte = Duration::from_secs(20);
        limits.idle = Duration::from_secs(20);
        limits.total = Duration::from_secs(20);
    })
}

async fn ask(base_url: String, limits: HttpLimits) -> ProviderError {
    let (messages, settings) = ([ChatMessage::user("hello")], SamplingSettings::default());
    let request = ModelRequest::new("m", &messages, &settings);
    let started = Instant::now();
    let result = client_with(base_url, limits)
        .complete(&request, &mut |_| {})
        .await;
    assert!(started.elapsed() < Duration::from_secs(15), "{result:?}");
    result.unwrap_err()
}

/// Asserts that the error names the configuration key of the limit.
fn ended_by(error: &ProviderError, category: Category, words: &str, key: &str) {
    assert_eq!(error.category, category, "{error}");
    assert_eq!(
        error.transient,
        category == Category::Unavailable,
        "{error}"
    );
    assert!(error.message.contains(words), "{error}");
    let help = error.help.as_deref().unwrap_or_default();
    assert!(help.contains(&format!("`{key}`")), "{help}");
}

#[tokio::test]
async fn a_server_that_accepts_no_connection() {
    let socket = TcpSocket::new_v4().unwrap();
    let anywhere = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));
    socket.bind(anywhere).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    // The queue is full, and no connection is accepted.
    let mut queue = Vec::new();
    while let Ok(Ok(stream)) = tokio::time::timeout(millis(300), TcpStream::connect(address)).await
    {
        queue.push(stream);
    }
    let limits = limits_with(patient(), |limits| {
        limits.connect = millis(100);
    });
    let error = ask(format!("http://{address}/v1"), limits).await;
    ended_by(
        &error,
        Category::Unavailable,
        "no connection to",
        "connect_timeout_seconds",
    );
    assert!(error.message.contains("within 0.1 s"), "{error}");
}

#[tokio::test]
async fn a_server_that_accepts_and_does_not_greet() {
    let server = StallingServer::start(Stall::Silent).unwrap();
    let limits = limits_with(patient(), |limits| {
        limits.connect = millis(100);
    });
    let error = ask(server.base_url().replace("http:", "https:"), limits).await;
    ended_by(
        &error,
        Category::Unavailable,
        "no connection to",
        "connect_timeout_seconds",
    );
}

#[tokio::test]
async fn a_server_that_says_nothing() {
    for stall in [
        Stall::Silent,
        Stall::After(STREAM.as_bytes()[..30].to_vec()),
    ] {
        let server = StallingServer::start(stall).unwrap();
        let limits = limits_with(patient(), |limits| {
            limits.first_byte = millis(100);
        });
        let error = ask(server.base_url(), limits).await;
        ended_by(
            &error,
            Category::Unavailable,
            "sent no response within 0.1 s",
            "first_byte_timeout_seconds",
        );
    }
}

#[tokio::test]
async fn a_server_that_stops_in_the_middle() {
    let whole = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{";
    for said in [
        STREAM.to_owned(),
        format!("{STREAM}{WORD}data: {{\"choices\""),
        whole.to_owned(),
    ] {
        let server = StallingServer::start(Stall::After(said.into_bytes())).unwrap();
        let limits = limits_with(patient(), |limits| {
            limits.idle = millis(100);
        });
        let error = ask(server.base_url(), limits).await;
        ended_by(
            &error,
            Category::Unavailable,
            "sent nothing for 0.1 s",
            "idle_timeout_seconds",
        );
    }
}

#[tokio::test]
async fn a_server_that_never_comes_to_an_end() {
    let drip = |again: &str| {
        let pause = millis(10);
        Stall::Drip(STREAM.into(), again.into(), pause)
    };
    for again in [WORD, ": still here\n\n", "d"] {
        let server = StallingServer::start(drip(again)).unwrap();
        let limits = limits_with(patient(), |limits| {
            limits.total = millis(200);
        });
        let error = ask(server.base_url(), limits).await;
        // The server is alive; its model does not stop, and would not stop in a retry.
        ended_by(
            &error,
            Category::InvalidResponse,
            "not complete after 0.2 s",
            "total_timeout_seconds",
        );
    }
}

#[tokio::test]
async fn the_whole_time_counts_where_the_others_are_longer() {
    let limits = limits_with(patient(), |limits| {
        limits.total = millis(100);
    });
    let stall = Stall::After(format!("{STREAM}{WORD}").into_bytes());
    let server = StallingServer::start(stall).unwrap();
    let error = ask(server.base_url(), limits).await;
    ended_by(
        &error,
        Category::InvalidResponse,
        "not complete after 0.1 s",
        "total_timeout_seconds",
    );
    // The server sent nothing, so it is unavailable.
    let server = StallingServer::start(Stall::Silent).unwrap();
    let error = ask(server.base_url(), limits).await;
    ended_by(
        &error,
        Category::Unavailable,
        "sent no response within 0.1 s",
        "first_byte_timeout_seconds",
    );
}

#[tokio::test]
async fn the_words_of_a_refusal_are_not_waited_for() {
    let head = "HTTP/1.1 503 Busy\r\ncontent-length: 900\r\n\r\n{\"error\":";
    let server = StallingServer::start(Stall::After(head.into())).unwrap();
    let limits = limits_with(patient(), |limits| {
        limits.idle = millis(100);
    });
    let error = ask(server.base_url(), limits).await;
    assert_eq!(error.category, Category::Unavailable);
    assert!(error.message.contains("503"), "{error}");
}
