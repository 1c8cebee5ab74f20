//! Turns that are cancelled in the middle of an answer.

use std::path::Path;

use serde_json::json;
use testkit::{Delivery, Gate, ModelServer, Reply, end_of_stream, text_delta};

use crate::client::{Event, Served};
use crate::program::{folder, logue, run};
use crate::waiting::wait_until;

const AGENT: &str = "<config model=\"m\"/>\n";

/// Returns the text that a client has received.
fn text_of(events: &[Event]) -> String {
    let deltas = events.iter().filter(|event| event.kind() == "answer.delta");
    let texts = deltas.map(|event| event.data["text"].as_str().unwrap());
    texts.collect()
}

/// Cancels turns whose text a client has received, and checks that the history has this text.
fn check(cancel: impl Fn(&Path, &ModelServer, &Served, &str)) {
    for count in 1..=3 {
        let gate = Gate::new();
        let pieces: Vec<_> = (0..6).map(|n| text_delta(&format!("piece{n} "))).collect();
        let replies = vec![Reply::Gated(pieces, gate.clone())];
        let model = ModelServer::start(replies, Delivery::Whole).unwrap();
        let folder = folder(&[("agent.md", AGENT)]);
        let served = serve(folder.path(), &model);
        let body = json!({"message": "go"}).to_string();
        let mut stream = served.events("POST", "/v1/sessions/s1/send", None, &body);
        let mut events = stream.until("answer.delta");
        for number in 1..count {
            gate.open();
            let last = format!("piece{number} ");
            while !text_of(&events).ends_with(&last) {
                events.push(stream.next().unwrap());
            }
        }
        cancel(folder.path(), &model, &served, "/v1/sessions/s1/cancel");
        events.extend(stream.until("turn.failed"));
        let failed = events.last().unwrap();
        assert_eq!(failed.data["error"]["code"], "turn_cancelled");
        let shown = text_of(&events);
        assert!(shown.starts_with("piece0 "), "{shown}");
        let messages = served.get("/v1/sessions/s1/messages").json();
        let last = messages["messages"].as_array().unwrap().last().unwrap();
        assert_eq!(last["role"], "assistant", "{messages}");
        assert_eq!(last["content"], shown, "{messages}");
        assert_eq!(last["status"], "interrupted", "{messages}");
    }
}

fn serve(folder: &Path, model: &ModelServer) -> Served {
    let mut command = logue(folder);
    command.env("OPENAI_BASE_URL", model.base_url());
    Served::start_with(command, &["agent.md"])
}

#[test]
fn a_cancelled_answer_keeps_the_text_that_clients_received() {
    check(|_, _, served, path| {
        let cancelled = served.post(path, &json!({}));
        assert_eq!(cancelled.json()["cancelling"], true, "{cancelled:?}");
    });
}

#[test]
fn another_process_cancels_without_loss() {
    check(|folder, model, _, path| {
        let other = serve(folder, model);
        let cancelled = other.post(path, &json!({}));
        assert_eq!(cancelled.json()["cancelling"], true, "{cancelled:?}");
    });
}

