//! Turns of sessions that fail after a tool ran, or whose process dies, and continue.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, folder, logue};
use crate::send::show;
use crate::waiting::wait_for_text;

pub(crate) const PROMPT: &str =
    "<config model=\"m\"/>\n<tool name=\"deploy\" command=\"sh deploy.sh\"/>\n";
pub(crate) const DEPLOY: &str = "echo ran >> runs\necho deployed\n";
pub(crate) const SETTINGS: &str = "[model]\nretries = 0\n";

pub(crate) fn prepared(script: &str) -> tempfile::TempDir {
    folder(&[
        ("p.md", PROMPT),
        ("deploy.sh", script),
        ("logue.toml", SETTINGS),
    ])
}

pub(crate) fn call() -> Reply {
    let answer = Answer::text("I try.");
    Reply::Answer(answer.with_call("c1", "deploy", "{\"arguments\":[]}"))
}

pub(crate) fn status(code: u16) -> Reply {
    Reply::Status(
        code,
        Vec::new(),
        "{\"error\": {\"message\": \"away\"}}".to_owned(),
    )
}

pub(crate) fn text(words: &str) -> Reply {
    Reply::Answer(Answer::text(words))
}

pub(crate) fn server(replies: Vec<Reply>) -> ModelServer {
    ModelServer::start(replies, Delivery::Whole).unwrap()
}

pub(crate) fn ask(folder: &Path, server: &ModelServer, arguments: &[&str]) -> Ran {
    let mut command = logue(folder);
    command
        .env("OPENAI_BASE_URL", server.base_url())
        .args(arguments);
    command.output().unwrap().into()
}

pub(crate) fn runs(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("runs")).unwrap_or_default()
}

pub(crate) fn roles(messages: &Value) -> Vec<String> {
    let messages = messages.as_array().unwrap().iter();
    messages
        .map(|message| message["role"].as_str().unwrap().to_owned())
        .collect()
}

/// Kills a command in the tool that it runs.
pub(crate) fn kill_in_the_tool(folder: &Path, server: &ModelServer, arguments: &[&str]) {
    let mut child = logue(folder)
        .env("OPENAI_BASE_URL", server.base_url())
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The shell creates the file before its command writes the line.
    wait_for_text(&folder.join("runs"), "\n");
    child.kill().unwrap();
    child.wait().unwrap();
}

const SEND: [&str; 5] = ["send", "--agent", "p.md", "s", "ship it"];
pub(crate) const KEYED: [&str; 7] = [
    "send",
    "--agent",
    "p.md",
    "--idempotency-key",
    "k",
    "s",
    "ship it",
];
const RETRY: [&str; 3] = ["sessions", "retry", "s"];

#[test]
fn a_provider_error_after_a_tool_loses_nothing_and_repeats_nothing() {
    let cut = || Reply::Cut(b"data: {\"choices\": [{\"delta\": {\"content\": \"hal".to_vec());
    let errors = [("503", status(503)), ("429", status(429)), ("cut", cut())];
    let commands: [(&[&str], &[&str]); 3] = [(&SEND, &SEND), (&SEND, &RETRY), (&KEYED, &KEYED)];
    for ((name, error), (first, again)) in errors.into_iter().zip(commands) {
        // It fails twice, and the second failure changes nothing either.
        let server = server(vec![call(), error, status(503), text("fine")]);
        let folder = prepared(DEPLOY);
        for (attempt, command) in [first, again].into_iter().enumerate() {
            let ran = ask(folder.path(), &server, command);
            assert_eq!(ran.status, 4, "{name} {attempt}: {}", ran.stderr);
            let shown = show(folder.path(), "s");
            let expected = ["user", "assistant", "tool"];
            assert_eq!(roles(&shown["messages"]), expected, "{name}: {shown}");
            assert_eq!(
                shown["messages"][2]["content"], "deployed\n[exit status 0]",
                "{shown}"
            );
            let failed = shown["failed"].as_array().unwrap().last().unwrap().clone();
            assert!(failed["body"]["resumable"].is_object(), "{failed}");
            assert!(ran.stderr.contains("sessions retry s"), "{}", ran.stderr);
        }
        let ran = ask(folder.path(), &server, again);
        assert_eq!(
            (ran.status, ran.stdout.as_str()),
            (0, "fine\n"),
            "{}",
            ran.stderr
        );
        assert_eq!(runs(folder.path()), "ran\n", "{name}");
        let shown = show(folder.path(), "s");
        let expected = ["user", "assistant", "tool", "assistant"];
        assert_eq!(roles(&shown["messages"]), expected, "{name}: {shown}");
        let requests = server.received();
        let sent = &requests.last().unwrap().body["messages"];
        assert_eq!(roles(sent), ["user", "assistant", "tool"], "{name}: {sent}");
        assert_eq!(sent[2]["tool_call_id"], "c1");
        assert_eq!(requests.len(), 4);
    }
}

