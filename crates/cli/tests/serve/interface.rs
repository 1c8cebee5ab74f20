//! Small promises of the interface: names, types of answers, addresses and the log.

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::client::{Answered, Served};
use crate::program::{folder, logue, run};

const AGENT: &str = "<config model=\"echo:\"/>\n";

fn code(answer: &Answered) -> (u16, String) {
    let body = answer.json();
    let code = body.get("code").unwrap_or(&body["error"]["code"]);
    (answer.status, code.as_str().unwrap().to_owned())
}

#[test]
fn a_type_of_the_rank_zero_is_not_sent() {
    let folder = folder(&[("agent.md", AGENT)]);
    let served = Served::start(folder.path(), &["agent.md"]);
    let body = json!({"message": "go"}).to_string();
    for (accept, kind) in [
        (
            "text/event-stream;q=0, application/json",
            "application/json",
        ),
        (
            "application/json, text/event-stream;q=0.5",
            "application/json",
        ),
        (
            "application/json;q=0.5, text/event-stream",
            "text/event-stream",
        ),
        ("*/*", "application/json"),
    ] {
        let answer = served.request("POST", "/v1/sessions/s1/send", &[("accept", accept)], &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        let head = format!("content-type: {kind}");
        assert!(answer.head.contains(&head), "{accept}: {answer:?}");
    }
}

#[test]
fn names_of_new_sessions_and_tokens_are_checked() {
    let folder = folder(&[("agent.md", AGENT)]);
    let served = Served::start(folder.path(), &["agent.md"]);
    let long = "x".repeat(256);
    let run_of = |thread: &str| {
        json!({"threadId": thread, "runId": "r1", "tools": [], "context": [], "state": {},
            "forwardedProps": {}, "messages": [{"id": "m", "role": "user", "content": "go"}]})
    };
    served.post("/v1/sessions/s1/send", &json!({"message": "go"}));
    let invalid = (400, "request_invalid".to_owned());
    for (escaped, name) in [("a%00b", "a\0b"), ("a%0D%0Ab", "a\r\nb"), (&*long, &*long)] {
        let path = format!("/v1/sessions/{escaped}/send");
        assert_eq!(
            code(&served.post(&path, &json!({"message": "go"}))),
            invalid
        );
        let fork = served.post("/v1/sessions/s1/fork", &json!({"into": name}));
        assert_eq!(code(&fork), invalid, "{fork:?}");
        assert_eq!(
            code(&served.post("/v1/ag-ui/agent", &run_of(name))),
            invalid
        );
    }
    let chat = json!({"model": "agent", "messages": [{"role": "user", "content": "go"}]});
    let headers = [("x-logue-session", &*long)];
    let chat = served.request("POST", "/v1/chat/completions", &headers, &chat.to_string());
    assert_eq!(code(&chat), invalid);
    let sessions = served.get("/v1/sessions").json();
    assert_eq!(
        sessions["sessions"].as_array().unwrap().len(),
        1,
        "{sessions}"
    );
    for name in ["", " ", "a\nb", &long] {
        let ran = run(
            folder.path(),
            ["serve", "token", "create", name, "--scope", "read"],
        );
        assert_eq!(ran.status, 2, "{name:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("invalid token name"), "{}", ran.stderr);
    }
    assert_eq!(run(folder.path(), ["serve", "token", "list"]).stdout, "");
}

#[test]
fn an_unknown_role_of_a_run_is_refused() {
    let folder = folder(&[("agent.md", AGENT)]);
    let served = Served::start(folder.path(), &["agent.md"]);
    for message in [
        json!({"id": "m", "role": "User", "content": "go"}),
        json!({"id": "m", "content": "go"}),
    ] {
        let run = json!({"threadId": "t1", "runId": "r1", "tools": [], "context": [], "state": {},
            "forwardedProps": {}, "messages": [message]});
        let refused = served.post("/v1/ag-ui/agent", &run);
        assert_eq!(
            code(&refused),
            (400, "request_invalid".to_owned()),
            "{refused:?}"
        );
    }
}

#[test]
fn a_model_is_shown_by_its_name() {
    let folder = folder(&[("agent.md", AGENT)]);
    let served = Served::start(folder.path(), &["agent.md"]);
    let shown = served.get("/v1/models/agent").json();
    let listed = served.get("/v1/models").json();
    assert_eq!(listed["data"], json!([shown]));
    assert_eq!(shown["id"], "agent");
    let unknown = served.get("/v1/models/other");
    assert_eq!(code(&unknown), (404, "agent_not_found".to_owned()));
}

#[test]
fn an_address_may_be_a_port_of_this_machine() {
    let folder = folder(&[("agent.md", AGENT)]);
    for listen in ["0", ":0", "localhost:0"] {
        let served = Served::start_at(logue(folder.path()), listen, &["agent.md"]);
        assert!(
            served.address.starts_with("127.0.0.1:"),
            "{}",
            served.address
        );
        assert_eq!(served.get("/healthz").status, 200);
    }
    let ran = run(folder.path(), ["serve", "agent.md", "--listen", "here"]);
    assert_eq!(ran.status, 2);
    assert!(
        ran.stderr.contains("expected ADDRESS:PORT"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_failed_turn_is_one_line_of_the_log_without_its_contents() {
    let error = json!({"error": {"message": "cannot process SECRET"}}).to_string();
    let replies = vec![Reply::Status(400, Vec::new(), error)];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let agent = "<config model=\"m\"/>\n<system>SECRET</system>\n";
    let folder = folder(&[("agent.md", agent)]);
    let mut command = logue(folder.path());
    command.env("OPENAI_BASE_URL", model.base_url());
    let served = Served::start_with(command, &["agent.md"]);
    let sent = served.post("/v1/sessions/my%20session/send", &json!({"message": "go"}));
    assert_eq!(sent.status, 422, "{sent:?}");
    let user = json!([{"role": "user", "content": "go"}]);
    served.post(
        "/v1/chat/completions",
        &json!({"model": "agent", "messages": user}),
    );
    served.post(
        "/v1/responses",
        &json!({"model": "agent", "input": "go", "store": false}),
    );
    let ended = served.end();
    let lines: Vec<&str> = ended.stderr.lines().collect();
    let stateless = "turn failed: provider_invalid_request agent=agent status=400";
    assert_eq!(
        lines,
        [
            "turn failed: provider_invalid_request agent=agent session='my session' status=400",
            stateless,
            stateless,
        ]
    );
}

#[test]
fn the_report_of_a_prompt_in_a_log_quotes_nothing() {
    let broken =
        "<config model=\"m\"/>\n<system>SECRET rules <import src=\"SECRET.md\"/></system>\n";
    let folder = folder(&[("agent.md", broken), ("good.md", AGENT)]);
    let ran = run(
        folder.path(),
        ["serve", "agent.md", "--listen", "127.0.0.1:0"],
    );
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    assert!(!ran.stderr.contains("SECRET"), "{}", ran.stderr);
    assert!(ran.stderr.contains("agent.md:2:"), "{}", ran.stderr);
    assert!(ran.stderr.starts_with("error[E-"), "{}", ran.stderr);
    let listen = [
        "serve",
        "agent.md",
        "--listen",
        "127.0.0.1:0",
        "--debug-view",
    ];
    let shown = run(folder.path(), listen);
    assert!(shown.stderr.contains("SECRET"), "{}", shown.stderr);
    let served = Served::start(folder.path(), &["."]);
    let said = served.end().stderr;
    assert!(!said.contains("SECRET"), "{said}");
    assert!(said.contains("note: agent `agent` has errors"), "{said}");
}

#[test]
fn an_answer_of_the_log_is_not_a_failure() {
    let model = ModelServer::start(vec![Reply::Answer(Answer::text("one"))], Delivery::Whole);
    let model = model.unwrap();
    let folder = folder(&[("agent.md", "<config model=\"m\"/>\n")]);
    let mut command = logue(folder.path());
    command.env("OPENAI_BASE_URL", model.base_url());
    let served = Served::start_with(command, &["agent.md"]);
    let sent: Value = served
        .post("/v1/sessions/s1/send", &json!({"message": "go"}))
        .json();
    assert_eq!(sent["replies"][0]["content"], "one");
    assert_eq!(served.end().stderr, "");
}
