//! Answers that ended half way: what remains of them, and what remains when the next one has answered.

use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use testkit::{Answer, Delivery, Gate, ModelServer, Reply, text_delta};

use crate::client::Served;
use crate::erased::files_with;
use crate::program::{folder, logue, run};
use crate::waiting::wait_until;

const AGENT: &str = "<config model=\"m\"/>\n";
const SEND: &str = "/v1/sessions/s1/send";
const PART: &str = "half an ";

fn serve(folder: &Path, model: &ModelServer) -> Served {
    serve_with(folder, model, &[])
}

fn serve_with(folder: &Path, model: &ModelServer, more: &[&str]) -> Served {
    let mut command = logue(folder);
    command.env("OPENAI_BASE_URL", model.base_url());
    let permitted = ["agent.md", "--permission", "*=allow", "--drain", "1s"];
    Served::start_with(command, &[&permitted, more].concat())
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

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

fn part() -> Value {
    json!({"role": "assistant", "content": PART, "status": "interrupted"})
}

fn history(served: &Served) -> Value {
    served.get("/v1/sessions/s1/messages").json()["messages"].clone()
}

/// Returns the messages of the latest request to the model.
fn asked(model: &ModelServer) -> Value {
    model.received().last().unwrap().body["messages"].clone()
}

/// Waits for the failure of the session's turn, and returns its event.
fn failed(served: &Served) -> Value {
    let mut stream = served.events("GET", "/v1/sessions/s1/events", Some("0-1"), "");
    stream.until("turn.failed").last().unwrap().data.clone()
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
            // The log of events has it before the journal.
            || {
                let files = files_with(folder, PART);
                files.iter().any(|file| !file.contains("events"))
            },
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
    let ended = failed(&served);
    assert_eq!(ended["error"]["code"], "turn_interrupted", "{ended}");
    assert_eq!(model.received().len(), ends.len());
    assert_eq!(ended["messages"], json!([part()]), "{ended}");
    assert_eq!(history(&served), json!([user("go"), part()]));
}

#[test]
fn a_turn_that_is_given_up_keeps_its_message() {
    let replies = (0..5).map(|number| match number {
        0..4 => Reply::Silent,
        _ => Reply::Answer(Answer::text("whole")),
    });
    for is_retried in [false, true] {
        let model = ModelServer::start(replies.clone().collect(), Delivery::Whole).unwrap();
        let folder = folder(&[("agent.md", AGENT)]);
        let body = json!({"message": "go"}).to_string();
        for requests in 1..5 {
            let served = serve(folder.path(), &model);
            let headers = [("idempotency-key", "go")];
            let sent = served.connect("POST", SEND, &headers, &body).unwrap();
            wait_until(
                || "the model is not asked".to_owned(),
                || model.received().len() == requests,
            );
            served.kill();
            drop(sent);
        }
        let served = serve(folder.path(), &model);
        let ended = failed(&served);
        assert_eq!(ended["error"]["code"], "turn_interrupted", "{ended}");
        assert_eq!(ended["error"]["resumable"], true, "{ended}");
        assert_eq!(history(&served), json!([user("go")]));
        if is_retried {
            assert_eq!(send(&served, "go")["replies"], json!([assistant("whole")]));
            assert_eq!(asked(&model), json!([user("go")]));
            assert_eq!(history(&served), json!([user("go"), assistant("whole")]));
        } else {
            // The model receives the message with the next one.
            send(&served, "more");
            assert!(
                asked(&model).to_string().contains("go"),
                "{}",
                asked(&model)
            );
            let all = json!([user("go"), user("more"), assistant("whole")]);
            assert_eq!(history(&served), all);
        }
    }
}

/// Checks that every reader of a session with a superseded part receives one answer.
fn has_one_answer(folder: &Path, served: &Served, model: &ModelServer) {
    let shown = served.get("/v1/sessions/s1/messages").json();
    let current = json!([user("go"), assistant("whole")]);
    assert_eq!(shown["messages"], current, "{shown}");
    // The part keeps its position, also at the end of a page.
    assert_eq!(shown["to"], 3, "{shown}");
    let page = served.get("/v1/sessions/s1/messages?before=2").json();
    assert_eq!(page["messages"], json!([user("go")]), "{page}");
    // A page is empty at the beginning only, or if it is asked for.
    let page = served
        .get("/v1/sessions/s1/messages?before=2&limit=1")
        .json();
    assert_eq!(page["messages"], json!([user("go")]), "{page}");
    assert_eq!(
        (&page["from"], &page["to"]),
        (&json!(0), &json!(2)),
        "{page}"
    );
    let page = served.get("/v1/sessions/s1/messages?limit=0").json();
    assert_eq!(page, json!({"from": 3, "to": 3, "messages": []}));
    let nodes = served.get("/v1/sessions/s1/messages?form=nodes").json();
    let nodes = nodes["messages"].as_array().unwrap();
    let positions: Vec<&Value> = nodes.iter().map(|node| &node["position"]).collect();
    assert_eq!(positions, [0, 2]);
    for (form, to) in [
        ("json", "json"),
        ("chatmd", "chatmd"),
        ("openchatml", "ocml2.2"),
    ] {
        let export = served.get(&format!("/v1/sessions/s1/export?form={form}"));
        assert!(export.text.contains("whole"), "{export:?}");
        assert!(!export.text.contains(PART), "{export:?}");
        let command = [
            "sessions",
            "export",
            "s1",
            "--to",
            to,
            "--store",
            "sqlite:s.db",
        ];
        let exported = run(folder, command);
        assert_eq!(exported.status, 0, "{}{}", exported.stdout, exported.stderr);
        assert!(
            exported.stdout.contains("whole"),
            "{}{}",
            exported.stdout,
            exported.stderr
        );
        assert!(
            !exported.stdout.contains(PART),
            "{}{}",
            exported.stdout,
            exported.stderr
        );
    }
    let command = ["sessions", "show", "s1", "--store", "sqlite:s.db"];
    let text = run(folder, command).stdout;
    assert!(text.contains("whole") && !text.contains(PART), "{text}");
    let command = [
        "sessions",
        "show",
        "s1",
        "--steps",
        "--json",
        "--store",
        "sqlite:s.db",
    ];
    let listed: Value = serde_json::from_str(&run(folder, command).stdout).unwrap();
    let steps = listed["steps"].as_array().unwrap().iter();
    let steps: Vec<Value> = steps
        .map(|step| json!([step["step"], step["text"]]))
        .collect();
    // The part keeps its number.
    assert_eq!(json!(steps), json!([[1, "go"], [3, "whole"]]), "{listed}");
    // No copy ends with the part, which would be current there.
    for (upto, messages) in [(1, 1), (2, 1), (3, 3)] {
        let copy = served.post("/v1/sessions/s1/fork", &json!({ "messages": upto }));
        let copy = copy.json();
        assert_eq!(copy["messages"], messages, "{upto}: {copy}");
        let path = format!(
            "/v1/sessions/{}/messages",
            copy["session"].as_str().unwrap()
        );
        let shown = served.get(&path).json()["messages"].clone();
        let current = [user("go"), assistant("whole")];
        let expected = if upto == 3 {
            &current[..]
        } else {
            &current[..1]
        };
        assert_eq!(shown, json!(expected), "{upto}");
    }
    let found = served.get("/v1/sessions?search=half").json();
    assert_eq!(found["sessions"], json!([]), "{found}");
    let items = served.post(
        "/v1/ag-ui/agent",
        &json!({"threadId": "s1", "runId": "r1", "messages": [], "tools": [], "context": [],
            "state": {}, "forwardedProps": {}}),
    );
    assert!(
        items.text.contains("whole") && !items.text.contains(PART),
        "{items:?}"
    );

    send(served, "more");
    assert_eq!(
        asked(model),
        json!([user("go"), assistant("whole"), user("more")])
    );
    let messages = json!([
        user("go"),
        assistant("whole"),
        user("more"),
        assistant("later"),
        user("again")
    ]);
    let body = json!({"model": "agent", "messages": messages}).to_string();
    let headers = [("x-logue-session", "s1")];
    let chat = served.request("POST", "/v1/chat/completions", &headers, &body);
    let appended = chat.head.contains("x-logue-conversation: appended\r\n");
    assert!(appended, "{chat:?}");
}

#[test]
fn a_retried_answer_replaces_the_part_of_a_broken_stream() {
    let mut replies = vec![Reply::Cut(text_delta(PART)); 2];
    replies.extend(["whole", "later", "last"].map(|text| Reply::Answer(Answer::text(text))));
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve_with(folder.path(), &model, &["--retries", "0"]);
    let body = json!({"message": "go"}).to_string();
    for attempt in 1..3 {
        let sent = served.request("POST", SEND, &[("idempotency-key", "go")], &body);
        assert_eq!(sent.status, 503, "{attempt}: {sent:?}");
        assert_eq!(history(&served), json!([user("go"), part()]), "{attempt}");
    }
    assert_eq!(send(&served, "go")["replies"], json!([assistant("whole")]));
    assert_eq!(asked(&model), json!([user("go")]));
}

#[test]
fn a_retried_answer_replaces_the_part_of_a_stopped_turn() {
    for is_cut in [false, true] {
        let mut replies = vec![if is_cut {
            Reply::Cut(text_delta(PART))
        } else {
            half()
        }];
        replies.extend(["whole", "later", "last"].map(|text| Reply::Answer(Answer::text(text))));
        let model = ModelServer::start(replies, Delivery::Whole).unwrap();
        let folder = folder(&[("agent.md", AGENT)]);
        if !is_cut {
            left(folder.path(), &model, Signal::SIGKILL);
        }
        let options = ["--on-crash", "stop", "--retries", "0"];
        let served = serve_with(folder.path(), &model, &options);
        if is_cut {
            let body = json!({"message": "go"}).to_string();
            let sent = served.request("POST", SEND, &[("idempotency-key", "go")], &body);
            assert_eq!(sent.status, 503, "{sent:?}");
        } else {
            let ended = failed(&served);
            assert_eq!(ended["error"]["code"], "turn_interrupted", "{ended}");
        }
        assert_eq!(history(&served), json!([user("go"), part()]));
        let retried = served.post("/v1/sessions/s1/retry", &json!({}));
        assert_eq!(retried.status, 200, "{retried:?}");
        assert_eq!(retried.json()["replies"], json!([assistant("whole")]));
        has_one_answer(folder.path(), &served, &model);
    }
}

#[test]
fn a_part_before_another_message_stays() {
    let mut replies = vec![Reply::Cut(text_delta(PART))];
    replies.extend(["whole", "later"].map(|text| Reply::Answer(Answer::text(text))));
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve_with(folder.path(), &model, &["--retries", "0"]);
    let sent = served.post(SEND, &json!({"message": "go"}));
    assert_eq!(sent.status, 503, "{sent:?}");
    send(&served, "more");
    let all = json!([user("go"), part(), user("more"), assistant("whole")]);
    assert_eq!(history(&served), all);
    assert!(
        asked(&model).to_string().contains(PART),
        "{}",
        asked(&model)
    );
}
