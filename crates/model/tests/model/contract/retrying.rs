//! Asking again: when, how often, how long after, and when not.

use std::sync::Arc;
use std::time::Instant;

use logue_message::ChatMessage;
use logue_model::{
    Category, ModelEvent, ModelRequest, ModelResponse, Provider as _, ProviderError, RetryBudget,
    RetryProvider, SamplingSettings,
};
use testkit::{Answer, Delivery, ModelServer, Reply};

use super::{client, millis};

/// Waits of a few milliseconds.
fn quick() -> RetryBudget {
    RetryBudget::default().with_retries(3).with_first(millis(4))
}

fn status(status: u16, headers: &[(&str, &str)], body: &str) -> Reply {
    let headers = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Reply::Status(status, headers.collect(), body.to_owned())
}

fn hello() -> Reply {
    Reply::Answer(Answer::text("hello"))
}

struct Asked {
    result: Result<ModelResponse, ProviderError>,
    events: Vec<ModelEvent>,
    requests: usize,
}

impl Asked {
    fn error(&self) -> &ProviderError {
        self.result.as_ref().unwrap_err()
    }

    fn waits(&self) -> Vec<u128> {
        let waits = self.events.iter().filter_map(|event| match event {
            ModelEvent::Retry { wait, .. } => Some(wait.as_millis()),
            _ => None,
        });
        waits.collect()
    }

