//! The AG-UI endpoint: runs, interrupts and branches as their events.

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::client::Served;
use crate::program::{folder, logue};

const AGENT: &str = "<config model=\"m\"/>\n<system>hidden instructions</system>\n\
    <tool name=\"work\" command=\"printf done\"/>\n";

fn serve(folder: &std::path::Path, model: &ModelServer, arguments: &[&str]) -> Served {
    let mut command = logue(folder);
    command.env("OPENAI_BASE_URL", model.base_url());
    let arguments: Vec<&str> = ["agent.md"].iter().chain(arguments).copied().collect();
    Served::start_with(command, &arguments)
}

fn user(id: &str, text: &str) -> Value {
    json!({"id": id, "role": "user", "content": text})
}

fn assistant(id: &str, text: &str) -> Value {
    json!({"id": id, "role": "assistant", "content": text})
}

fn input(thread: &str, run: &str, messages: &[Value]) -> Value {
    json!({"threadId": thread, "runId": run, "messages": messages, "tools": [], "context": [],
        "state": {}, "forwardedProps": {}, "protocolVersion": "1.0"})
}

/// Runs an agent and returns its events.
fn events(served: &Served, input: &Value) -> Vec<Value> {
    let answered = served.post("/v1/ag-ui/agent", input);
    assert_eq!(answered.status, 200, "{answered:?}");
    let data = answered.text.lines();
    let data = data.filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    let kinds = events.iter().map(|event| event["type"].as_str().unwrap());
    kinds.collect()
}

fn resume(input: &Value, interrupt: &str, payload: &Value) -> Value {
    let mut input = input.clone();
    input["resume"] = json!([{"interruptId": interrupt, "status": "resolved", "payload": payload}]);
    input
}

fn last(events: &[Value]) -> &Value {
    events.last().unwrap()
}

#[test]
fn a_run_streams_its_text_and_calls_and_nothing_hidden() {
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
    let input = input("t1", "r1", &[user("u1", "go")]);
    let sent = events(&served, &input);
    let expected = [
        "RUN_STARTED",
        "REASONING_START",
        "REASONING_END",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ];
    assert_eq!(kinds(&sent), expected, "{sent:#?}");
    assert_eq!(sent[0]["threadId"], "t1");
    assert_eq!(sent[0]["protocolVersion"], "1.0");
    assert_eq!(sent[4]["delta"], "first");
    assert_eq!(sent[6]["parentMessageId"], sent[3]["messageId"]);
    let result = sent[9]["content"].as_str().unwrap();
    assert!(result.starts_with("done"), "{result}");
    assert_eq!(last(&sent)["outcome"], json!({"type": "success"}));

    // The same run again repeats its events, and another message under its id is refused.
    assert_eq!(events(&served, &input), sent);
    let mut other = input.clone();
    other["messages"][0]["content"] = json!("stop");
    assert_eq!(
        last(&events(&served, &other))["code"],
        "idempotency_key_reused"
    );
    assert_eq!(model.received().len(), 2);

    // A client that comes later reads the thread.
    let shown = events(&served, &self::input("t1", "r2", &[]));
    assert_eq!(
        kinds(&shown),
        ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    );
    let messages = shown[1]["messages"].as_array().unwrap();
    let roles: Vec<&Value> = messages.iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant"]);
    assert_eq!(messages[1]["toolCalls"][0]["function"]["name"], "work");
    let text = format!("{sent:?}{shown:?}");
    assert!(!text.contains("secret thought"), "{text}");
    assert!(!text.contains("hidden instructions"), "{text}");
}

