//! Spans of turns: their tree, their parents, and collectors that do not work.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Received, Reply};

use crate::client::{Ended, Served};
use crate::collector::{Collector, Reaction, Span};
use crate::gateway;
use crate::program::{folder, logue};

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const CONTENT: &str = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";
const AGENT: &str = "<config model=\"m\"/>\n<system>XYZZY-SYSTEM</system>\n\
    <tool name=\"work\" command=\"printf worked\"/>\n";

/// Calls the tool, and then answers with reasoning.
fn answer_of(request: &Received) -> Reply {
    let messages = request.body["messages"].as_array().unwrap();
    let is_called = messages.last().unwrap()["role"] == "tool";
    let answer = if is_called {
        Answer::text("It is done.")
    } else {
        Answer::text("I work.").with_call("call_1", "work", "{}")
    };
    Reply::Answer(answer.with_reasoning("XYZZY-THOUGHT"))
}

/// A command with a model and a collector.
fn command(folder: &Path, model: &ModelServer, collector: &str) -> Command {
    let mut command = logue(folder);
    command.env("OPENAI_BASE_URL", model.base_url());
    command.env(ENDPOINT, collector);
    // A wait without a limit of its own would be longer than the tests.
    command.env("OTEL_EXPORTER_OTLP_TIMEOUT", "600000");
    command
}

/// Sends a message with headers, and returns the signal for which the turn waits.
fn send(served: &Served, session: &str, headers: &[(&str, &str)]) -> String {
    let path = format!("/v1/sessions/{session}/send");
    let body = json!({"message": "Please XYZZY-WORK"}).to_string();
    let waiting = served.request("POST", &path, headers, &body);
    assert_eq!(waiting.status, 202, "{waiting:?}");
    let signal = &waiting.json()["signal"]["signal_id"];
    signal.as_str().unwrap().to_owned()
}

fn approve(served: &Served, signal: &str) {
    let body = json!({"approval": "approve"});
    let decided = served.post(&format!("/v1/signals/{signal}"), &body);
    assert_eq!(decided.status, 200, "{decided:?}");
}