    fn text(&self) -> String {
        let texts = self.events.iter().filter_map(|event| match event {
            ModelEvent::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }
}

async fn ask(replies: Vec<Reply>, budget: RetryBudget) -> Asked {
    ask_with(replies, budget, 1.0, false).await
}

async fn ask_with(replies: Vec<Reply>, budget: RetryBudget, chance: f64, repeats: bool) -> Asked {
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let mut provider =
        RetryProvider::new(client(server.base_url()), budget).with_jitter(Arc::new(move || chance));
    if repeats {
        provider = provider.with_stream_restart();
    }
    let (messages, settings) = ([ChatMessage::user("hello")], SamplingSettings::default());
    let request = ModelRequest::new("m", &messages, &settings);
    let mut events = Vec::new();
    let result = provider
        .complete(&request, &mut |event| events.push(event))
        .await;
    let requests = server.received();
    // The same request each time, to the letter.
    assert!(
        requests
            .iter()
            .all(|request| request.body == requests[0].body)
    );
    Asked {
        result,
        events,
        requests: requests.len(),
    }
}

#[tokio::test]
async fn what_passes_by_itself_is_asked_again() {
    let loading = r#"{"error":{"code":503,"message":"Loading model"}}"#;
    let replies = vec![
        status(500, &[], ""),
        status(429, &[], "{}"),
        status(503, &[], loading),
        hello(),
    ];
    let asked = ask(replies, quick()).await;
    assert_eq!(asked.result.as_ref().unwrap().message.text(), "hello");
    assert_eq!(asked.requests, 4);
    assert_eq!(asked.text(), "hello");
    let told: Vec<_> = asked
        .events
        .iter()
        .filter_map(|event| match event {
            ModelEvent::Retry {
                attempt, category, ..
            } => Some((*attempt, *category)),
            _ => None,
        })
        .collect();
    let categories = [
        Category::Unavailable,
        Category::RateLimit,
        Category::ModelNotLoaded,
    ];
    assert_eq!(told, (1..).zip(categories).collect::<Vec<_>>());
}

#[tokio::test]
async fn waits_double_and_are_spread() {
    let gone = || vec![status(500, &[], "")];
    for (chance, waits) in [
        (1.0, vec![4, 8, 16]),
        (0.0, vec![2, 4, 8]),
        (0.5, vec![3, 6, 12]),
        // Invalid random numbers.
        (f64::NAN, vec![4, 8, 16]),
        (-3.0, vec![2, 4, 8]),
        (f64::INFINITY, vec![4, 8, 16]),
    ] {
        let asked = ask_with(gone(), quick(), chance, false).await;
        assert_eq!(asked.waits(), waits, "{chance}");
        assert_eq!(asked.requests, 4);
        assert_eq!(asked.error().category, Category::Unavailable);
        assert!(
            asked.error().message.contains("(4 requests in "),
            "{}",
            asked.error()
        );
    }
    let asked = ask(gone(), quick().with_retries(4).with_longest(millis(9))).await;
    assert_eq!(asked.waits(), [4, 8, 9, 9]);
    let asked = ask(gone(), RetryBudget::none()).await;
    assert_eq!((asked.requests, asked.events.len()), (1, 0));
    assert!(
        !asked.error().message.contains("asked"),
        "{}",
        asked.error()
    );
}

#[tokio::test]
async fn what_does_not_pass_is_not_asked_again() {
    for (code, body) in [
        (400, ""),
        (401, ""),
        (404, r#"{"error":{"message":"no such model"}}"#),
        (
            429,
            r#"{"error":{"message":"quota","code":"insufficient_quota"}}"#,
        ),
        (402, "{}"),
    ] {
        let asked = ask(vec![status(code, &[], body), hello()], quick()).await;
        assert_eq!(asked.requests, 1, "{code} {body}");
        assert_eq!(asked.events, [], "{code} {body}");
        assert!(!asked.error().transient);
    }
}

#[tokio::test]
async fn a_server_that_says_how_long_is_believed() {
    let busy = status(429, &[("retry-after-ms", "30")], "{}");
    let started = Instant::now();
    let asked = ask(vec![busy.clone(), busy, hello()], quick()).await;
    assert_eq!(asked.result.as_ref().unwrap().message.text(), "hello");
    // Not before it, and a little later.
    assert_eq!(asked.waits(), [34, 38]);
    assert!(started.elapsed() >= millis(72));
}

#[tokio::test]
async fn a_wait_beyond_the_budget_fails_at_once() {
    let day = ("Date", "Sun, 06 Nov 1994 08:49:37 GMT");
    for headers in [
        vec![("Retry-After", "3600")],
        vec![day, ("Retry-After", "Sun, 06 Nov 1994 09:49:37 GMT")],
    ] {
        let asked = ask(vec![status(429, &headers, "{}"), hello()], quick()).await;
        assert_eq!((asked.requests, asked.waits().len()), (1, 0));
        let error = asked.error();
        assert_eq!(error.category, Category::RateLimit);
        assert_eq!(error.retry_after.unwrap().as_secs(), 3_600);
        let help = error.help.as_ref().unwrap();
        assert!(help.contains("3600 s") && help.contains("60 s"), "{help}");
        assert!(help.contains("`retry_timeout_seconds`"), "{help}");
    }
    // Each wait has room, all of them together have not.
    let busy = status(503, &[("retry-after-ms", "40")], "{}");
    let budget = quick().with_retries(100).with_total(millis(120));
    let asked = ask(vec![busy], budget).await;
    assert!((2..=3).contains(&asked.requests), "{}", asked.requests);
    assert!(
        asked.error().message.contains(" requests in "),
        "{}",
        asked.error()
    );
}

#[tokio::test]
async fn the_budget_of_time_ends_it() {
    let budget = quick().with_retries(u32::MAX).with_total(millis(60));
    let asked = ask(vec![status(500, &[], "")], budget).await;
    assert!((2..=6).contains(&asked.requests), "{}", asked.requests);
}

#[tokio::test]
async fn an_answer_that_broke_off_is_not_asked_for_again() {
    let chunk = "data: {\"choices\":[{\"delta\":{\"content\":\"word \"}}]}\n\n";
    let thought = "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n";
    for piece in [chunk, thought] {
        let cut = || Reply::Cut(piece.as_bytes().to_vec());
        let asked = ask(vec![cut(), hello()], quick()).await;
        assert_eq!(asked.requests, 1);
        assert_eq!(asked.events.len(), 1);
        assert!(
            asked.error().message.contains("was interrupted"),
            "{}",
            asked.error()
        );

        // A handler that accepts a restart receives the complete response.
        let asked = ask_with(vec![cut(), hello()], quick(), 1.0, true).await;
        assert_eq!(asked.requests, 2);
        assert_eq!(asked.result.unwrap().message.text(), "hello");
        assert!(matches!(
            asked.events[1],
            ModelEvent::Retry { attempt: 1, .. }
        ));
    }
    // No event was reported yet.
    let asked = ask(vec![Reply::Cut(Vec::new()), hello()], quick()).await;
    assert_eq!(asked.requests, 2);
    assert_eq!(asked.text(), "hello");
}

#[tokio::test]
async fn a_server_that_does_not_listen_is_asked_again() {
    // The port was there a moment ago.
    let server = ModelServer::start(vec![hello()], Delivery::Whole).unwrap();
    let base_url = server.base_url();
    drop(server);
    let provider = RetryProvider::new(client(base_url), quick());
    let (messages, settings) = ([ChatMessage::user("hello")], SamplingSettings::default());
    let request = ModelRequest::new("m", &messages, &settings);
    let mut waits = 0;
    let result = provider.complete(&request, &mut |_| waits += 1).await;
    assert_eq!(result.unwrap_err().category, Category::Unavailable);
    assert_eq!(waits, 3);
}
