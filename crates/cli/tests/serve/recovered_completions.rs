//! Streams of Chat Completions whose turn another process continues.

use std::path::Path;

use serde_json::{Value, json};
use testkit::{Answer, Delivery, Gate, ModelServer, Reply, end_of_stream, text_delta};

use crate::client::{Answered, Events, Served};
use crate::program::{folder, logue};

const AGENT: &str = "<config model=\"m\"/>\n";
const PATH: &str = "/v1/chat/completions";
const HEADERS: [(&str, &str); 2] = [("idempotency-key", "k"), ("x-logue-session", "s1")];

/// A model that answers with two pieces and hangs, and with `the answer` from then on.
fn model(gate: &Gate) -> ModelServer {
    let pieces = vec![text_delta("one "), text_delta("two "), end_of_stream()];
    let replies = vec![
        Reply::Gated(pieces, gate.clone()),
        Reply::Answer(Answer::text("the answer")),
        Reply::Answer(Answer::text("later")),
    ];
    ModelServer::start(replies, Delivery::Whole).unwrap()
}

fn serve(folder: &Path, model: &ModelServer) -> Served {
    let mut command = logue(folder);
    command.env("OPENAI_BASE_URL", model.base_url());
    Served::start_with(command, &["agent.md", "--retries", "0", "--drain", "1s"])
}

fn body() -> String {
    json!({"model": "agent", "stream": true, "stream_options": {"include_usage": true},
        "messages": [{"role": "user", "content": "go"}]})
    .to_string()
}

fn open(served: &Served) -> Events {
    served.try_events("POST", PATH, &HEADERS, &body()).unwrap()
}

fn send(served: &Served) -> Answered {
    served.request("POST", PATH, &HEADERS, &body())
}

fn text_of(chunk: &Value) -> &str {
    let text = &chunk["choices"][0]["delta"]["content"];
    text.as_str().unwrap_or_default()
}

/// Reads the chunks of a stream up to a text, and returns the text of all of them.
fn until(stream: &mut Events, end: &str) -> String {
    let mut text = String::new();
    while !text.ends_with(end) {
        let chunk = stream.next();
        let chunk = chunk.unwrap_or_else(|| panic!("the stream ended after `{text}`"));
        text.push_str(text_of(&chunk.data));
    }
    text
}

fn chunks(answer: &Answered) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{answer:?}");
    let lines = answer.text.lines();
    let data = lines.filter_map(|line| line.strip_prefix("data: "));
    data.filter_map(|data| serde_json::from_str(data).ok())
        .collect()
}

/// Returns the text of a whole stream.
fn streamed(answer: &Answered) -> String {
    assert!(answer.text.ends_with("data: [DONE]\n\n"), "{answer:?}");
    chunks(answer).iter().map(text_of).collect()
}

#[test]
fn a_stream_after_a_restart_has_the_recovered_answer_alone() {
    for is_killed in [true, false] {
        let gate = Gate::new();
        let model = model(&gate);
        let folder = folder(&[("agent.md", AGENT)]);
        let served = serve(folder.path(), &model);
        let mut first = open(&served);
        assert_eq!(until(&mut first, "one "), "one ");
        if is_killed {
            served.kill();
        } else {
            served.end();
        }
        let served = serve(folder.path(), &model);
        // One follows the turn while it is continued, one comes later.
        let during = send(&served);
        let later = send(&served);
        for answer in [&during, &later] {
            assert_eq!(streamed(answer), "the answer", "{is_killed} {answer:?}");
            let chunks = chunks(answer);
            let usage = &chunks.last().unwrap()["usage"];
            assert_eq!(usage["completion_tokens"], 7, "{answer:?}");
        }
        assert_eq!(model.received().len(), 2);
        // The streamed text is that of the session.
        let messages = json!([
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": streamed(&later)},
            {"role": "user", "content": "and"},
        ]);
        let next = json!({"model": "agent", "messages": messages}).to_string();
        let next = served.request("POST", PATH, &HEADERS[1..], &next);
        assert_eq!(next.status, 200, "{next:?}");
        assert!(
            next.head.contains("x-logue-conversation: appended\r\n"),
            "{next:?}"
        );
    }
}

#[test]
fn a_stream_that_has_sent_a_withdrawn_text_ends_with_an_error() {
    let gate = Gate::new();
    let model = model(&gate);
    let folder = folder(&[("agent.md", AGENT)]);
    let (first, second) = (serve(folder.path(), &model), serve(folder.path(), &model));
    let mut own = open(&first);
    assert_eq!(until(&mut own, "one "), "one ");
    let mut other = open(&second);
    gate.open();
    assert_eq!(until(&mut other, "two "), "one two ");
    first.kill();
    let error = loop {
        let event = other.next().unwrap();
        assert_eq!(text_of(&event.data), "");
        if event.data.get("error").is_some() {
            break event.data["error"].clone();
        }
    };
    assert_eq!(error["code"], "answer_withdrawn", "{error}");
    assert!(other.next().is_none());
    assert_eq!(streamed(&send(&second)), "the answer");
    assert_eq!(model.received().len(), 2);
}