#[test]
fn an_interrupt_shows_the_whole_call_and_is_resumed_once() {
    let replies = vec![
        Reply::Answer(Answer::text("may I?").with_call("c1", "work", "{}")),
        Reply::Answer(Answer::text("finished")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(
        folder.path(),
        &model,
        &["--permission", "work=ask", "--approval-timeout", "3600"],
    );
    let first = input("t1", "r1", &[user("u1", "go")]);
    let sent = events(&served, &first);
    let outcome = &last(&sent)["outcome"];
    assert_eq!(outcome["type"], "interrupt", "{sent:#?}");
    let interrupt = &outcome["interrupts"][0];
    assert_eq!(interrupt["reason"], "tool_call");
    assert_eq!(interrupt["toolCallId"], "c1");
    let about = &interrupt["metadata"]["logue"];
    let preview = about["preview"].as_str().unwrap();
    assert!(preview.contains("printf done"), "{preview}");
    assert!(interrupt["message"].as_str().unwrap().contains(preview));
    assert!(about["fingerprint"].is_string(), "{about}");
    let schema = &interrupt["responseSchema"]["properties"];
    assert_eq!(schema["approved"]["type"], "boolean");
    assert_eq!(schema["editedArgs"]["type"], "object");
    assert!(interrupt["expiresAt"].as_str().unwrap().ends_with('Z'));
    let id = interrupt["id"].as_str().unwrap();

    // A message is refused, with the interrupts; the run itself may be repeated.
    let history = [
        user("u1", "go"),
        assistant("a1", "may I?"),
        user("u2", "so?"),
    ];
    let refused = events(&served, &input("t1", "r2", &history));
    assert_eq!(kinds(&refused), ["RUN_STARTED", "RUN_ERROR"]);
    assert_eq!(refused[1]["code"], "session_awaiting_signal");
    assert_eq!(refused[1]["metadata"]["logue"]["interrupts"][0]["id"], id);
    assert_eq!(events(&served, &first), sent);
    // A client that was reloaded finds the interrupt again.
    let shown = events(&served, &input("t1", "r3", &[]));
    assert_eq!(last(&shown)["outcome"], *outcome);

    let bare = input("t1", "r4", &history[..2]);
    let wrong = events(&served, &resume(&bare, id, &json!({"approved": "yes"})));
    assert_eq!(last(&wrong)["code"], "suspension_resume_payload_invalid");
    let unknown = events(&served, &resume(&bare, "x/c1", &json!({"approved": true})));
    assert_eq!(last(&unknown)["code"], "signal_not_found");

    let approval = resume(&bare, id, &json!({"approved": true}));
    let resumed = events(&served, &approval);
    assert_eq!(
        kinds(&resumed),
        [
            "RUN_STARTED",
            "TOOL_CALL_RESULT",
            "TEXT_MESSAGE_START",
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_END",
            "RUN_FINISHED"
        ],
        "{resumed:#?}"
    );
    assert_eq!(resumed[1]["toolCallId"], "c1");
    assert_eq!(events(&served, &approval), resumed);
    let denial = resume(&bare, id, &json!({"approved": false}));
    assert_eq!(
        last(&events(&served, &denial))["code"],
        "idempotency_key_reused"
    );
    let other = input("t1", "r5", &history[..2]);
    let denial = events(&served, &resume(&other, id, &json!({"approved": false})));
    assert_eq!(last(&denial)["code"], "signal_contradicts_earlier");
    let message = last(&denial)["message"].as_str().unwrap();
    assert!(message.contains("approved"), "{message}");
    // The first run still ended with its interrupt.
    assert_eq!(events(&served, &first), sent);
    assert_eq!(model.received().len(), 2);
}

#[test]
fn a_repeated_resume_decides_about_nothing_else() {
    let replies = vec![
        Reply::Answer(Answer::text("").with_call("c1", "work", "{}")),
        Reply::Answer(Answer::text("").with_call("c2", "work", "{}")),
        Reply::Answer(Answer::text("finished")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, &["--permission", "work=ask"]);
    let yes = json!({"approved": true});
    let interrupt = |events: &[Value]| {
        let id = last(events)["outcome"]["interrupts"][0]["id"].as_str();
        id.unwrap_or_else(|| panic!("{events:#?}")).to_owned()
    };
    let first = events(&served, &input("t1", "r1", &[user("u1", "go")]));
    let answer = resume(&input("t1", "r2", &[]), &interrupt(&first), &yes);
    let second = events(&served, &answer);
    let open = interrupt(&second);
    assert_ne!(open, interrupt(&first));
    // The id of a run belongs to its answers, also after a restart.
    served.kill();
    let served = serve(folder.path(), &model, &["--permission", "work=ask"]);
    for run in ["r1", "r2"] {
        let other = resume(&input("t1", run, &[]), &open, &yes);
        let refused = events(&served, &other);
        assert_eq!(last(&refused)["code"], "idempotency_key_reused", "{run}");
    }
    let message = events(&served, &input("t1", "r2", &[user("u2", "more")]));
    assert_eq!(last(&message)["code"], "idempotency_key_reused");
    assert_eq!(events(&served, &answer), second);
    assert_eq!(model.received().len(), 2);
    let third = events(&served, &resume(&input("t1", "r3", &[]), &open, &yes));
    assert_eq!(last(&third)["outcome"]["type"], "success", "{third:#?}");
    assert_eq!(model.received().len(), 3);
}

#[test]
fn every_interrupt_needs_an_answer() {
    let calls = Answer::text("")
        .with_call("c1", "work", "{}")
        .with_call("c2", "work", "{}");
    let replies = vec![
        Reply::Answer(calls),
        Reply::Answer(Answer::text("finished")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, &["--permission", "work=ask"]);
    let first = events(&served, &input("t1", "r1", &[user("u1", "go")]));
    let open = last(&first)["outcome"]["interrupts"].clone();
    let ids = [0, 1].map(|at| open[at]["id"].as_str().unwrap().to_owned());
    let bare = input("t1", "r2", &[]);
    let partial = events(&served, &resume(&bare, &ids[0], &json!({"approved": true})));
    assert_eq!(last(&partial)["code"], "suspension_resume_payload_invalid");
    let message = last(&partial)["message"].as_str().unwrap();
    assert!(message.contains(&ids[1]), "{message}");
    let mut all = bare;
    all["resume"] = json!([
        {"interruptId": ids[0], "status": "resolved", "payload": {"approved": true}},
        {"interruptId": ids[1], "status": "cancelled"}]);
    let done = events(&served, &all);
    assert_eq!(last(&done)["outcome"]["type"], "success", "{done:#?}");
    let results: Vec<&str> = done
        .iter()
        .filter(|event| event["type"] == "TOOL_CALL_RESULT")
        .map(|event| event["content"].as_str().unwrap())
        .collect();
    assert_eq!(results.len(), 2, "{done:#?}");
    assert!(
        results.iter().any(|text| text.starts_with("done")),
        "{results:?}"
    );
    assert!(
        results.iter().any(|text| text.contains("denied")),
        "{results:?}"
    );
}

#[test]
fn another_history_begins_a_branch_that_continues() {
    let replies = (1..=5).map(|n| Reply::Answer(Answer::text(format!("answer {n}"))));
    let model = ModelServer::start(replies.collect(), Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, &[]);
    let mut messages = Vec::new();
    let mut ids = std::collections::BTreeSet::new();
    let mut forks = Vec::new();
    for (n, text) in ["one", "two", "other two", "three"].into_iter().enumerate() {
        if text == "other two" {
            messages.truncate(2);
        }
        messages.push(user(&format!("u{n}"), text));
        let sent = events(&served, &input("t1", &format!("r{n}"), &messages));
        let custom = sent.iter().find(|event| event["type"] == "CUSTOM");
        forks.push(custom.map(|event| event["name"].as_str().unwrap().to_owned()));
        let start = sent
            .iter()
            .find(|event| event["type"] == "TEXT_MESSAGE_START");
        let id = start.unwrap()["messageId"].as_str().unwrap();
        assert!(ids.insert(id.to_owned()), "{id} is used twice");
        messages.push(assistant(id, &format!("answer {}", n + 1)));
    }
    let forked = Some("logue.forked".to_owned());
    assert_eq!(forks, [None, None, forked, None]);
    let received = model.received();
    let asked = received[3].body["messages"].to_string();
    assert!(
        asked.contains("other two") && !asked.contains("\"two\""),
        "{asked}"
    );
    // A client without messages leaves the conversation to the server, and receives it.
    let sent = events(&served, &input("t1", "r9", &[user("u9", "four")]));
    assert_eq!(kinds(&sent)[..2], ["RUN_STARTED", "MESSAGES_SNAPSHOT"]);
    assert_eq!(sent[1]["messages"].as_array().unwrap().len(), 7);
}

#[test]
fn what_has_no_effect_is_reported_and_a_wrong_request_is_refused() {
    let model =
        ModelServer::start(vec![Reply::Answer(Answer::text("hello"))], Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT), ("other.md", AGENT)]);
    let served = serve(folder.path(), &model, &["other.md"]);
    let mut input = input("t1", "r1", &[user("u1", "go")]);
    input["tools"] = json!([{"name": "confirm", "description": "x"}]);
    let sent = events(&served, &input);
    assert_eq!(sent[1]["name"], "logue.ignored");
    assert_eq!(sent[1]["value"], json!({"tools": ["confirm"]}));
    let asked = model.received()[0].body.to_string();
    assert!(!asked.contains("confirm"), "{asked}");
    for (path, body, status, code) in [
        ("agent", json!({}), 400, "request_invalid"),
        ("none", input.clone(), 404, "agent_not_found"),
        ("other", input.clone(), 409, "agent_differs"),
    ] {
        let refused = served.post(&format!("/v1/ag-ui/{path}"), &body);
        assert_eq!(refused.status, status, "{refused:?}");
        assert_eq!(refused.json()["code"], code, "{refused:?}");
    }
}
