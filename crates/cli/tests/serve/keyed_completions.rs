//! Chat Completions under one `Idempotency-Key`: one turn and one answer.

use std::path::Path;

use serde_json::{Value, json};
use testkit::{Answer, Delivery, Gate, ModelServer, Reply, end_of_stream, text_delta};

use crate::client::{Answered, Served};
use crate::program::{folder, logue};
use crate::waiting::wait_until;

const AGENT: &str = "<config model=\"m\"/>\n";
const PATH: &str = "/v1/chat/completions";
const KEY: (&str, &str) = ("idempotency-key", "k");

fn serve(folder: &Path, model: &ModelServer, arguments: &[&str]) -> Served {
    let mut command = logue(folder);
    command.env("OPENAI_BASE_URL", model.base_url());
    let arguments = [&["agent.md", "--retries", "0"], arguments].concat();
    Served::start_with(command, &arguments)
}

fn request(text: &str) -> Value {
    json!({"model": "agent", "messages": [{"role": "user", "content": text}]})
}

fn send(served: &Served, headers: &[(&str, &str)], body: &Value) -> Answered {
    let headers = [&[KEY], headers].concat();
    served.request("POST", PATH, &headers, &body.to_string())
}

fn content(answer: &Answered) -> Value {
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["choices"][0]["message"]["content"].clone()
}

/// Returns the text of the chunks of a stream.
fn streamed(answer: &Answered) -> String {
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.text.ends_with("data: [DONE]\n\n"), "{answer:?}");
    let lines = answer.text.lines();
    let data = lines.filter_map(|line| line.strip_prefix("data: "));
    let chunks = data.filter_map(|data| serde_json::from_str::<Value>(data).ok());
    let texts = chunks.filter_map(|chunk| {
        let text = &chunk["choices"][0]["delta"]["content"];
        text.as_str().map(str::to_owned)
    });
    texts.collect()
}