#[test]
fn a_turn_that_fails_before_a_tool_started_leaves_the_session_as_it_was() {
    let server = server(vec![status(503), call(), status(503), text("fine")]);
    let folder = prepared(DEPLOY);
    assert_eq!(ask(folder.path(), &server, &KEYED).status, 4);
    assert_eq!(show(folder.path(), "s")["messages"], json!([]));
    // A call that was refused did not start.
    let deny = ["send", "--permission", "deploy=deny", "s", "ship it"];
    assert_eq!(ask(folder.path(), &server, &deny).status, 4);
    assert_eq!(show(folder.path(), "s")["messages"], json!([]));
    // The key is not settled.
    let ran = ask(folder.path(), &server, &KEYED);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "fine\n"),
        "{}",
        ran.stderr
    );
    let shown = show(folder.path(), "s");
    assert_eq!(roles(&shown["messages"]), ["user", "assistant"], "{shown}");
    assert_eq!(runs(folder.path()), "");
    let nothing = ask(folder.path(), &server, &RETRY);
    assert_eq!(nothing.status, 3);
    assert!(
        nothing.stderr.contains("error[nothing_to_retry]"),
        "{}",
        nothing.stderr
    );
}

#[test]
fn a_turn_at_its_limit_goes_on_with_a_higher_one() {
    // An answer of the server has 18 tokens.
    for (flag, code, limit, higher) in [
        ("--max-requests", "max_requests_reached", "1", "2"),
        ("--max-total-tokens", "budget_exceeded", "18", "36"),
    ] {
        let server = server(vec![call(), text("fine")]);
        let folder = prepared(DEPLOY);
        let limited = [&SEND[..], &[flag, limit]].concat();
        for _ in 0..2 {
            let ran = ask(folder.path(), &server, &limited);
            assert_eq!(ran.status, 3, "{}", ran.stderr);
            assert!(
                ran.stderr.contains(&format!("error[{code}]")),
                "{}",
                ran.stderr
            );
        }
        let shown = show(folder.path(), "s");
        assert_eq!(
            roles(&shown["messages"]),
            ["user", "assistant", "tool"],
            "{shown}"
        );
        assert_eq!(server.received().len(), 1, "{flag} counts across attempts");
        let ran = ask(
            folder.path(),
            &server,
            &[&RETRY[..], &[flag, higher]].concat(),
        );
        assert_eq!(
            (ran.status, ran.stdout.as_str()),
            (0, "fine\n"),
            "{}",
            ran.stderr
        );
        assert_eq!(runs(folder.path()), "ran\n");
    }
}

