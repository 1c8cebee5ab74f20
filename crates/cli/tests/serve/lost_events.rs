//! Messages that are sent again after the log of events has lost their turns.

use std::fs;

use serde_json::json;

use crate::client::{Event, Served};
use crate::program::folder;

const SEND: &str = "/v1/sessions/s1/send";
const STREAM: (&str, &str) = ("accept", "text/event-stream");

fn sent(served: &Served, text: &str, key: &str) {
    let body = json!({ "message": text }).to_string();
    let answer = served.request("POST", SEND, &[("idempotency-key", key)], &body);
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// Sends a message again, and returns the data of the events of its answer.
fn events_again(served: &Served, text: &str, key: &str) -> Vec<String> {
    let body = json!({ "message": text }).to_string();
    let headers = [("idempotency-key", key), STREAM];
    // It returns at the end of the stream.
    let answer = served.request("POST", SEND, &headers, &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.head.contains("text/event-stream"), "{answer:?}");
    let lines = answer.text.lines();
    let data = lines.filter_map(|line| line.strip_prefix("data: "));
    data.map(str::to_owned).collect()
}

#[test]
fn a_turn_without_events_has_its_outcome() {
    let folder = folder(&[("agent.md", "<config model=\"echo:\"/>\n")]);
    let served = Served::start(folder.path(), &["agent.md"]);
    sent(&served, "one", "k1");
    assert!(events_again(&served, "one", "k1").len() > 1);
    served.kill();
    for suffix in ["", "-wal", "-shm"] {
        fs::remove_file(folder.path().join(format!("s.db-events{suffix}"))).unwrap();
    }
    let served = Served::start(folder.path(), &["agent.md"]);
    let has_outcome = |served: &Served| {
        let events = events_again(served, "one", "k1");
        let [only] = events.as_slice() else {
            panic!("{events:?}");
        };
        assert!(only.contains("turn.completed"), "{only}");
        assert!(only.contains("one"), "{only}");
    };
    has_outcome(&served);
    sent(&served, "two", "k2");
    has_outcome(&served);
    // The events of the later turn are in the log.
    let events = events_again(&served, "two", "k2");
    assert!(events.len() > 1, "{events:?}");
    let completion = json!({"model": "agent", "stream": true,
        "messages": [{"role": "user", "content": "three"}]});
    let headers = [("x-logue-session", "s1"), ("idempotency-key", "k3")];
    let path = "/v1/chat/completions";
    let complete = |served: &Served| {
        let answer = served.request("POST", path, &headers, &completion.to_string());
        assert!(answer.text.contains("three"), "{answer:?}");
        assert!(answer.text.ends_with("data: [DONE]\n\n"), "{answer:?}");
    };
    complete(&served);
    let response = json!({"model": "agent", "stream": true, "input": "six"}).to_string();
    let respond = |served: &Served| {
        let key = [("idempotency-key", "k6")];
        let answer = served.request("POST", "/v1/responses", &key, &response);
        assert!(answer.text.contains("response.completed"), "{answer:?}");
        assert!(answer.text.contains("six"), "{answer:?}");
    };
    respond(&served);
    served.kill();
    for suffix in ["", "-wal", "-shm"] {
        fs::remove_file(folder.path().join(format!("s.db-events{suffix}"))).unwrap();
    }
    let served = Served::start(folder.path(), &["agent.md"]);
    respond(&served);
    complete(&served);
    sent(&served, "four", "k4");
    complete(&served);
    let shown = served.get("/v1/sessions/s1").json();
    let after = shown["events_after"].as_str().unwrap().to_owned();
    sent(&served, "five", "k5");
    let mut stream = served.events("GET", "/v1/sessions/s1/events", Some(&after), "");
    let events = stream.until("turn.completed");
    assert_eq!(events.first().map(Event::kind), Some("turn.accepted"));
}