fn refuse_other_bodies(served: &Served, headers: &[(&str, &str)]) {
    let mut stream = request("go");
    stream["stream"] = json!(true);
    for other in [request("other"), stream] {
        let refused = send(served, headers, &other);
        assert_eq!(refused.status, 409, "{refused:?}");
        let error = &refused.json()["error"];
        assert_eq!(error["code"], "idempotency_key_reused", "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.ends_with("another body"), "{message}");
    }
}

#[test]
fn a_stateless_request_has_one_answer_while_it_runs_and_later() {
    let gate = Gate::new();
    let pieces = vec![text_delta("one "), text_delta("two"), end_of_stream()];
    let replies = vec![
        Reply::Gated(pieces, gate.clone()),
        Reply::Answer(Answer::text("another")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, &[]);
    // The first client leaves before the answer.
    let body = request("go").to_string();
    let left = served.connect("POST", PATH, &[KEY], &body).unwrap();
    wait_until(
        || "the model is not asked".to_owned(),
        || model.received().len() == 1,
    );
    drop(left);
    let answers = std::thread::scope(|scope| {
        let repeated = [(); 3].map(|()| scope.spawn(|| send(&served, &[], &request("go"))));
        refuse_other_bodies(&served, &[]);
        gate.open();
        gate.open();
        repeated.map(|task| task.join().unwrap())
    });
    let later = send(&served, &[], &request("go"));
    for answer in &answers {
        assert_eq!(content(answer), "one two");
        assert_eq!(answer.json(), later.json());
    }
    refuse_other_bodies(&served, &[]);
    assert_eq!(model.received().len(), 1);
    // Another key is another request.
    let other = served.request("POST", PATH, &[("idempotency-key", "l")], &body);
    assert_eq!(content(&other), "another");
}

#[test]
fn a_stream_of_a_stateless_request_is_sent_again_from_its_beginning() {
    let gate = Gate::new();
    let pieces = vec![text_delta("one "), text_delta("two"), end_of_stream()];
    let replies = vec![Reply::Gated(pieces, gate.clone())];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, &[]);
    let mut body = request("go");
    body["stream"] = json!(true);
    let headers = [KEY];
    let mut first = served
        .try_events("POST", PATH, &headers, &body.to_string())
        .unwrap();
    let first_text = |data: &Value| data["choices"][0]["delta"]["content"] == "one ";
    while !first_text(&first.next().unwrap().data) {}
    std::thread::scope(|scope| {
        let repeated = scope.spawn(|| send(&served, &[], &body));
        gate.open();
        gate.open();
        assert_eq!(streamed(&repeated.join().unwrap()), "one two");
    });
    assert_eq!(streamed(&send(&served, &[], &body)), "one two");
    assert_eq!(model.received().len(), 1);
}

#[test]
fn a_stateless_request_that_failed_is_tried_again() {
    let replies = vec![
        Reply::Status(503, Vec::new(), "{}".to_owned()),
        Reply::Answer(Answer::text("late")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, &[]);
    assert_eq!(send(&served, &[], &request("go")).status, 503);
    assert_eq!(content(&send(&served, &[], &request("go"))), "late");
    assert_eq!(content(&send(&served, &[], &request("go"))), "late");
    assert_eq!(model.received().len(), 2);
}

#[test]
fn a_request_of_a_session_is_one_turn_also_after_a_restart() {
    let session = ("x-logue-session", "s1");
    let named: (&[&str], &[(&str, &str)]) = (&[], &[session]);
    let found: (&[&str], &[(&str, &str)]) = (&["--continue-conversations"], &[]);
    for (arguments, headers) in [named, found] {
        let reply = |_: &_| Reply::Answer(Answer::text("done"));
        let model = ModelServer::start_by(reply, Delivery::Whole).unwrap();
        let folder = folder(&[("agent.md", AGENT)]);
        let mut served = serve(folder.path(), &model, arguments);
        let first = send(&served, headers, &request("go"));
        assert_eq!(content(&first), "done");
        assert_eq!(first.json()["usage"]["total_tokens"], 18, "{first:?}");
        assert!(first.head.contains("x-logue-conversation: created\r\n"));
        for round in 0..3 {
            let again = send(&served, headers, &request("go"));
            assert_eq!(again.json(), first.json(), "{again:?}");
            for name in ["x-logue-conversation: ", "x-logue-session: "] {
                let own = |answer: &Answered| {
                    let mut lines = answer.head.lines();
                    lines.find(|line| line.starts_with(name)).map(str::to_owned)
                };
                assert!(own(&first).is_some(), "{first:?}");
                assert_eq!(own(&again), own(&first), "round {round}");
            }
            refuse_other_bodies(&served, headers);
            if round == 1 {
                served.kill();
                served = serve(folder.path(), &model, arguments);
            }
        }
        assert_eq!(model.received().len(), 1);
        // A key of the Responses API is another one.
        let body = json!({"model": "agent", "input": "go"}).to_string();
        let response = served.request("POST", "/v1/responses", &[KEY], &body);
        assert_eq!(response.status, 200, "{response:?}");
    }
}

#[test]
fn a_stream_of_a_session_is_sent_again_from_its_beginning() {
    let gate = Gate::new();
    let pieces = vec![text_delta("one "), text_delta("two"), end_of_stream()];
    let replies = vec![Reply::Gated(pieces, gate.clone())];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, &[]);
    let mut body = request("go");
    body["stream"] = json!(true);
    let headers = [("x-logue-session", "s1")];
    let all = [KEY, headers[0]];
    let mut first = served
        .try_events("POST", PATH, &all, &body.to_string())
        .unwrap();
    let first_text = |data: &Value| data["choices"][0]["delta"]["content"] == "one ";
    while !first_text(&first.next().unwrap().data) {}
    std::thread::scope(|scope| {
        let repeated = scope.spawn(|| send(&served, &headers, &body));
        gate.open();
        gate.open();
        assert_eq!(streamed(&repeated.join().unwrap()), "one two");
    });
    assert_eq!(streamed(&send(&served, &headers, &body)), "one two");
    assert_eq!(model.received().len(), 1);
}

#[test]
fn a_key_belongs_to_the_session_of_its_first_request() {
    let reply = |_: &_| Reply::Answer(Answer::text("done"));
    let sessions = ["", "s1", "s2"];
    for first in sessions {
        let model = ModelServer::start_by(reply, Delivery::Whole).unwrap();
        let folder = folder(&[("agent.md", AGENT)]);
        let served = serve(folder.path(), &model, &[]);
        let send = |session: &&str| {
            let headers = [("x-logue-session", *session)];
            let headers = if session.is_empty() {
                &[][..]
            } else {
                &headers[..]
            };
            send(&served, headers, &request("go"))
        };
        assert_eq!(content(&send(&first)), "done");
        for other in sessions.iter().filter(|session| **session != first) {
            let refused = send(other);
            assert_eq!(refused.status, 409, "{first} {other} {refused:?}");
            let error = &refused.json()["error"];
            assert_eq!(error["code"], "idempotency_key_reused", "{refused:?}");
            let message = error["message"].as_str().unwrap();
            assert!(message.ends_with("another `X-Logue-Session`"), "{message}");
        }
        assert_eq!(content(&send(&first)), "done");
        assert_eq!(model.received().len(), 1, "{first}");
    }
}

#[test]
fn every_answer_of_a_session_has_its_usage() {
    let reply = |_: &_| Reply::Answer(Answer::text("done"));
    let model = ModelServer::start_by(reply, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, &[]);
    // One of them may run the turns of several.
    let answers = std::thread::scope(|scope| {
        let tasks = ["a", "b", "c", "d", "e", "f"].map(|text| {
            let body = request(text).to_string();
            let headers = [("x-logue-session", "s1")];
            let served = &served;
            scope.spawn(move || served.request("POST", PATH, &headers, &body))
        });
        tasks.map(|task| task.join().unwrap())
    });
    for answer in &answers {
        assert_eq!(content(answer), "done");
        assert_eq!(answer.json()["usage"]["total_tokens"], 18, "{answer:?}");
    }
}
