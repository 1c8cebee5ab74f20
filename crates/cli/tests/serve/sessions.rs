//! Sessions over HTTP: messages, events, decisions and branches.

use serde_json::{Value, json};
use testkit::{Answer, Delivery, Gate, ModelServer, Reply, end_of_stream, text_delta};

use crate::client::{Event, Served};
use crate::program::{folder, logue, run};

const AGENT: &str = "<config model=\"m\"/>\n<system>hidden instructions</system>\n\
    <tool name=\"work\" command=\"printf done\"/>\n";

fn serve(folder: &std::path::Path, model: &ModelServer, arguments: &[&str]) -> Served {
    let mut command = logue(folder);
    command.env("OPENAI_BASE_URL", model.base_url());
    let arguments: Vec<&str> = ["agent.md"].iter().chain(arguments).copied().collect();
    Served::start_with(command, &arguments)
}

fn kinds(events: &[Event]) -> Vec<&str> {
    events.iter().map(Event::kind).collect()
}

#[test]
fn a_sent_message_is_answered_and_its_events_are_numbered() {
    let replies = vec![
        Reply::Answer(
            Answer::text("first")
                .with_reasoning("secret thought")
                .with_call("c1", "work", "{}"),
        ),
        Reply::Answer(Answer::text("second")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, &["--permission", "work=allow"]);

    let body = json!({"message": "go"}).to_string();
    let mut stream = served.events("POST", "/v1/sessions/s1/send", None, &body);
    let events = stream.until("turn.completed");
    assert!(stream.next().is_none(), "the stream ends with its turn");
    let expected = [
        "turn.accepted",
        "answer.started",
        "answer.thinking",
        "answer.delta",
        "answer.calling",
        "answer.completed",
        "tool.started",
        "tool.ended",
        "answer.started",
        "answer.delta",
        "answer.completed",
        "turn.completed",
    ];
    assert_eq!(kinds(&events), expected);
    let ids: Vec<String> = events.iter().map(|event| event.id.clone()).collect();
    let numbers: Vec<String> = (1..=ids.len()).map(|seq| format!("{seq}-1")).collect();
    assert_eq!(ids, numbers);

    // Any number leads to exactly the events after it.
    let path = "/v1/sessions/s1/events";
    for (at, id) in ids.iter().enumerate() {
        let mut again = served.events("GET", path, Some(id), "");
        for event in &events[at + 1..] {
            assert_eq!(again.next().as_ref(), Some(event));
        }
    }
    // The JSON outlets show the same, and nothing hidden.
    let messages = served.get("/v1/sessions/s1/messages");
    let roles: Vec<Value> = messages.json()["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].clone())
        .collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant"]);
    let shown = served.get("/v1/sessions/s1");
    assert_eq!(shown.json()["events_after"], "12-1");
    for text in [
        messages.text,
        shown.text,
        served.get("/v1/sessions").text,
        format!("{events:?}"),
    ] {
        assert!(!text.contains("secret thought"), "{text}");
        assert!(!text.contains("hidden instructions"), "{text}");
    }
}

#[test]
fn a_turn_continues_when_its_client_leaves() {
    let gate = Gate::new();
    let pieces = vec![
        text_delta("one "),
        text_delta("two "),
        text_delta("three"),
        end_of_stream(),
    ];
    let reply = Reply::Gated(pieces, gate.clone());
    let model = ModelServer::start(vec![reply], Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, &[]);
    let body = json!({"message": "go"}).to_string();
    let mut stream = served.events("POST", "/v1/sessions/s1/send", None, &body);
    let begun = stream.until("answer.delta");
    drop(stream);
    let last = begun.last().unwrap().id.clone();
    let mut again = served.events("GET", "/v1/sessions/s1/events", Some(&last), "");
    gate.open();
    assert_eq!(again.next().unwrap().data["text"], "two ");
    gate.open();
    gate.open();
    let ended = again.until("turn.completed");
    assert_eq!(
        ended.last().unwrap().data["messages"][0]["content"],
        "one two three"
    );
    assert_eq!(model.received().len(), 1);
}

#[test]
fn an_approval_is_decided_once_by_its_signal() {
    let replies = vec![
        Reply::Answer(Answer::text("may I?").with_call("c1", "work", "{}")),
        Reply::Answer(Answer::text("finished")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, &["--permission", "work=ask"]);
    let sent = served.post("/v1/sessions/s1/send", &json!({"message": "go"}));
    assert_eq!(sent.status, 202, "{sent:?}");
    let signal = sent.json()["signal"].clone();
    let id = signal["signal_id"].as_str().unwrap();
    assert_eq!(signal["calls"][0]["name"], "work");
    assert!(signal.get("connection").is_none(), "{signal}");
    let waiting = served.get("/v1/signals").json();
    assert_eq!(waiting["signals"][0]["signal_id"], id);

    let path = format!("/v1/signals/{id}");
    let wrong = served.post(&path, &json!({"approval": "perhaps"}));
    assert_eq!(wrong.status, 422, "{wrong:?}");
    let approved = served.post(&path, &json!({"approval": "approve"}));
    assert_eq!(approved.status, 200, "{approved:?}");
    let replies = approved.json()["replies"].clone();
    let result = replies[0]["content"].as_str().unwrap();
    assert!(result.starts_with("done"), "{result}");
    assert_eq!(replies[1]["content"], "finished");
    // The same decision gets the same outcome, another one is refused.
    let again = served.post(&path, &json!({"approval": "approve"}));
    assert_eq!((again.status, &again.json()["replies"]), (200, &replies));
    let denied = served.post(&path, &json!({"approval": "deny"}));
    assert_eq!(denied.status, 409, "{denied:?}");
    assert_eq!(model.received().len(), 2);
}

#[test]
fn an_idempotency_key_delivers_a_message_once() {
    let replies = vec![
        Reply::Answer(Answer::text("first")),
        Reply::Answer(Answer::text("second")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, &[]);
    let send = |text: &str| {
        let body = json!({ "message": text }).to_string();
        let headers = [("idempotency-key", "order-17")];
        served.request("POST", "/v1/sessions/s1/send", &headers, &body)
    };
    let first = send("go");
    assert_eq!(first.status, 200, "{first:?}");
    assert_eq!(send("go").json(), first.json());
    let other = send("stop");
    assert_eq!(
        (other.status, other.json()["code"].as_str().unwrap()),
        (409, "idempotency_key_reused")
    );
    assert_eq!(model.received().len(), 1);
}

#[test]
fn a_refused_request_has_a_problem_document() {
    let model = ModelServer::start(vec![Reply::Silent], Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT), ("other.md", AGENT)]);
    let served = serve(folder.path(), &model, &["other.md"]);
    let system = json!({"message": {"role": "system", "content": "obey"}, "agent": "agent"});
    let cases = [
        (served.get("/v1/sessions/none"), 404, "session_not_found"),
        (served.get("/v1/nothing"), 404, "path_not_found"),
        (served.get("/v1/signals/none"), 404, "signal_not_found"),
        (
            served.post("/v1/sessions/s/send", &json!({"message": "go"})),
            400,
            "request_invalid",
        ),
        (
            served.post(
                "/v1/sessions/s/send",
                &json!({"message": "go", "agent": "x"}),
            ),
            404,
            "agent_not_found",
        ),
        (
            served.post("/v1/sessions/s/send", &system),
            400,
            "chat_message_shape_invalid",
        ),
        (
            served.request("POST", "/v1/sessions/s/send", &[], "{"),
            400,
            "request_invalid",
        ),
        (
            served.request("PUT", "/v1/sessions", &[], ""),
            405,
            "method_not_allowed",
        ),
        (
            served.get("/v1/sessions?limit=many"),
            400,
            "request_invalid",
        ),
    ];
    for (answer, status, code) in cases {
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(
            answer.head.contains("application/problem+json"),
            "{answer:?}"
        );
        assert_eq!(answer.json()["code"], code, "{answer:?}");
    }
    assert!(model.received().is_empty());
}

#[test]
fn a_session_of_another_program_appears_and_continues() {
    let replies = vec![
        Reply::Answer(Answer::text("first")),
        Reply::Answer(Answer::text("second")),
        Reply::Answer(Answer::text("third")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let send = |text: &str| {
        let mut command = logue(folder.path());
        command.env("OPENAI_BASE_URL", model.base_url());
        let store = ["--store", "sqlite:s.db", "--agent", "agent.md"];
        let ran = command.arg("send").args(store).args(["s1", text]).output();
        assert!(ran.unwrap().status.success());
    };
    send("from the shell");
    let asked = run(folder.path(), ["ask", "-m", "echo:", "private"]);
    assert_eq!(asked.status, 0, "{}", asked.stderr);
    let served = serve(folder.path(), &model, &[]);
    let sessions = served.get("/v1/sessions").json();
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1);
    let mut stream = served.events("GET", "/v1/sessions/s1/events", None, "");
    send("again");
    let event = stream.next().unwrap();
    assert_eq!(event.kind(), "turn.completed");
    assert_eq!(event.data["messages"][0]["content"], "again");
    assert_eq!(event.data["messages"][1]["content"], "second");
    let third = served.post("/v1/sessions/s1/send", &json!({"message": "over HTTP"}));
    assert_eq!(third.json()["replies"][0]["content"], "third");
}

#[test]
fn a_fork_continues_without_its_source() {
    let folder = folder(&[("agent.md", "<config model=\"echo:\"/>\n")]);
    let served = Served::start(folder.path(), &["agent.md"]);
    for text in ["one", "two"] {
        served.post("/v1/sessions/s1/send", &json!({ "message": text }));
    }
    let fork = served.post(
        "/v1/sessions/s1/fork",
        &json!({"messages": 2, "into": "s2"}),
    );
    assert_eq!(fork.status, 201, "{fork:?}");
    served.post("/v1/sessions/s2/send", &json!({"message": "three"}));
    let messages = served.get("/v1/sessions/s2/messages").json();
    let texts: Vec<&str> = messages["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["one", "one", "three", "three"]);
    assert_eq!(served.get("/v1/sessions/s1").json()["messages"], 4);
    let removed = served.request("DELETE", "/v1/sessions/s2", &[], "");
    assert_eq!(removed.status, 204);
    assert_eq!(served.get("/v1/sessions/s2").status, 404);
}

#[test]
fn a_fork_beyond_the_history_is_refused_at_once() {
    let folder = folder(&[("agent.md", "<config model=\"echo:\"/>\n")]);
    let served = Served::start(folder.path(), &["agent.md"]);
    let sent = served.post("/v1/sessions/s1/send", &json!({"message": "go"}));
    assert_eq!(sent.status, 200, "{sent:?}");
    for messages in [3, 1 << 63, u64::MAX] {
        let refused = served.post("/v1/sessions/s1/fork", &json!({ "messages": messages }));
        assert_eq!(refused.status, 422, "{refused:?}");
        assert_eq!(refused.json()["code"], "step_invalid");
    }
    let listed = served.get("/v1/sessions").json();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1);
}
