//! Turns in which a model writes files and reads pages with the built-in tools.

use std::fs;

use serde_json::json;
use testkit::{Answer, Delivery, ModelServer, Received, Reply};

use crate::program::{folder, run};

const PATCH: &str = "*** Begin Patch\n*** Add File: src/new.rs\n+fn new() {}\n\
                     *** Update File: src/lib.rs\n@@\n-fn old() {}\n+mod new;\n*** End Patch";

/// A model that makes these calls at once and then says `done`.
fn model(calls: &[(&str, serde_json::Value)]) -> ModelServer {
    let mut answer = Answer::text("");
    for (number, (name, arguments)) in calls.iter().enumerate() {
        answer = answer.with_call(format!("c{number}"), *name, arguments.to_string());
    }
    let replies = vec![Reply::Answer(answer), Reply::Answer(Answer::text("done"))];
    ModelServer::start(replies, Delivery::Random(7)).unwrap()
}

/// What the tools answered, as the model was sent it.
fn results(request: &Received) -> Vec<String> {
    let messages = request.body["messages"].as_array().unwrap();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    let text = |message: &serde_json::Value| message["content"].as_str().unwrap().to_owned();
    results.map(text).collect()
}

#[test]
fn a_turn_writes_files_and_reads_a_page() {
    let page = Reply::Status(
        200,
        vec![("content-type".to_owned(), "text/html".to_owned())],
        "<h1>News</h1><p>One <b>big</b> thing.</p>".to_owned(),
    );
    let pages = ModelServer::start(vec![page], Delivery::Whole).unwrap();
    let base = pages.base_url();
    let host = base
        .trim_start_matches("http://")
        .split('/')
        .next()
        .unwrap();
    let server = model(&[
        (
            "append_to_file",
            json!({"path": "log.txt", "content": "two\n"}),
        ),
        (
            "find_and_replace",
            json!({"path": "log.txt", "find": "one", "replace": "1", "all": false}),
        ),
        ("apply_patch", json!({ "input": PATCH })),
        ("apply_patch", json!({ "input": PATCH })),
        (
            "webpage_to_markdown",
            json!({"url": format!("http://{host}/news")}),
        ),
        (
            "webpage_to_markdown",
            json!({"url": "https://example.com/"}),
        ),
        (
            "append_to_file",
            json!({"path": "../outside.txt", "content": "x"}),
        ),
    ]);
    let prompt = "<config model=\"m\"/>\n<tool name=\"append_to_file\"/>\n<tool name=\"find_and_replace\"/>\n\
                  <tool name=\"apply_patch\"/>\n<tool name=\"webpage_to_markdown\"/>\n<user>go</user>\n";
    let folder = folder(&[
        ("p/prompt.md", prompt),
        ("p/log.txt", "one\n"),
        ("p/src/lib.rs", "fn old() {}\n"),
    ]);
    let url = server.base_url();
    let ran = run(
        folder.path(),
        [
            "run",
            "--base-url",
            &url,
            "--allow-host",
            host,
            "p/prompt.md",
        ],
    );
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "done\n"),
        "{}",
        ran.stderr
    );
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read("p/log.txt"), "1\ntwo\n");
    assert_eq!(read("p/src/lib.rs"), "mod new;\n");
    assert_eq!(read("p/src/new.rs"), "fn new() {}\n");
    assert!(!folder.path().join("outside.txt").exists());
    let requests = server.received();
    let offered = requests[0].body["tools"].as_array().unwrap().iter();
    let offered: Vec<_> = offered
        .map(|tool| tool["function"]["name"].clone())
        .collect();
    assert_eq!(
        offered,
        [
            "append_to_file",
            "find_and_replace",
            "apply_patch",
            "webpage_to_markdown"
        ]
    );
    let results = results(&requests[1]);
    assert_eq!(results[0], "log.txt: 4 bytes appended, 8 in all");
    assert_eq!(results[1], "log.txt: replaced once, line 1");
    assert_eq!(
        results[2],
        "The patch is applied:\nA src/new.rs\nM src/lib.rs"
    );
    assert_eq!(
        results[3],
        "src/new.rs: is there already; use `*** Update File:`. Nothing was changed"
    );
    assert_eq!(results[4], "# News\n\nOne **big** thing.");
    assert!(
        results[5].contains("--allow-host example.com"),
        "{}",
        results[5]
    );
    assert!(results[6].contains("outside"), "{}", results[6]);
}

#[test]
fn a_model_grants_itself_no_tools() {
    let grant = |path: &str| {
        let content = "<tool name=\"sh\" command=\"sh\"/>\n";
        ("append_to_file", json!({"path": path, "content": content}))
    };
    let mut calls: Vec<_> = [
        "prompt.md",
        "shared.md",
        "helper.md",
        "talk.md",
        "logue.toml",
        "inner.md",
    ]
    .map(grant)
    .into();
    calls.push(("helper", json!({"input": "go"})));
    let server = model(&calls);
    let folder = folder(&[
        (
            "prompt.md",
            "<config model=\"m\"/>\n<import src=\"shared.md\"/>\n<tool name=\"append_to_file\"/>\n\
             <tool name=\"helper\" agent=\"helper.md\" local/>\n<user>go</user>\n",
        ),
        ("shared.md", "<system>Be brief.</system>\n"),
        (
            "helper.md",
            "<config model=\"m\"/>\n<user><agent src=\"inner.md\" local/></user>\n",
        ),
    ]);
    let url = server.base_url();
    let ran = run(
        folder.path(),
        ["run", "--base-url", &url, "-o", "talk.md", "prompt.md"],
    );
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "done\n"),
        "{}",
        ran.stderr
    );
    let results = results(&server.received()[1]);
    for refused in &results[..5] {
        assert!(refused.contains("tools do not write it"), "{refused}");
    }
    // A prompt that the agent names and that does not exist yet is not an agent afterwards.
    assert!(results[5].contains("appended"), "{}", results[5]);
    // The model receives the code only; the cause is for the person at the terminal.
    assert!(
        results[6].starts_with("E-MD-AGENT-FAILED"),
        "{}",
        results[6]
    );
    assert!(
        ran.stderr.contains("a tool wrote it in this run"),
        "{}",
        ran.stderr
    );
    assert_eq!(server.received().len(), 2, "no agent was asked");
    for kept in ["prompt.md", "shared.md", "helper.md"] {
        let text = fs::read_to_string(folder.path().join(kept)).unwrap();
        assert!(!text.contains("sh\"/>"), "{text}");
    }
    assert!(!folder.path().join("logue.toml").exists());
}
