//! Cancellation: dropping a request at any point closes its connection.

use std::sync::Arc;
use std::time::Duration;

use logue_message::ChatMessage;
use logue_model::{
    ModelEvent, ModelRequest, Provider, RetryBudget, RetryProvider, SamplingSettings,
    StructuredProvider,
};
use serde_json::json;
use testkit::{Answer, Delivery, ModelServer, Reply, Stall, StallingServer};
use tokio::sync::Notify;

use super::client;

const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
const WHOLE: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9000\r\n\r\n";

/// Sends a request and drops it when `ready` completes.
async fn ask_until(
    provider: impl Provider,
    schema: bool,
    ready: impl Future<Output = ()>,
    mut handler: impl FnMut(ModelEvent) + Send,
) {
    let (messages, settings) = ([ChatMessage::user("hello")], SamplingSettings::default());
    let schema = schema.then(|| json!({"type": "object"}));
    let mut request = ModelRequest::new("m", &messages, &settings);
    request.response_schema = schema.as_ref();
    let asking = provider.complete(&request, &mut handler);
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
            // Lets the sent bytes arrive.
            tokio::time::sleep(Duration::from_millis(30)).await;
        };
        ask_until(client(server.base_url()), false, ready, |_| {}).await;
        // The connection is a separate task, which needs time to run.
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
    // The request is dropped during the wait before a retry.
    let server = ModelServer::start(
        vec![Reply::Status(500, vec![], String::new())],
        Delivery::Whole,
    )
    .unwrap();
    let budget = RetryBudget::default().with_first(Duration::from_millis(100));
    let waits = Arc::new(Notify::new());
    let notify = Arc::clone(&waits);
    let provider = RetryProvider::new(client(server.base_url()), budget);
    ask_until(provider, false, waits.notified(), move |_| {
        notify.notify_one();
    })
    .await;
    tokio::time::sleep(Duration::from_millis(250)).await;
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn a_second_request_is_dropped_too() {
    // The first response is not JSON, and the second one never arrives.
    let first = Reply::Answer(Answer::text("no"));
    let server = ModelServer::start(vec![first, Reply::Silent], Delivery::Whole).unwrap();
    let ready = async {
        while server.received().len() < 2 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let asks_again = Arc::new(Notify::new());
    let notify = Arc::clone(&asks_again);
    let provider = StructuredProvider::new(RetryProvider::new(
        client(server.base_url()),
        RetryBudget::default(),
    ));
    ask_until(provider, true, ready, move |event| {
        assert!(matches!(event, ModelEvent::SchemaRetry { .. }), "{event:?}");
        notify.notify_one();
    })
    .await;
    asks_again.notified().await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(server.received().len(), 2);
}