/// The attributes that the page documents.
fn documented() -> BTreeSet<String> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = std::fs::read_to_string(docs.join("telemetry.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let mut names = BTreeSet::new();
    for row in rows {
        let mut last = "";
        for name in row.split('|').nth(1).unwrap().split(", ") {
            let name = name.trim().trim_matches('`');
            if let Some(end) = name.strip_prefix('.') {
                let (group, _) = last.rsplit_once('.').unwrap();
                names.insert(format!("{group}.{end}"));
            } else {
                last = name;
                names.insert(name.to_owned());
            }
        }
    }
    names
}

fn turns(spans: &[Span]) -> Vec<&Span> {
    let turns = spans.iter();
    turns
        .filter(|span| span.name == "invoke_agent agent")
        .collect()
}

#[test]
fn a_turn_with_an_approval_is_a_tree_of_spans() {
    let model = ModelServer::start_by(answer_of, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let collector = Collector::start(Reaction::Accept);
    let command = command(folder.path(), &model, &collector.url);
    let served = Served::start_with(command, &["agent.md", "--permission", "work=ask"]);
    let signal = send(&served, "s-17", &[]);
    approve(&served, &signal);
    let ended = served.end();
    assert_eq!((ended.status, &*ended.stdout), (Some(143), ""));

    let node = "invoke_agent agent > openarmature.turn > openarmature.invocation";
    let expected = [
        "invoke_agent agent".to_owned(),
        "invoke_agent agent > openarmature.turn".to_owned(),
        node.to_owned(),
        format!("{node} > model"),
        format!("{node} > model > chat m"),
        format!("{node} > gate"),
        format!("{node} > approval"),
        "invoke_agent agent".to_owned(),
        "invoke_agent agent > openarmature.turn".to_owned(),
        node.to_owned(),
        format!("{node} > tools"),
        format!("{node} > tools > execute_tool work"),
        format!("{node} > model"),
        format!("{node} > model > chat m"),
    ];
    assert_eq!(collector.paths(), expected);

    let spans = collector.spans();
    let turns = turns(&spans);
    let [first, second] = turns.as_slice() else {
        panic!("{turns:?}");
    };
    for (turn, outcome) in [(first, "suspended"), (second, "completed")] {
        assert_eq!(
            turn.attribute("gen_ai.operation.name"),
            Some("invoke_agent")
        );
        assert_eq!(turn.attribute("gen_ai.agent.name"), Some("agent"));
        assert_eq!(turn.attribute("gen_ai.conversation.id"), Some("s-17"));
        assert_eq!(turn.attribute("openarmature.outcome"), Some(outcome));
        assert_eq!((turn.status, &*turn.parent), (1, ""), "{turn:?}");
    }
    // The second turn is linked to the first, and has a trace of its own.
    assert_ne!(first.trace, second.trace);
    let link = (first.trace.clone(), first.id.clone());
    assert_eq!((&first.links, &second.links), (&Vec::new(), &vec![link]));

    let documented = documented();
    for (name, _) in spans.iter().flat_map(|span| &span.attributes) {
        assert!(documented.contains(name), "{name}");
    }
    assert!(!collector.text().contains("XYZZY"), "without the opt-in");
}

#[test]
fn a_failed_turn_states_its_code() {
    let reply = Reply::Status(400, Vec::new(), "{\"error\":\"XYZZY\"}".to_owned());
    let model = ModelServer::start(vec![reply], Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let collector = Collector::start(Reaction::Accept);
    let command = command(folder.path(), &model, &collector.url);
    let served = Served::start_with(command, &["agent.md"]);
    let sent = served.post("/v1/sessions/s1/send", &json!({"message": "Hi."}));
    let code = sent.json()["code"].as_str().unwrap().to_owned();
    served.end();
    let spans = collector.spans();
    let turn = turns(&spans)[0];
    assert_eq!(turn.attribute("error.type"), Some(&*code));
    assert_eq!(turn.attribute("openarmature.outcome"), Some("errored"));
    assert_eq!(turn.status, 2);
    assert!(!collector.text().contains("XYZZY"));
}

#[test]
fn a_request_names_the_parent_of_its_turn() {
    let model = ModelServer::start_by(answer_of, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let collector = Collector::start(Reaction::Accept);
    let command = command(folder.path(), &model, &collector.url);
    let served = Served::start_with(command, &["agent.md", "--permission", "work=ask"]);
    let (trace, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let traceparent = format!("00-{trace}-{parent}-01");
    let own = [
        ("traceparent", &*traceparent),
        ("tracestate", "vendor=value"),
    ];
    send(&served, "s0", &own);
    let run = json!({"threadId": "s1", "runId": "r1", "state": {}, "tools": [], "context": [],
        "forwardedProps": {}, "messages": [{"id": "m1", "role": "user", "content": "Hi."}]});
    let answered = served.request("POST", "/v1/ag-ui/agent", &own, &run.to_string());
    assert!(answered.text.contains("RUN_FINISHED"), "{answered:?}");
    let messages = json!([{"role": "user", "content": "Hi."}]);
    let body = json!({"model": "agent", "messages": messages}).to_string();
    let answered = served.request("POST", "/v1/chat/completions", &own, &body);
    assert_eq!(answered.status, 200, "{answered:?}");
    let upper = traceparent.to_uppercase();
    let zero = format!("00-{trace}-{}-01", "0".repeat(16));
    let longer = format!("{traceparent}-00");
    let malformed = [&*upper, &zero, &longer, "00-1-2-01", "00-x", ""];
    for (at, value) in malformed.iter().enumerate() {
        send(&served, &format!("m{at}"), &[("traceparent", *value)]);
    }
    let twice = [own[0], own[0]];
    send(&served, "twice", &twice);
    served.end();

    let spans = collector.spans();
    let turns = turns(&spans);
    let (children, roots) = turns.split_at(3);
    for turn in children {
        let place = (&*turn.trace, &*turn.parent, &*turn.state);
        assert_eq!(place, (trace, parent, "vendor=value"));
    }
    assert_eq!(roots.len(), 7);
    for turn in roots {
        assert_eq!(turn.parent, "", "{turn:?}");
        assert_ne!(turn.trace, trace);
    }
}

#[test]
fn a_turn_of_the_next_server_is_linked_to_its_suspension() {
    let model = ModelServer::start_by(answer_of, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let collector = Collector::start(Reaction::Accept);
    let start = || {
        let command = command(folder.path(), &model, &collector.url);
        Served::start_with(command, &["agent.md", "--permission", "work=ask"])
    };
    let served = start();
    let signal = send(&served, "s1", &[]);
    served.end();
    let served = start();
    approve(&served, &signal);
    served.end();
    let spans = collector.spans();
    let turns = turns(&spans);
    let link = (turns[0].trace.clone(), turns[0].id.clone());
    assert_eq!(turns[1].links, [link]);
}

#[test]
fn content_is_captured_on_request_without_hidden_text() {
    let model = ModelServer::start_by(answer_of, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let collector = Collector::start(Reaction::Accept);
    let mut command = command(folder.path(), &model, &collector.url);
    command.env(CONTENT, "true");
    let served = Served::start_with(command, &["agent.md", "--permission", "work=allow"]);
    let sent = served.post(
        "/v1/sessions/s1/send",
        &json!({"message": "Please XYZZY-WORK"}),
    );
    assert_eq!(sent.status, 200, "{sent:?}");
    served.end();
    let spans = collector.spans();
    let turn = turns(&spans)[0];
    let content = |name| -> Value { serde_json::from_str(turn.attribute(name).unwrap()).unwrap() };
    let text = |text: &str| json!({"type": "text", "content": text});
    assert_eq!(
        content("gen_ai.input.messages"),
        json!([{"role": "user", "parts": [text("Please XYZZY-WORK")]}])
    );
    let call = json!({"type": "tool_call", "id": "call_1", "name": "work", "arguments": "{}"});
    let result = json!({"type": "tool_call_response", "id": "call_1", "response": "worked\n[exit status 0]"});
    assert_eq!(
        content("gen_ai.output.messages"),
        json!([
            {"role": "assistant", "parts": [text("I work."), call], "finish_reason": "tool_call"},
            {"role": "tool", "parts": [result]},
            {"role": "assistant", "parts": [text("It is done.")], "finish_reason": "stop"},
        ])
    );
    for hidden in ["XYZZY-SYSTEM", "XYZZY-THOUGHT"] {
        assert!(!collector.text().contains(hidden), "{hidden}");
    }
    let documented = documented();
    for (name, _) in spans.iter().flat_map(|span| &span.attributes) {
        assert!(documented.contains(name), "{name}");
    }
}

/// What a client and an operator see of a server with a collector.
fn seen(collector: Option<&str>) -> (Vec<(u16, String)>, Ended) {
    let model = ModelServer::start_by(answer_of, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let mut command = command(folder.path(), &model, collector.unwrap_or_default());
    if collector.is_none() {
        command.env("OTEL_SDK_DISABLED", "true");
    }
    let served = Served::start_with(command, &["agent.md", "--permission", "work=allow"]);
    let mut answers = Vec::new();
    for session in ["s1", "s2"] {
        let path = format!("/v1/sessions/{session}/send");
        let sent = served.post(&path, &json!({"message": "Hi."}));
        let mut body = sent.json();
        body.as_object_mut().unwrap().remove("invocation_id");
        answers.push((sent.status, body.to_string()));
    }
    (answers, served.end())
}

#[test]
fn a_dead_collector_changes_nothing() {
    let (answers, ended) = seen(None);
    assert!(!ended.stderr.contains("warning"), "{ended:?}");
    let hanging = Collector::start(Reaction::Hang);
    let failing = Collector::start(Reaction::Fail);
    for url in ["http://127.0.0.1:1", &hanging.url, &failing.url] {
        let (own, own_end) = seen(Some(url));
        assert_eq!(own, answers, "{url}");
        assert_eq!(own_end.status, ended.status, "{url}");
        assert_eq!(own_end.stdout, "", "{url}");
        let warning = "warning: spans are not exported";
        let warnings = own_end.stderr.matches(warning).count();
        assert_eq!(warnings, 1, "{url}: {own_end:?}");
    }
    assert!(hanging.requests() > 0 && failing.requests() > 0);
}

#[test]
fn a_gateway_exports_its_requests() {
    let first = "<|channel|>analysis<|message|>XYZZY-THOUGHT<|end|><|start|>assistant\
        <|channel|>final<|message|>Hello XYZZY.<|return|>";
    let model = ModelServer::start(vec![gateway::reply(first)], Delivery::Whole).unwrap();
    let folder = folder(&[]);
    let collector = Collector::start(Reaction::Accept);
    let mut command = logue(folder.path());
    command.env(ENDPOINT, &collector.url).env(CONTENT, "true");
    let upstream = ["--upstream", &model.base_url()];
    let arguments = [&["harmony:gpt-oss-20b"][..], &upstream].concat();
    let served = Served::start_with(command, &arguments);
    let (trace, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let header = format!("00-{trace}-{parent}-01");
    let body = gateway::body(&json!([gateway::user("Hi XYZZY.")]), &json!({}));
    let headers = [("traceparent", &*header)];
    let answered = served.request("POST", gateway::PATH, &headers, &body.to_string());
    assert_eq!(answered.status, 200, "{answered:?}");
    let answered = served.post(gateway::PATH, &body);
    assert_eq!(answered.status, 200, "{answered:?}");
    served.end();
    let spans = collector.spans();
    let [child, root] = spans.as_slice() else {
        panic!("{spans:?}");
    };
    assert_eq!((&*child.trace, &*child.parent), (trace, parent));
    assert_eq!(root.parent, "");
    for span in [child, root] {
        assert_eq!(span.name, "chat gpt-oss-20b");
        assert_eq!(span.attribute("gen_ai.operation.name"), Some("chat"));
        assert_eq!(span.status, 1);
    }
    assert!(!collector.text().contains("XYZZY"));
}
