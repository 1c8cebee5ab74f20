//! Dropping a request ends it, wherever it is: the server sees the connection close.

use std::sync::Arc;
use std::time::Duration;

use logue_message::ChatMessage;
use logue_model::{Event, Provider, Request, RetryBudget, Retrying, Settings, Structured};
use serde_json::json;
use testkit::{Answer, Delivery, ModelServer, Reply, Stall, StallingServer};
use tokio::sync::Notify;

use crate::client;

const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
const WHOLE: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9000\r\n\r\n";

/// Asks until `told` says so, and then drops the request.
async fn ask_until(
    provider: impl Provider,
    schema: bool,
    ready: impl Future<Output = ()>,
    mut told: impl FnMut(Event) + Send,
) {
    let (messages, settings) = ([ChatMessage::user("hello")], Settings::default());
    let schema = schema.then(|| json!({"type": "object"}));
    let mut request = Request::new("m", &messages, &settings);
    request.response_schema = schema.as_ref();
    let asking = provider.complete(&request, &mut told);
    tokio::select! {
        result = asking => panic!("it ended: {result:?}"),
        () = ready => {}
        () = tokio::time::sleep(Duration::from_secs(20)) => panic!("it was never ready"),
    }
}

async fn begun(server: &StallingServer, requests: usize) {
    while server.begun() < requests {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_dropped_request_closes_its_connection() {
    let half = b"data: {\"choices\":[{\"delta\":{\"content\":\"wo";
    for stall in [
        Stall::Silent,
        Stall::After(STREAM.as_bytes()[..20].to_vec()),
        Stall::After(STREAM.into()),
        Stall::After([STREAM.as_bytes(), half].concat()),
        Stall::After([WHOLE.as_bytes(), b"{\"choices\":"].concat()),
        Stall::Drip(
            STREAM.into(),
            b": still here\n\n".to_vec(),
            Duration::from_millis(3),
        ),
    ] {
        let server = StallingServer::start(stall.clone()).unwrap();
        let ready = async {
            begun(&server, 1).await;
            // Whatever it says has come.
            tokio::time::sleep(Duration::from_millis(30)).await;
        };
        ask_until(client(server.base_url()), false, ready, |_| {}).await;
        // The connection is a task of its own, so this one has to give way to it.
        let closed = async {
            while server.closed() == 0 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let seen = tokio::time::timeout(Duration::from_secs(10), closed).await;
        assert!(seen.is_ok(), "{stall:?}");
    }
}

#[tokio::test]
async fn a_dropped_request_is_not_made_again() {
    // It is dropped while it waits.
    let server = ModelServer::start(
        vec![Reply::Status(500, vec![], String::new())],
        Delivery::Whole,
    )
    .unwrap();
    let budget = RetryBudget::default().with_first(Duration::from_millis(100));
    let waits = Arc::new(Notify::new());
    let told = Arc::clone(&waits);
    let provider = Retrying::new(client(server.base_url()), budget);
    ask_until(provider, false, waits.notified(), move |_| {
        told.notify_one();
    })
    .await;
    tokio::time::sleep(Duration::from_millis(250)).await;
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn a_second_request_is_dropped_too() {
    // The first answer is no JSON, the second one never comes.
    let first = Reply::Answer(Answer::text("no"));
    let server = ModelServer::start(vec![first, Reply::Silent], Delivery::Whole).unwrap();
    let ready = async {
        while server.received().len() < 2 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let asks_again = Arc::new(Notify::new());
    let told = Arc::clone(&asks_again);
    let provider = Structured::new(Retrying::new(
        client(server.base_url()),
        RetryBudget::default(),
    ));
    ask_until(provider, true, ready, move |event| {
        assert!(matches!(event, Event::Reasking { .. }), "{event:?}");
        told.notify_one();
    })
    .await;
    asks_again.notified().await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(server.received().len(), 2);
}
