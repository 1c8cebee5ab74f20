//! Answers that have to meet a schema, forced tools, and servers that are asked again.

use std::path::Path;

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, contents, events, folder, logue};

const PROMPT: &str = "<config model=\"m\"/>\n<system>Be brief.</system>\n";
const SCHEMA: &str =
    r#"{"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}"#;
/// The second request comes after a moment.
const QUICK: &str = "[model]\nretry_timeout_seconds = 20\n";

fn ask(folder: &Path, server: &ModelServer, arguments: &[&str]) -> Ran {
    let mut command = logue(folder);
    command
        .args(arguments)
        .env("OPENAI_BASE_URL", server.base_url());
    command.output().unwrap().into()
}

fn says(texts: &[&str]) -> ModelServer {
    let replies = texts.iter().map(|text| Reply::Answer(Answer::text(*text)));
    ModelServer::start(replies.collect(), Delivery::Whole).unwrap()
}

fn status(status: u16, headers: &[(&str, &str)], body: &str) -> Reply {
    let headers = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Reply::Status(status, headers.collect(), body.to_owned())
}

fn named<'a>(events: &'a [Value], name: &str) -> Option<&'a Value> {
    events.iter().find(|event| event["event"] == name)
}

#[test]
fn an_answer_is_the_json_that_the_schema_asks_for() {
    let commands: [&[&str]; 2] = [
        &["run", "--schema", "person.json", "prompt.md", "who?"],
        &[
            "send",
            "--schema",
            "person.json",
            "--agent",
            "prompt.md",
            "s",
            "who?",
        ],
    ];
    for command in commands {
        let server = says(&["It is Ada.", "```json\n{\"name\": \"Ada\"}\n```"]);
        let folder = folder(&[("prompt.md", PROMPT), ("person.json", SCHEMA)]);
        let ran = ask(folder.path(), &server, command);
        assert_eq!(
            (ran.status, ran.stdout.as_str()),
            (0, "{\"name\": \"Ada\"}\n"),
            "{}",
            ran.stderr
        );
        let warning = "asking the model again, as its answer does not match the schema: it is not a single JSON value";
        assert!(ran.stderr.contains(warning), "{}", ran.stderr);
        assert_eq!(server.received().len(), 2);
        // The answer that did not count is nowhere.
        let kept = contents(folder.path());
        assert!(
            !kept
                .iter()
                .any(|(_, bytes)| String::from_utf8_lossy(bytes).contains("It is Ada"))
        );

        let server = says(&[r#"{"title": 1}"#, r#"{"name": 1}"#]);
        let mut json = command.to_vec();
        json.push("--json");
        let ran = ask(folder.path(), &server, &json);
        assert_eq!(ran.status, 3, "{}", ran.stderr);
        let events = events(&ran.stdout);
        let reason = r#""name" is a required property"#;
        assert_eq!(
            named(&events, "model.schema_retry").unwrap()["reason"],
            reason
        );
        let error = named(&events, "turn.failed").unwrap();
        assert_eq!(error["code"], "structured_output_invalid");
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains("/name: the value is not of type"),
            "{message}"
        );
        assert_eq!(server.received().len(), 2);
    }
}

#[test]
fn what_cannot_be_met_is_refused_before_anything_is_written() {
    let server = says(&["never"]);
    let folder = folder(&[
        ("prompt.md", PROMPT),
        ("list.json", r#"{"type": "array"}"#),
        (
            "remote.json",
            r#"{"type": "object", "$ref": "https://example.com/s.json"}"#,
        ),
        ("broken.json", "{"),
    ]);
    let before = contents(folder.path());
    for (flags, code, words) in [
        (
            ["--schema", "list.json"],
            "provider_invalid_request",
            "the schema is in list.json",
        ),
        (
            ["--schema", "remote.json"],
            "provider_invalid_request",
            "nothing is fetched",
        ),
        (
            ["--schema", "broken.json"],
            "E-JSON-SYNTAX",
            "broken.json:1:",
        ),
        (["--schema", "none.json"], "E-SOURCE-READ", "none.json"),
        (
            ["--tool-choice", "required"],
            "provider_invalid_request",
            "no tool is offered",
        ),
        (
            ["--tool-choice", "grep"],
            "provider_invalid_request",
            "requires the tool `grep`",
        ),
    ] {
        let ran = ask(
            folder.path(),
            &server,
            &[&["run", "prompt.md", "who?"], &flags[..]].concat(),
        );
        assert_eq!(ran.status, 3, "{flags:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(&format!("error[{code}]")),
            "{}",
            ran.stderr
        );
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    }
    assert_eq!(contents(folder.path()), before);
    assert_eq!(server.received().len(), 0);
}

#[test]
fn a_server_that_is_away_is_asked_again_and_the_user_is_told() {
    let replies = || {
        vec![
            status(
                429,
                &[("retry-after-ms", "20")],
                r#"{"error":{"message":"slow\u001b[2J down"}}"#,
            ),
            Reply::Answer(Answer::text("hi")),
        ]
    };
    let folder = folder(&[("prompt.md", PROMPT), ("logue.toml", QUICK)]);
    for command in [
        ["run", "--no-save", "prompt.md", "hello", "--retries=1"],
        ["send", "--agent=prompt.md", "s", "hello", "--retries=1"],
    ] {
        let server = ModelServer::start(replies(), Delivery::Whole).unwrap();
        let ran = ask(folder.path(), &server, &command);
        assert_eq!(
            (ran.status, ran.stdout.as_str()),
            (0, "hi\n"),
            "{}",
            ran.stderr
        );
        assert!(ran.stderr.contains("retrying in 0."), "{}", ran.stderr);
        assert!(ran.stderr.contains("provider_rate_limit"), "{}", ran.stderr);
        assert!(!ran.stderr.contains('\u{1b}'), "{}", ran.stderr);

        let server = ModelServer::start(replies(), Delivery::Whole).unwrap();
        let ran = ask(
            folder.path(),
            &server,
            &[&command[..], &["--json"]].concat(),
        );
        let events = events(&ran.stdout);
        let retry = named(&events, "model.retry").unwrap();
        assert_eq!(retry["attempt"], 1);
        assert_eq!(retry["category"], "provider_rate_limit");
        assert!(retry["wait_seconds"].as_f64().unwrap() >= 0.02, "{retry}");
    }
}

#[test]
fn how_long_to_wait_is_told_in_both_ways_of_asking() {
    let folder = folder(&[("prompt.md", PROMPT), ("logue.toml", QUICK)]);
    let reply = status(429, &[("Retry-After", "90")], "{}");
    for command in [
        ["run", "--no-save", "prompt.md", "hello", "--json"],
        ["send", "--agent=prompt.md", "s", "hello", "--json"],
    ] {
        let server = ModelServer::start(vec![reply.clone()], Delivery::Whole).unwrap();
        let ran = ask(folder.path(), &server, &command);
        assert_eq!(ran.status, 4, "{}", ran.stderr);
        // It asks for more than is waited for.
        assert_eq!(server.received().len(), 1);
        assert!(
            ran.stderr.contains(
                "in 90 s, as the server requests, or raise `retry_timeout_seconds` (now 20 s)"
            ),
            "{}",
            ran.stderr
        );
        let events = events(&ran.stdout);
        let error = named(&events, "turn.failed").unwrap();
        assert_eq!(error["code"], "provider_rate_limit");
        assert_eq!(error["exit_status"], 4);
        assert_eq!(error["retry_after_seconds"], json!(90.0));
        assert!(
            error["help"].to_string().contains("retry_timeout_seconds"),
            "{error}"
        );
    }
    // A failure that may pass does not settle a key: the same one asks the server again.
    let server = ModelServer::start(vec![reply.clone(), reply], Delivery::Whole).unwrap();
    for _ in 0..2 {
        let again = ["send", "--json", "--idempotency-key=k", "s", "hello"];
        let ran = ask(folder.path(), &server, &again);
        let events = events(&ran.stdout);
        let error = named(&events, "turn.failed").unwrap();
        assert_eq!(error["retry_after_seconds"], json!(90.0), "{error}");
        assert!(
            error["help"].to_string().contains("retry_timeout_seconds"),
            "{error}"
        );
    }
    assert_eq!(server.received().len(), 2);
    // The stored outcome reports it too.
    let outcomes = ask(
        folder.path(),
        &server,
        &["sessions", "outcomes", "--json", "s"],
    );
    let outcomes = events(&outcomes.stdout);
    let last = outcomes.last().unwrap();
    assert_eq!(last["body"]["retry_after_seconds"], json!(90.0), "{last}");
}

#[test]
fn a_quota_that_is_used_up_is_not_waited_for() {
    let body =
        r#"{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}"#;
    let server = ModelServer::start(vec![status(429, &[], body)], Delivery::Whole).unwrap();
    let folder = folder(&[("prompt.md", PROMPT)]);
    let ran = ask(
        folder.path(),
        &server,
        &["run", "--no-save", "prompt.md", "hello"],
    );
    assert_eq!(ran.status, 4, "{}", ran.stderr);
    assert_eq!(server.received().len(), 1);
    assert!(
        ran.stderr.contains("waiting does not help"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_recording_has_the_answer_that_counts() {
    let server = says(&["It is Ada.", r#"{"name": "Ada"}"#]);
    let folder = folder(&[("prompt.md", PROMPT), ("person.json", SCHEMA)]);
    let asked = ["--no-save", "--schema=person.json", "prompt.md", "who?"];
    let live = ask(
        folder.path(),
        &server,
        &[&["run", "--record=a.ocml"], &asked[..]].concat(),
    );
    assert_eq!(live.status, 0, "{}", live.stderr);
    let played = ask(
        folder.path(),
        &server,
        &[&["run", "-m", "replay:a.ocml"], &asked[..]].concat(),
    );
    assert_eq!(
        (played.status, &played.stdout),
        (0, &live.stdout),
        "{}",
        played.stderr
    );
    assert_eq!(server.received().len(), 2);
}