#[test]
fn a_key_with_another_message_is_refused() {
    let server = server(vec![text("one"), text("two")]);
    let folder = prepared(DEPLOY);
    assert_eq!(ask(folder.path(), &server, &KEYED).status, 0);
    let other = ["send", "--idempotency-key", "k", "s", "something else"];
    let ran = ask(folder.path(), &server, &other);
    assert_eq!((ran.status, ran.stdout.as_str()), (3, ""), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("error[idempotency_key_reused]"),
        "{}",
        ran.stderr
    );
    assert_eq!(server.received().len(), 1);
    let shown = show(folder.path(), "s");
    assert_eq!(roles(&shown["messages"]), ["user", "assistant"], "{shown}");
}

#[test]
fn a_turn_that_waits_again_after_an_error_is_sound() {
    let other =
        Reply::Answer(Answer::text("").with_call("c2", "deploy", "{\"arguments\":[\"2\"]}"));
    let server = server(vec![call(), status(503), other]);
    let folder = prepared(DEPLOY);
    let asking = [&SEND[..], &["--permission", "deploy=ask"]].concat();
    let signal = suspended(folder.path(), &server, &asking);
    let approve = ["signal", &signal, "--approve"];
    assert_eq!(ask(folder.path(), &server, &approve).status, 4);
    let again = ask(folder.path(), &server, &["sessions", "retry", "s"]);
    assert_eq!(again.status, 6, "{}", again.stderr);
    for arguments in [&["sessions", "verify"][..], &["sessions", "backup", "b.db"]] {
        let ran = crate::program::run(folder.path(), arguments);
        assert_eq!(ran.status, 0, "{} {}", ran.stdout, ran.stderr);
    }
    assert_eq!(runs(folder.path()), "ran\n");
}

/// Asks for an approval, and returns the name of its signal.
pub(crate) fn suspended(folder: &Path, server: &ModelServer, arguments: &[&str]) -> String {
    let ran = ask(folder, server, arguments);
    assert_eq!(ran.status, 6, "{}", ran.stderr);
    let mut lines = ran.stderr.lines();
    let command = lines.find(|line| line.contains("logue signal")).unwrap();
    command.split_whitespace().nth(2).unwrap().to_owned()
}

#[test]
fn an_approved_call_is_history_whatever_the_provider_does_next() {
    let server = server(vec![call(), status(503), status(503), text("fine")]);
    let folder = prepared(DEPLOY);
    let asking = [&SEND[..], &["--permission", "deploy=ask"]].concat();
    let signal = suspended(folder.path(), &server, &asking);
    let approve = ["signal", &signal, "--approve"];
    for _ in 0..2 {
        let ran = ask(folder.path(), &server, &approve);
        assert_eq!(ran.status, 4, "{}", ran.stderr);
        let shown = show(folder.path(), "s");
        let results = roles(&shown["messages"]);
        assert_eq!(
            results.iter().filter(|role| *role == "tool").count(),
            1,
            "{shown}"
        );
        assert_eq!(shown["suspended"], json!([]), "{shown}");
    }
    let denied = ask(folder.path(), &server, &["signal", &signal, "--deny"]);
    assert_eq!(denied.status, 3, "{}", denied.stderr);
    for _ in 0..2 {
        let ran = ask(folder.path(), &server, &approve);
        assert_eq!(
            (ran.status, ran.stdout.as_str()),
            (0, "fine\n"),
            "{}",
            ran.stderr
        );
    }
    assert_eq!(runs(folder.path()), "ran\n");
    let requests = server.received();
    assert_eq!(requests.len(), 4);
    let sent = &requests[3].body["messages"];
    assert_eq!(roles(sent), ["user", "assistant", "tool"], "{sent}");
    assert_eq!(sent[2]["content"], "deployed\n[exit status 0]");
}

