//! Responses under one `Idempotency-Key`: their ids after failures, deletion and a restart.

use std::path::Path;

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::client::{Answered, Served};
use crate::program::{folder, logue};
use crate::waiting::wait_until;

const AGENT: &str = "<config model=\"m\"/>\n";
const PATH: &str = "/v1/responses";
const KEY: (&str, &str) = ("idempotency-key", "k");

fn serve(folder: &Path, model: &ModelServer) -> Served {
    let mut command = logue(folder);
    command.env("OPENAI_BASE_URL", model.base_url());
    Served::start_with(command, &["agent.md", "--retries", "0"])
}

fn create(served: &Served, body: &Value) -> Answered {
    served.request("POST", PATH, &[KEY], &body.to_string())
}

fn read(served: &Served, id: &str) -> Answered {
    served.get(&format!("{PATH}/{id}"))
}

/// Waits until a response has ended.
fn ended(served: &Served, id: &str) -> Value {
    let mut last = Value::Null;
    wait_until(
        || "the response does not end".to_owned(),
        || {
            last = read(served, id).json();
            last["status"] != "queued" && last["status"] != "in_progress"
        },
    );
    last
}

/// A model that fails once and then answers.
fn failing_once() -> ModelServer {
    let replies = vec![
        Reply::Status(503, Vec::new(), "{}".to_owned()),
        Reply::Answer(Answer::text("late")),
    ];
    ModelServer::start(replies, Delivery::Whole).unwrap()
}

#[test]
fn a_failed_background_response_keeps_the_id_of_its_key() {
    let model = failing_once();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model);
    let body = json!({"model": "agent", "input": "go", "background": true});
    let first = create(&served, &body).json();
    let id = first["id"].as_str().unwrap();
    let failed = ended(&served, id);
    assert_eq!(failed["status"], "failed", "{failed}");
    for _ in 0..3 {
        assert_eq!(create(&served, &body).json(), failed);
    }
    served.kill();
    let served = serve(folder.path(), &model);
    assert_eq!(create(&served, &body).json(), failed);
    assert_eq!(model.received().len(), 1);
}

#[test]
fn a_failed_stream_is_sent_again_under_its_key() {
    let model = failing_once();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model);
    let body = json!({"model": "agent", "input": "go", "stream": true});
    let data = |answer: &Answered| {
        let lines = answer.text.lines();
        let data = lines.filter_map(|line| line.strip_prefix("data: "));
        data.map(str::to_owned).collect::<Vec<_>>()
    };
    let first = data(&create(&served, &body));
    assert!(
        first.last().unwrap().contains("response.failed"),
        "{first:?}"
    );
    assert_eq!(data(&create(&served, &body)), first);
    assert_eq!(model.received().len(), 1);
}

#[test]
fn a_failure_without_an_id_is_tried_again() {
    let model = failing_once();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model);
    let body = json!({"model": "agent", "input": "go"});
    let failed = create(&served, &body);
    assert_eq!(failed.status, 503, "{failed:?}");
    assert!(!failed.text.contains("resp_"), "{failed:?}");
    let answered = create(&served, &body);
    assert_eq!(answered.status, 200, "{answered:?}");
    assert_eq!(create(&served, &body).json(), answered.json());
    assert_eq!(model.received().len(), 2);
}

#[test]
fn the_key_of_a_deleted_response_is_refused() {
    let model = ModelServer::start(vec![Reply::Answer(Answer::text("one"))], Delivery::Whole);
    let model = model.unwrap();
    for (mode, alone) in [("stored", true), ("background", true), ("stored", false)] {
        let folder = folder(&[("agent.md", AGENT)]);
        let mut served = serve(folder.path(), &model);
        let mut body = json!({"model": "agent", "input": "go"});
        body["background"] = json!(mode == "background");
        let created = create(&served, &body).json();
        let id = created["id"].as_str().unwrap();
        ended(&served, id);
        if !alone {
            let next = json!({"model": "agent", "input": "more", "previous_response_id": id});
            assert_eq!(served.post(PATH, &next).status, 200);
        }
        let path = format!("{PATH}/{id}");
        assert_eq!(served.request("DELETE", &path, &[], "").status, 200);
        let requests = model.received().len();
        for restarts in 0..2 {
            if restarts > 0 {
                served.kill();
                served = serve(folder.path(), &model);
            }
            let again = create(&served, &body);
            assert_eq!(again.status, 410, "{mode} {alone}: {again:?}");
            assert_eq!(again.json()["error"]["code"], "response_deleted");
            assert_eq!(read(&served, id).status, 404);
        }
        assert_eq!(model.received().len(), requests);
    }
}

#[test]
fn the_order_of_members_is_no_other_body() {
    let model = ModelServer::start(vec![Reply::Answer(Answer::text("one"))], Delivery::Whole);
    let model = model.unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model);
    let send = |body: &str| served.request("POST", PATH, &[KEY], body);
    let first = send(r#"{"model": "agent", "input": "go", "metadata": {"a": "1", "b": "2"}}"#);
    assert_eq!(first.status, 200, "{first:?}");
    let again = send(r#"{"metadata":{"b":"2","a":"1"},"input":"go","model":"agent"}"#);
    assert_eq!(again.json(), first.json());
    let other = send(r#"{"metadata":{"b":"2","a":"2"},"input":"go","model":"agent"}"#);
    assert_eq!(other.status, 409, "{other:?}");
    // Messages to sessions, with parts whose members have another order.
    let path = "/v1/sessions/s1/send";
    let send = |body: &str| served.request("POST", path, &[KEY], body);
    let first =
        send(r#"{"message": {"role": "user", "content": [{"type": "text", "text": "a"}]}}"#);
    assert_eq!(first.status, 200, "{first:?}");
    let again = send(r#"{"message":{"content":[{"text":"a","type":"text"}],"role":"user"}}"#);
    assert_eq!(again.json(), first.json());
}

#[test]
fn a_member_that_occurs_twice_is_refused() {
    let model = ModelServer::start(vec![Reply::Answer(Answer::text("{}"))], Delivery::Whole);
    let model = model.unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model);
    let gateway = ["harmony:gpt-oss-20b", "--upstream", &model.base_url()];
    let gateway = Served::start(folder.path(), &gateway);
    let schema = r#"{"type": "object", "properties": {"a": {}, "a": {"type": "string"}}}"#;
    let format = format!(r#"{{"type": "json_schema", "name": "x", "schema": {schema}}}"#);
    let chat = r#""messages": [{"role": "user", "content": "go"}]"#;
    let tools =
        format!(r#"[{{"type": "function", "function": {{"name": "f", "parameters": {schema}}}}}]"#);
    let bodies = [
        (
            &served,
            PATH,
            format!(r#"{{"model": "agent", "input": "go", "text": {{"format": {format}}}}}"#),
        ),
        (
            &served,
            "/v1/chat/completions",
            format!(r#"{{"model": "agent", {chat}, {chat}}}"#),
        ),
        (
            &served,
            "/v1/sessions/s1/send",
            r#"{"message": "a", "message": "b"}"#.to_owned(),
        ),
        (
            &gateway,
            "/v1/chat/completions",
            format!(r#"{{"model": "gpt-oss-20b", {chat}, "tools": {tools}}}"#),
        ),
    ];
    for (served, path, body) in bodies {
        let refused = served.request("POST", path, &[], &body);
        assert_eq!(refused.status, 400, "{path}: {refused:?}");
        assert!(refused.text.contains("request_invalid"), "{refused:?}");
        assert!(refused.text.contains("occurs twice"), "{refused:?}");
    }
    assert!(model.received().is_empty());
}
