//! The calls of one answer, through the program: side by side, killed in the middle, as envelopes.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, folder, logue};

const PROMPT: &str =
    "<config model=\"m\"/>\n<tool name=\"work\" command=\"sh work.sh\"/>\n<user>go</user>\n";

/// The middle one of three calls takes longer than anybody waits.
const WORK: &str = "if test $1 = 2; then sleep 20; fi\necho ran $1 >> runs\necho done $1\n";

fn three() -> Answer {
    let arguments = |number: usize| json!({"arguments": [number.to_string()]}).to_string();
    (1..=3).fold(Answer::text("Three."), |answer, number| {
        answer.with_call(format!("c{number}"), "work", arguments(number))
    })
}

fn server(answers: impl IntoIterator<Item = Answer>) -> ModelServer {
    let replies = answers.into_iter().map(Reply::Answer).collect();
    ModelServer::start(replies, Delivery::Whole).unwrap()
}

fn ask(folder: &Path, server: &ModelServer, arguments: &[&str]) -> Ran {
    let mut command = logue(folder);
    command
        .env("OPENAI_BASE_URL", server.base_url())
        .args(arguments);
    command.output().unwrap().into()
}

/// Starts the program and kills it when the results of the first and the last call were told.
fn killed_in_mid_batch(folder: &Path, server: &ModelServer, arguments: &[&str]) {
    let mut child: Child = logue(folder)
        .env("OPENAI_BASE_URL", server.base_url())
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut completed = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if event["event"] == "tool.result" {
            completed.push(event["call_id"].as_str().unwrap().to_owned());
        }
        if completed.len() == 2 {
            break;
        }
    }
    completed.sort();
    assert_eq!(completed, ["c1", "c3"]);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The results that the model was sent last.
fn sent(server: &ModelServer) -> Vec<(String, String)> {
    let last = server.received().pop().unwrap();
    let messages = last.body["messages"].as_array().unwrap().clone();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    let text = |message: &Value, key: &str| message[key].as_str().unwrap().to_owned();
    results
        .map(|message| (text(message, "tool_call_id"), text(message, "content")))
        .collect()
}

fn assert_told_what_is_known(server: &ModelServer) {
    let results = sent(server);
    let ids: Vec<&str> = results.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids, ["c1", "c2", "c3"]);
    assert_eq!(results[0].1, "done 1\n[exit status 0]");
    assert!(
        results[1]
            .1
            .starts_with("E-TOOL-CANCELLED: the run was interrupted")
    );
    assert_eq!(results[2].1, "done 3\n[exit status 0]");
}

#[test]
fn a_run_that_is_killed_in_mid_batch_keeps_every_result_that_was_told() {
    let server = server([three(), Answer::text("so be it")]);
    let folder = folder(&[("p.md", PROMPT), ("work.sh", WORK)]);
    killed_in_mid_batch(folder.path(), &server, &["run", "--json", "p.md"]);
    let text = std::fs::read_to_string(folder.path().join("p.md")).unwrap();
    let place = |id: &str| text.find(&format!("<tool_response tool_call_id=\"{id}\""));
    assert!(place("c1").unwrap() < place("c3").unwrap(), "{text}");
    assert_eq!(place("c2"), None);

    let next = ask(folder.path(), &server, &["run", "p.md"]);
    assert_eq!(
        (next.status, next.stdout.as_str()),
        (0, "so be it\n"),
        "{}",
        next.stderr
    );
    assert_told_what_is_known(&server);
    let runs = std::fs::read_to_string(folder.path().join("runs")).unwrap();
    assert_eq!(runs.matches("ran 2").count(), 0, "it was not run again");
    let text = std::fs::read_to_string(folder.path().join("p.md")).unwrap();
    assert_eq!(chatmd::check(&text), [], "{text}");
}

#[test]
fn a_session_that_is_killed_in_mid_batch_keeps_every_result_that_was_told() {
    let server = server([three(), Answer::text("so be it")]);
    let folder = folder(&[("p.md", PROMPT), ("work.sh", WORK)]);
    let first = ["send", "--json", "--agent", "p.md", "s", "do it"];
    killed_in_mid_batch(folder.path(), &server, &first);
    // Its lease ends, its turn is put in order, and then the next message is answered.
    let next = ask(folder.path(), &server, &["send", "s", "go on"]);
    assert_eq!(
        (next.status, next.stdout.as_str()),
        (0, "so be it\n"),
        "{}",
        next.stderr
    );
    assert_told_what_is_known(&server);
}

#[test]
fn the_configuration_says_how_many_run_at_once_and_what_a_model_is_told() {
    let order = "echo begin $1 >> log\nsleep 0.05\necho end $1 >> log\necho '{\"n\":' $1 '}'\n";
    let config = "[tools]\nconcurrency = 1\nresult_envelope = true\n";
    let server = server([three(), Answer::text("seen")]);
    let folder = folder(&[("p.md", PROMPT), ("work.sh", order), ("logue.toml", config)]);
    let ran = ask(folder.path(), &server, &["run", "p.md"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert_eq!(log, "begin 1\nend 1\nbegin 2\nend 2\nbegin 3\nend 3\n");
    for (id, text) in sent(&server) {
        let result: Value = serde_json::from_str(&text).unwrap();
        let content = format!("{{\"n\": {} }}\n[exit status 0]", &id[1..]);
        let expected = json!({"ok": true, "content": content, "error": null, "provenance": null});
        assert_eq!(result, expected);
    }
    std::fs::write(
        folder.path().join("logue.toml"),
        "[tools]\nconcurrency = 0\n",
    )
    .unwrap();
    let ran = ask(folder.path(), &server, &["run", "p.md"]);
    assert_eq!(ran.status, 3);
    assert!(
        ran.stderr.contains("error[E-CONFIG-INVALID]"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_call_that_does_not_fit_is_told_and_not_run() {
    let answer = Answer::text("")
        .with_call(
            "c1",
            "work",
            r#"{"arguments":["1", 5], "deadline_ms": 60000}"#,
        )
        .with_call("c2", "work", r#"{"arguments":["2"], "deadline_ms": 50}"#)
        .with_call("c3", "work", r#"{"arguments":["3"], "deadline_ms": 60000}"#);
    let server = server([answer, Answer::text("seen")]);
    let folder = folder(&[("p.md", PROMPT), ("work.sh", WORK)]);
    let ran = ask(folder.path(), &server, &["run", "--json", "p.md"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let results = sent(&server);
    assert_eq!(
        results[0].1,
        "E-CALL-SCHEMA: the arguments are not what `work` takes, so it was not run\n\
         - /arguments/1: the value is not of type \"string\""
    );
    assert!(
        results[1].1.starts_with("E-TOOL-TIMEOUT: "),
        "{}",
        results[1].1
    );
    assert_eq!(results[2].1, "done 3\n[exit status 0]");
    let runs = std::fs::read_to_string(folder.path().join("runs")).unwrap();
    assert_eq!(runs, "ran 3\n");
}
