//! Agents as tools whose model server fails: what the conversation and its operators learn.

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Received, Reply};

use crate::client::Served;
use crate::program::{folder, logue, run};

const AGENT: &str = "<config model=\"m\"/>\n<system>rules</system>\n\
    <tool name=\"helper\" agent=\"helper.md\" local/>\n";
const HELPER: &str = "<config model=\"m\"/>\n<system>SECRET of the helper</system>\n";

/// Answers the main agent, and fails for the helper with a quotation of its request.
fn reply_to(request: &Received) -> Reply {
    let messages = &request.body["messages"];
    if messages.to_string().contains("SECRET of the helper") {
        let error = json!({"error": {"message": format!("cannot process {messages}")}});
        return Reply::Status(400, Vec::new(), error.to_string());
    }
    let last = messages.as_array().unwrap().last().unwrap();
    if last["role"] == "tool" {
        return Reply::Answer(Answer::text("the helper has failed"));
    }
    let arguments = json!({"input": "go"}).to_string();
    Reply::Answer(Answer::text("").with_call("call_1", "helper", &arguments))
}

#[test]
fn the_failure_of_an_agent_quotes_nothing_of_its_request() {
    let model = ModelServer::start_by(reply_to, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT), ("helper.md", HELPER)]);
    let mut command = logue(folder.path());
    command.env("OPENAI_BASE_URL", model.base_url());
    let served = Served::start_with(command, &["agent.md", "--permission", "*=allow"]);
    let check = |outlet: &str, text: &str| {
        assert!(!text.contains("SECRET"), "{outlet}: {text}");
        assert!(!text.contains(&model.base_url()), "{outlet}: {text}");
    };
    let sent = served.post("/v1/sessions/s1/send", &json!({"message": "go"}));
    assert_eq!(sent.status, 200, "{sent:?}");
    check("send", &sent.text);
    let body = sent.json();
    assert_eq!(
        body["replies"][1]["content"],
        "E-MD-AGENT-FAILED: the model server refused the request (provider_invalid_request)"
    );
    check("events", &served.logged_events("s1"));
    for path in [
        "",
        "/messages",
        "/messages?form=nodes",
        "/export?form=chatmd",
        "/export?form=openchatml",
        "/export?form=json",
    ] {
        let answer = served.get(&format!("/v1/sessions/s1{path}"));
        assert_eq!(answer.status, 200, "{answer:?}");
        check(path, &answer.text);
    }
    let user = json!([{"role": "user", "content": "go"}]);
    for (path, body) in [
        (
            "/v1/chat/completions",
            json!({"model": "agent", "messages": user}),
        ),
        ("/v1/responses", json!({"model": "agent", "input": "go"})),
        (
            "/v1/responses",
            json!({"model": "agent", "input": "go", "stream": true}),
        ),
    ] {
        let answer = served.post(path, &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        check(path, &answer.text);
    }
    // The model of the caller receives the same text.
    let received = model.received();
    let results: Vec<_> = received
        .iter()
        .filter_map(|request| request.body["messages"].as_array()?.last())
        .filter(|message| message["role"] == "tool")
        .collect();
    assert_eq!(results.len(), 4);
    for result in results {
        check("request", &result.to_string());
    }
    // The store keeps the cause for operators.
    let show = ["sessions", "show", "s1", "--json", "--store", "sqlite:s.db"];
    let shown: Value = serde_json::from_str(&run(folder.path(), show).stdout).unwrap();
    let failure = &shown["fields"]["turn"]["failures"][0];
    assert_eq!(failure["call_id"], "call_1", "{shown}");
    let cause = failure["diagnostic"].as_str().unwrap();
    assert!(cause.contains("SECRET of the helper"), "{cause}");
    let ended = served.end();
    check("standard error", &ended.stderr);
}

#[test]
fn the_user_of_a_prompt_sees_the_cause() {
    let model = ModelServer::start_by(reply_to, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT), ("helper.md", HELPER)]);
    let mut command = logue(folder.path());
    command.env("OPENAI_BASE_URL", model.base_url());
    let arguments = [
        "run",
        "agent.md",
        "go",
        "-o",
        "t.md",
        "--permission",
        "*=allow",
    ];
    let ran = command.args(arguments).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(said.contains("warning: `helper` failed: "), "{said}");
    assert!(said.contains("returned 400"), "{said}");
}