#[test]
fn an_approved_call_of_a_file_goes_on_in_the_file() {
    let server = server(vec![call(), status(503), text("fine")]);
    let folder = prepared(DEPLOY);
    let asking = ["run", "--permission", "deploy=ask", "p.md", "ship it"];
    let signal = suspended(folder.path(), &server, &asking);
    let approve = ["signal", &signal, "--approve"];
    assert_eq!(ask(folder.path(), &server, &approve).status, 4);
    let ran = ask(folder.path(), &server, &approve);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "fine\n"),
        "{}",
        ran.stderr
    );
    let text = std::fs::read_to_string(folder.path().join("p.md")).unwrap();
    assert_eq!(text.matches("<tool_response").count(), 1, "{text}");
    assert_eq!(text.matches("fine").count(), 1, "{text}");
    assert_eq!(runs(folder.path()), "ran\n");
}

pub(crate) const SLOW: &str =
    "echo ran >> runs\n[ $(wc -l < runs) -gt 1 ] || sleep 30\necho deployed\n";

#[test]
fn the_next_owner_goes_on_with_a_killed_turn_and_its_key_gets_the_answer() {
    let server = server(vec![call(), text("fine")]);
    let folder = prepared(SLOW);
    kill_in_the_tool(folder.path(), &server, &KEYED);
    let ran = ask(folder.path(), &server, &KEYED);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "fine\n"),
        "{}",
        ran.stderr
    );
    let shown = show(folder.path(), "s");
    let expected = ["user", "assistant", "tool", "assistant"];
    assert_eq!(roles(&shown["messages"]), expected, "{shown}");
    let result = shown["messages"][2]["content"].as_str().unwrap();
    assert!(result.starts_with("E-TOOL-CANCELLED"), "{shown}");
    assert_eq!(shown["failed"], json!([]), "{shown}");
    assert_eq!(runs(folder.path()), "ran\n");
    let requests = server.received();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[1].body["messages"][2]["content"], result);
}

#[test]
fn a_call_that_was_interrupted_is_repeated_only_by_a_person() {
    let server = server(vec![call(), call(), text("fine")]);
    let folder = prepared(SLOW);
    kill_in_the_tool(folder.path(), &server, &SEND);
    // A supervisor finishes the turn, and no other session waits for it.
    let supervisor = logue(folder.path())
        .env("OPENAI_BASE_URL", server.base_url())
        .args(["sessions", "recover", "--all"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let began = Instant::now();
    let echo = ["send", "--agent", "p.md", "-m", "echo:", "t", "hello"];
    let other = ask(folder.path(), &server, &echo);
    assert_eq!(
        (other.status, other.stdout.as_str()),
        (0, "hello\n"),
        "{}",
        other.stderr
    );
    assert!(began.elapsed() < Duration::from_secs(5));
    let recovered = Ran::from(supervisor.wait_with_output().unwrap());
    assert_eq!(recovered.status, 0, "{}", recovered.stderr);
    let mut lines = recovered.stdout.lines();
    let signal = lines.find_map(|line| line.strip_prefix("s: waits for "));
    let signal = signal.unwrap_or_else(|| panic!("{}", recovered.stdout));
    assert_eq!(runs(folder.path()), "ran\n");
    let shown = show(folder.path(), "s");
    let why = &shown["suspended"][0]["metadata"]["calls"][0]["why"];
    assert_eq!(why, &json!({"kind": "interrupted"}), "{shown}");

    let ran = ask(folder.path(), &server, &["signal", signal, "--approve"]);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "fine\n"),
        "{}",
        ran.stderr
    );
    assert_eq!(runs(folder.path()), "ran\nran\n");
    let nothing = ask(folder.path(), &server, &["sessions", "recover", "--all"]);
    assert_eq!((nothing.status, nothing.stdout.as_str()), (0, ""));
}

