//! Removed sessions: nothing of them stays in the files of the store.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Received, Reply};

use crate::client::Served;
use crate::program::{folder, logue, run};
use crate::waiting::wait_until;

const AGENT: &str = "<config model=\"m\"/>\n\
    <tool name=\"work\" command=\"printf raspberry-result\"/>\n";
/// The content of the removed session.
const SECRETS: [&str; 4] = [
    "strawberry-question",
    "blackberry-argument",
    "raspberry-result",
    "cranberry-answer",
];

fn answer_of(request: &Received) -> Reply {
    let messages = request.body["messages"].as_array().unwrap();
    let is_secret = messages.iter().any(|message| {
        let text = message["content"].to_string();
        text.contains(SECRETS[0])
    });
    let has_result = messages.iter().any(|message| message["role"] == "tool");
    Reply::Answer(match (is_secret, has_result) {
        (false, _) => Answer::text("kept-answer"),
        (true, false) => {
            let arguments = json!({"arguments": ["blackberry-argument"]}).to_string();
            Answer::text("").with_call("c1", "work", &arguments)
        }
        (true, true) => Answer::text("cranberry-answer"),
    })
}

/// Returns the names of the store's files that contain a text.
pub(crate) fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for file in fs::read_dir(folder).unwrap() {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        if name.starts_with("s.db") {
            let bytes = fs::read(file.path()).unwrap();
            if bytes
                .windows(text.len())
                .any(|part| part == text.as_bytes())
            {
                found.push(name);
            }
        }
    }
    found
}

/// Removes a session by `remove`, and searches for its texts.
fn check(remove: impl Fn(&Path, &Served)) {
    let model = ModelServer::start_by(answer_of, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let mut command = logue(folder.path());
    command.env("OPENAI_BASE_URL", model.base_url());
    let served = Served::start_with(command, &["agent.md", "--permission", "work=allow"]);
    for (session, text) in [("kept", "kept-question"), ("s1", SECRETS[0])] {
        let path = format!("/v1/sessions/{session}/send");
        let answer = served.post(&path, &json!({ "message": text }));
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    for text in SECRETS {
        let found = files_with(folder.path(), text);
        let is_in_log = found.iter().any(|name| name.contains("-events"));
        assert!(is_in_log, "`{text}` is in {found:?}");
        assert!(found.iter().any(|name| !name.contains("-events")));
    }
    remove(folder.path(), &served);
    assert_eq!(served.get("/v1/sessions/s1").status, 404);
    for text in SECRETS {
        let found = files_with(folder.path(), text);
        assert!(found.is_empty(), "`{text}` is in {found:?}");
    }
    let kept: Value = served.get("/v1/sessions/kept/messages").json();
    assert_eq!(kept["messages"][1]["content"], "kept-answer");
    assert!(!files_with(folder.path(), "kept-answer").is_empty());
}

#[test]
fn a_session_that_a_client_removes_leaves_no_bytes() {
    check(|_, served| {
        let removed = served.request("DELETE", "/v1/sessions/s1", &[], "");
        assert_eq!(removed.status, 204, "{removed:?}");
    });
}

#[test]
fn a_session_that_a_shell_removes_leaves_no_bytes() {
    check(|folder, _| {
        let remove = ["sessions", "rm", "--yes", "--store", "sqlite:s.db", "s1"];
        assert_eq!(run(folder, remove).status, 0);
    });
}

#[test]
fn a_pruned_session_leaves_no_bytes() {
    check(|folder, _| {
        let send = ["send", "--store", "sqlite:s.db", "kept", "again"];
        let mut command = logue(folder);
        // The session has changed last, and is kept.
        command
            .env("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
            .args(send);
        drop(command.output());
        let prune = ["sessions", "prune", "--store", "sqlite:s.db", "--keep", "1"];
        let prune = prune.iter().chain(&["--older-than", "1s"]);
        wait_until(
            || "the session was not pruned".to_owned(),
            || run(folder, prune.clone()).stdout == "s1\n",
        );
    });
}
