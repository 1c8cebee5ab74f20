//! Answers that a server left half way: what remains when the next one has answered.

use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use testkit::{Answer, Delivery, Gate, ModelServer, Reply, text_delta};

use crate::client::Served;
use crate::erased::files_with;
use crate::program::{folder, logue};
use crate::waiting::wait_until;

const AGENT: &str = "<config model=\"m\"/>\n";
const SEND: &str = "/v1/sessions/s1/send";
const PART: &str = "half an ";

fn serve(folder: &Path, model: &ModelServer) -> Served {
    let mut command = logue(folder);
    command.env("OPENAI_BASE_URL", model.base_url());
    let permitted = ["agent.md", "--permission", "*=allow", "--drain", "1s"];
    Served::start_with(command, &permitted)
}

/// An answer that stops after its first piece.
fn half() -> Reply {
    Reply::Gated(vec![text_delta(PART), text_delta("answer")], Gate::new())
}

/// Sends a message under the key of all messages of a test.
fn send(served: &Served, text: &str) -> Value {
    let body = json!({"message": text}).to_string();
    let sent = served.request("POST", SEND, &[("idempotency-key", text)], &body);
    assert_eq!(sent.status, 200, "{sent:?}");
    sent.json()
}

/// Begins a turn, and ends its server after a piece of the answer.
fn left(folder: &Path, model: &ModelServer, end: Signal) {
    let served = serve(folder, model);
    let body = json!({"message": "go"}).to_string();
    let headers = [("idempotency-key", "go")];
    let asked = model.received().len();
    let mut stream = served.try_events("POST", SEND, &headers, &body).unwrap();
    wait_until(
        || "the model is not asked".to_owned(),
        || model.received().len() > asked,
    );
    stream.until("answer.delta");
    if end == Signal::SIGKILL {
        wait_until(
            || "the part is not stored".to_owned(),
            || !files_with(folder, PART).is_empty(),
        );
        served.kill();
    } else {
        assert_eq!(served.end().status, Some(143));
    }
}

#[test]
fn the_answer_of_a_continued_turn_replaces_its_part() {
    for end in [Signal::SIGTERM, Signal::SIGKILL] {
        let replies = vec![
            half(),
            Reply::Answer(Answer::text("whole")),
            Reply::Answer(Answer::text("later")),
            Reply::Answer(Answer::text("last")),
        ];
        let model = ModelServer::start(replies, Delivery::Whole).unwrap();
        let folder = folder(&[("agent.md", AGENT)]);
        left(folder.path(), &model, end);

        let served = serve(folder.path(), &model);
        let whole = json!([{"role": "assistant", "content": "whole"}]);
        assert_eq!(send(&served, "go")["replies"], whole, "{end}");
        let history = json!([{"role": "user", "content": "go"}, whole[0]]);
        let shown = served.get("/v1/sessions/s1/messages").json();
        assert_eq!(shown["messages"], history, "{end}");
        let session = served.get("/v1/sessions/s1").json();
        assert_eq!(session["messages"], 2, "{end}: {session}");
        let nodes = served.get("/v1/sessions/s1/messages?form=nodes").json();
        assert_eq!(nodes["messages"].as_array().unwrap().len(), 2, "{end}");
        let export = served.get("/v1/sessions/s1/export?form=chatmd");
        assert!(!export.text.contains(PART), "{end}: {export:?}");
        let mut stream = served.events("GET", "/v1/sessions/s1/events", Some("0-1"), "");
        let ended = stream.until("turn.completed");
        assert_eq!(ended.last().unwrap().data["messages"], whole, "{end}");

        // The model receives one answer, and so did an OpenAI client.
        send(&served, "more");
        let asked = model.received().last().unwrap().body["messages"].clone();
        let expected = json!([history[0], whole[0], {"role": "user", "content": "more"}]);
        assert_eq!(asked, expected, "{end}");
        let messages = json!([history[0], whole[0], {"role": "user", "content": "more"},
            {"role": "assistant", "content": "later"}, {"role": "user", "content": "again"}]);
        let body = json!({"model": "agent", "messages": messages}).to_string();
        let headers = [("x-logue-session", "s1")];
        let chat = served.request("POST", "/v1/chat/completions", &headers, &body);
        let appended = chat.head.contains("x-logue-conversation: appended\r\n");
        assert!(appended, "{end}: {chat:?}");
    }
}

#[test]
fn a_part_before_a_call_is_replaced_too() {
    let replies = vec![
        half(),
        Reply::Answer(Answer::text("").with_call("c1", "work", "{}")),
        half(),
        Reply::Answer(Answer::text("whole")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let tool = format!("{AGENT}<tool name=\"work\" command=\"printf done\"/>\n");
    let folder = folder(&[("agent.md", &tool)]);
    left(folder.path(), &model, Signal::SIGTERM);
    let served = serve(folder.path(), &model);
    wait_until(
        || "the call does not run".to_owned(),
        || model.received().len() == 3,
    );
    assert_eq!(served.end().status, Some(143));

    let served = serve(folder.path(), &model);
    let replies = send(&served, "go")["replies"].clone();
    let roles = replies.as_array().unwrap().iter();
    let roles: Vec<_> = roles.map(|message| message["role"].clone()).collect();
    assert_eq!(roles, ["assistant", "tool", "assistant"], "{replies}");
    assert!(!replies.to_string().contains(PART), "{replies}");
    assert_eq!(replies[2]["content"], "whole");
}

#[test]
fn a_turn_survives_any_number_of_drains() {
    const DRAINS: usize = 5;
    let mut replies: Vec<Reply> = (0..DRAINS).map(|_| half()).collect();
    replies.push(Reply::Answer(Answer::text("whole")));
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    for _ in 0..DRAINS {
        left(folder.path(), &model, Signal::SIGTERM);
    }
    let served = serve(folder.path(), &model);
    let whole = json!([{"role": "assistant", "content": "whole"}]);
    assert_eq!(send(&served, "go")["replies"], whole);
    assert_eq!(model.received().len(), DRAINS + 1);
}

#[test]
fn a_drain_among_kills_does_not_count_as_one() {
    let ends = [
        Signal::SIGKILL,
        Signal::SIGTERM,
        Signal::SIGKILL,
        Signal::SIGTERM,
        Signal::SIGKILL,
        Signal::SIGKILL,
    ];
    let replies = ends.iter().map(|_| half()).collect();
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    for end in ends {
        left(folder.path(), &model, end);
    }
    // The fourth kill was one too many.
    let served = serve(folder.path(), &model);
    let mut stream = served.events("GET", "/v1/sessions/s1/events", Some("0-1"), "");
    let ended = stream.until("turn.failed");
    let error = &ended.last().unwrap().data["error"];
    assert_eq!(error["code"], "turn_interrupted", "{error}");
    assert_eq!(model.received().len(), ends.len());
}