#[test]
fn a_killed_turn_may_end_with_its_process() {
    let folder = prepared(SLOW);
    let checkout = format!("{SETTINGS}[run]\non_crash = \"stop\"\n");
    std::fs::write(folder.path().join("logue.toml"), checkout).unwrap();
    let server = server(vec![call(), text("fine")]);
    kill_in_the_tool(folder.path(), &server, &KEYED);
    let ran = ask(folder.path(), &server, &["sessions", "recover", "s"]);
    assert_eq!(ran.status, 4, "{}", ran.stderr);
    assert!(
        ran.stdout.starts_with("s: turn_interrupted"),
        "{}",
        ran.stdout
    );
    assert_eq!(server.received().len(), 1);
    // Whoever asks for it gets the answer, and the tool does not run again.
    let ran = ask(folder.path(), &server, &KEYED);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "fine\n"),
        "{}",
        ran.stderr
    );
    assert_eq!(runs(folder.path()), "ran\n");
}

const SCHEMA: &str = r#"{"type": "object", "required": ["name"]}"#;

#[test]
fn answers_that_break_a_schema_after_a_tool_lose_nothing_and_are_not_history() {
    for again in [&SEND[..], &RETRY[..], &KEYED[..]] {
        let first = if again == RETRY { &SEND[..] } else { again };
        let server = server(vec![
            call(),
            text("It is Ada."),
            text("Ada, again."),
            text("{\"name\": \"Ada\"}"),
        ]);
        let folder = prepared(DEPLOY);
        std::fs::write(folder.path().join("person.json"), SCHEMA).unwrap();
        let schema = ["--schema", "person.json"];
        let ran = ask(folder.path(), &server, &[first, &schema].concat());
        assert_eq!((ran.status, ran.stdout.as_str()), (3, ""), "{}", ran.stderr);
        assert!(
            ran.stderr.contains("error[structured_output_invalid]"),
            "{}",
            ran.stderr
        );
        let shown = show(folder.path(), "s");
        let expected = ["user", "assistant", "tool"];
        assert_eq!(roles(&shown["messages"]), expected, "{shown}");
        let ran = ask(folder.path(), &server, &[again, &schema].concat());
        assert_eq!(
            (ran.status, ran.stdout.as_str()),
            (0, "{\"name\": \"Ada\"}\n"),
            "{}",
            ran.stderr
        );
        assert_eq!(runs(folder.path()), "ran\n");
        let requests = server.received();
        assert_eq!(requests.len(), 4);
        let sent = &requests[3].body["messages"];
        assert_eq!(roles(sent), expected, "{sent}");
        let shown = show(folder.path(), "s");
        assert_eq!(roles(&shown["messages"])[3..], ["assistant"], "{shown}");
    }
}

#[test]
fn a_key_gets_the_answer_of_a_turn_that_waited_for_decisions() {
    let second = Answer::text("Again.").with_call("c2", "deploy", "{\"arguments\":[]}");
    let server = server(vec![
        call(),
        Reply::Answer(second),
        status(503),
        text("fine"),
    ]);
    let folder = prepared(DEPLOY);
    let asking = [&KEYED[..], &["--permission", "deploy=ask"]].concat();
    let first = suspended(folder.path(), &server, &asking);
    assert_eq!(suspended(folder.path(), &server, &asking), first);
    // The turn waits again after the first decision, and fails after the second one.
    let approve = |signal: &str| ask(folder.path(), &server, &["signal", signal, "--approve"]);
    assert_eq!(approve(&first).status, 6);
    let second = suspended(folder.path(), &server, &asking);
    assert_ne!(second, first);
    assert_eq!(approve(&second).status, 4);
    assert_eq!(runs(folder.path()), "ran\nran\n");
    for _ in 0..2 {
        let ran = ask(folder.path(), &server, &asking);
        assert_eq!(
            (ran.status, ran.stdout.as_str()),
            (0, "fine\n"),
            "{}",
            ran.stderr
        );
    }
    let same = approve(&second);
    assert_eq!((same.status, same.stdout.as_str()), (0, "fine\n"));
    assert_eq!(runs(folder.path()), "ran\nran\n");
    assert_eq!(server.received().len(), 4);
    let other = ["send", "--idempotency-key", "k", "s", "another"];
    assert_eq!(ask(folder.path(), &server, &other).status, 3);
}