#[test]
fn a_message_that_interrupts_keeps_the_text_that_clients_received() {
    let gate = Gate::new();
    let pieces = vec![text_delta("begun "), text_delta("more")];
    let replies = vec![
        Reply::Gated(pieces, gate.clone()),
        Reply::Answer(testkit::Answer::text("next")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model);
    let body = json!({"message": "go"}).to_string();
    let mut stream = served.events("POST", "/v1/sessions/s1/send", None, &body);
    stream.until("answer.delta");
    // The same process runs the next turn, whose pieces are not withheld.
    let body = json!({"message": "stop", "busy": "interrupt"});
    let sent = served.post("/v1/sessions/s1/send", &body);
    assert_eq!(sent.json()["replies"][0]["content"], "next", "{sent:?}");
    stream.until("turn.failed");
    let shown = run(
        folder.path(),
        ["sessions", "show", "s1", "--json", "--store", "sqlite:s.db"],
    );
    let shown: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    let contents: Vec<&str> = shown["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert_eq!(contents, ["go", "begun ", "stop", "next"]);
}

/// Serves an agent whose answer stops after its first piece.
fn stopping(folder: &Path) -> (ModelServer, Gate, Served) {
    let gate = Gate::new();
    let pieces = vec![text_delta("begun "), text_delta("more")];
    let replies = vec![Reply::Gated(pieces, gate.clone())];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let served = serve(folder, &model);
    (model, gate, served)
}

#[test]
fn a_cancelled_response_has_its_text_once() {
    let folder = folder(&[("agent.md", AGENT)]);
    let (_model, _gate, served) = stopping(folder.path());
    let body = json!({"model": "agent", "input": "go", "stream": true}).to_string();
    let mut stream = served.events("POST", "/v1/responses", None, &body);
    let mut events = stream.until("response.output_text.delta");
    let id = events[0].data["response"]["id"].as_str().unwrap();
    let path = format!("/v1/responses/{id}");
    let cancelled = served.post(&format!("{path}/cancel"), &json!({}));
    assert!(cancelled.status < 300, "{cancelled:?}");
    events.extend(stream.until("response.failed"));
    let last = events.last().unwrap();
    assert_eq!(last.data["response"]["status"], "cancelled");
    assert_eq!(served.get(&path).json(), last.data["response"]);
    let of_kind = |kind: &str| -> Vec<&Event> {
        events.iter().filter(|event| event.kind() == kind).collect()
    };
    let deltas = of_kind("response.output_text.delta");
    let texts: String = deltas
        .iter()
        .map(|event| event.data["delta"].as_str().unwrap())
        .collect();
    assert_eq!(texts, "begun ");
    assert_eq!(of_kind("response.output_item.done").len(), 1);
    let read = served.get(&path).json();
    let item = &read["output"][0];
    assert_eq!(item["content"][0]["text"], texts.as_str(), "{read}");
    assert_eq!(item["status"], "incomplete", "{read}");
    assert_eq!(item["id"], deltas[0].data["item_id"], "{read}");
}

#[test]
fn a_cancelled_run_has_its_text_once() {
    let folder = folder(&[("agent.md", AGENT)]);
    let (_model, _gate, served) = stopping(folder.path());
    let body = json!({"threadId": "s1", "runId": "r1", "state": {}, "tools": [], "context": [],
        "forwardedProps": {}, "messages": [{"id": "m1", "role": "user", "content": "go"}]});
    let mut stream = served.events("POST", "/v1/ag-ui/agent", None, &body.to_string());
    let mut events = stream.until("TEXT_MESSAGE_CONTENT");
    let cancelled = served.post("/v1/sessions/s1/cancel", &json!({}));
    assert_eq!(cancelled.json()["cancelling"], true, "{cancelled:?}");
    events.extend(stream.until("RUN_FINISHED"));
    let begun = events
        .iter()
        .filter(|event| event.kind() == "TEXT_MESSAGE_START");
    assert_eq!(begun.count(), 1, "{events:?}");
    let deltas = events
        .iter()
        .filter(|event| event.kind() == "TEXT_MESSAGE_CONTENT");
    let texts: String = deltas
        .map(|event| event.data["delta"].as_str().unwrap())
        .collect();
    assert_eq!(texts, "begun ");
}

#[test]
fn a_response_that_waits_is_cancelled_without_a_request() {
    let gate = Gate::new();
    let pieces = vec![text_delta("begun"), end_of_stream()];
    let replies = vec![
        Reply::Gated(pieces, gate.clone()),
        Reply::Answer(testkit::Answer::text("third")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model);
    let conversation = served.post("/v1/conversations", &json!({})).json();
    let begin = |text: &str| {
        let body = json!({"model": "agent", "input": text, "background": true,
            "conversation": conversation["id"]});
        let begun = served.post("/v1/responses", &body).json();
        format!("/v1/responses/{}", begun["id"].as_str().unwrap())
    };
    let status_is = |path: &str, status: &str| {
        wait_until(
            || format!("not {status}: {}", served.get(path).text),
            || served.get(path).json()["status"] == status,
        );
    };
    let first = begin("one");
    wait_until(|| "no request".to_owned(), || model.received().len() == 1);
    let second = begin("two");
    let third = begin("three");
    let cancelled = served.post(&format!("{second}/cancel"), &json!({}));
    assert_eq!(cancelled.status, 200, "{cancelled:?}");
    assert_eq!(cancelled.json()["status"], "queued", "{cancelled:?}");
    gate.open();
    gate.open();
    status_is(&first, "completed");
    status_is(&third, "completed");
    status_is(&second, "cancelled");
    let received = model.received();
    assert_eq!(received.len(), 2);
    let last = received[1].body["messages"].to_string();
    assert!(last.contains("three"), "{last}");
}
