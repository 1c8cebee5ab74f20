//! Turns whose process died: who finishes them, how often, and which of their calls run.

use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::{Value, json};
use testkit::{Answer, ModelServer, Reply};

use crate::program::{Ran, folder, logue, run};
use crate::resumed::{
    DEPLOY, KEYED, PROMPT, SETTINGS, SLOW, ask, call, kill_in_the_tool, prepared, roles, runs,
    server, status, suspended, text,
};
use crate::send::show;
use crate::waiting::{wait_for_file, wait_until};

/// Calls run one after the other, and the first one lasts.
const SERIAL: &str = "[model]\nretries = 0\n[tools]\nconcurrency = 1\n";
const FIRST_LASTS: &str = "echo $1 >> runs\n[ $1 != one ] || sleep 30\n";

fn start(folder: &Path, server: &ModelServer, arguments: &[&str]) -> Child {
    logue(folder)
        .env("OPENAI_BASE_URL", server.base_url())
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn wait_for_requests(server: &ModelServer, count: usize) {
    wait_until(
        || format!("request {count} was not sent"),
        || server.received().len() >= count,
    );
}

/// Kills a command while it waits for the `count`-th request of a server.
fn kill_in_a_request(folder: &Path, server: &ModelServer, arguments: &[&str], count: usize) {
    let child = start(folder, server, arguments);
    wait_for_requests(server, count);
    kill(child);
}

/// Kills a command in the request that follows the result of its tool.
fn kill_after_the_tool(folder: &Path, arguments: &[&str]) {
    let server = server(vec![call(), Reply::Silent]);
    kill_in_a_request(folder, &server, arguments, 2);
}

fn two_calls() -> Reply {
    let answer = Answer::text("Both.");
    let answer = answer.with_call("c1", "deploy", r#"{"arguments":["one"]}"#);
    Reply::Answer(answer.with_call("c2", "deploy", r#"{"arguments":["two"]}"#))
}

fn with_two_calls() -> tempfile::TempDir {
    folder(&[
        ("p.md", PROMPT),
        ("deploy.sh", FIRST_LASTS),
        ("logue.toml", SERIAL),
    ])
}

/// Checks that the first call has an unknown outcome and that the second one ran, once each.
fn has_run_the_second(folder: &Path, server: &ModelServer) {
    assert_eq!(runs(folder), "one\ntwo\n");
    let requests = server.received();
    assert_eq!(requests.len(), 2);
    let sent = &requests[1].body["messages"];
    assert_eq!(roles(sent), ["user", "assistant", "tool", "tool"], "{sent}");
    assert_eq!(sent[2]["tool_call_id"], "c1");
    let first = sent[2]["content"].as_str().unwrap();
    assert!(first.starts_with("E-TOOL-CANCELLED"), "{sent}");
    assert_eq!(sent[3]["tool_call_id"], "c2");
    assert_eq!(sent[3]["content"], "[exit status 0]", "{sent}");
}

#[test]
fn calls_that_had_not_started_are_run() {
    let server = server(vec![two_calls(), text("fine")]);
    let folder = with_two_calls();
    kill_in_the_tool(folder.path(), &server, &KEYED);
    let ran = ask(folder.path(), &server, &KEYED);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "fine\n"),
        "{}",
        ran.stderr
    );
    has_run_the_second(folder.path(), &server);
}

#[test]
fn approved_calls_that_had_not_started_are_run_without_another_question() {
    let server = server(vec![two_calls(), text("fine")]);
    let folder = with_two_calls();
    let asking = [&KEYED[..], &["--permission", "deploy=ask"]].concat();
    let signal = suspended(folder.path(), &server, &asking);
    let approve = ["signal", &signal, "--approve"];
    kill_in_the_tool(folder.path(), &server, &approve);
    let ran = ask(folder.path(), &server, &approve);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "fine\n"),
        "{}",
        ran.stderr
    );
    has_run_the_second(folder.path(), &server);
}

#[test]
fn a_decision_counts_for_no_later_call_of_a_recovered_turn() {
    let later = || {
        let answer = Answer::text("And this.");
        Reply::Answer(answer.with_call("c2", "deploy", r#"{"arguments":["later"]}"#))
    };
    // The process dies in the approved call, or in the request after it.
    for (script, in_tool) in [("echo $1 >> runs\nsleep 30\n", true), (DEPLOY, false)] {
        let mut replies = vec![call()];
        replies.extend((!in_tool).then_some(Reply::Silent));
        replies.extend([later(), text("fine")]);
        let server = server(replies);
        let folder = prepared(script);
        let asking = [&KEYED[..], &["--permission", "deploy=ask"]].concat();
        let signal = suspended(folder.path(), &server, &asking);
        let approve = ["signal", &signal, "--approve"];
        if in_tool {
            kill_in_the_tool(folder.path(), &server, &approve);
        } else {
            kill_in_a_request(folder.path(), &server, &approve, 2);
        }
        let ran = ask(folder.path(), &server, &["sessions", "recover", "s"]);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        assert!(ran.stdout.contains("waits for approve-"), "{}", ran.stdout);
        assert_eq!(runs(folder.path()).lines().count(), 1);
        let waiting = show(folder.path(), "s")["suspended"].clone();
        assert_eq!(waiting[0]["metadata"]["calls"][0]["id"], "c2", "{waiting}");
    }
}

/// The next turn asks again, also that of a copy of the session.
#[test]
fn a_decision_ends_with_its_turn() {
    let later = || {
        let answer = Answer::text("And this.");
        Reply::Answer(answer.with_call("c2", "deploy", r#"{"arguments":["later"]}"#))
    };
    for (script, in_tool) in [("echo $1 >> runs\nsleep 30\n", true), (DEPLOY, false)] {
        let mut replies = vec![call()];
        replies.extend((!in_tool).then_some(Reply::Silent));
        replies.extend([text("fine"), later(), later()]);
        let server = server(replies);
        let folder = prepared(script);
        let asking = [&KEYED[..], &["--permission", "deploy=ask"]].concat();
        let signal = suspended(folder.path(), &server, &asking);
        let approve = ["signal", &signal, "--approve"];
        if in_tool {
            kill_in_the_tool(folder.path(), &server, &approve);
        } else {
            kill_in_a_request(folder.path(), &server, &approve, 2);
        }
        let ran = ask(folder.path(), &server, &approve);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let forked = ask(folder.path(), &server, &["sessions", "fork", "s", "copy"]);
        assert_eq!(forked.status, 0, "{}", forked.stderr);
        for session in ["s", "copy"] {
            suspended(folder.path(), &server, &["send", session, "next"]);
        }
        assert_eq!(runs(folder.path()).lines().count(), 1);
    }
}

#[test]
fn an_interrupted_edited_call_counts_with_both_versions() {
    let slow = "echo $1 >> runs\n[ $(wc -l < runs) -gt 1 ] || sleep 30\n";
    for (word, expected) in [
        ("edited", "edited\n"),
        ("asked", "edited\n"),
        ("other", "edited\nother\n"),
    ] {
        let call = |id: &str, word: &str| {
            let arguments = json!({ "arguments": [word] }).to_string();
            Reply::Answer(Answer::text("").with_call(id, "deploy", arguments))
        };
        let replies = vec![call("c1", "asked"), call("c2", word), text("a"), text("b")];
        let server = server(replies);
        let folder = prepared(slow);
        let asking = [&KEYED[..], &["--permission", "deploy=ask"]].concat();
        let signal = suspended(folder.path(), &server, &asking);
        let edit = json!({ "arguments": ["edited"] }).to_string();
        std::fs::write(folder.path().join("edit.json"), edit).unwrap();
        let edit = ["signal", &signal, "--approve", "--edit", "edit.json"];
        kill_in_the_tool(folder.path(), &server, &edit);
        // From now on the tool may run, but not again.
        let next = ["send", "--permission", "deploy=allow", "s", "next"];
        let ran = ask(folder.path(), &server, &next);
        assert_eq!(ran.status, 0, "{word}: {}", ran.stderr);
        assert_eq!(runs(folder.path()), expected, "{word}");
        let suspended = show(folder.path(), "s")["suspended"].clone();
        let waits = usize::from(word != "other");
        assert_eq!(suspended.as_array().unwrap().len(), waits, "{word}");
    }
}

#[test]
fn a_turn_is_continued_three_times_at_most() {
    let folder = prepared(DEPLOY);
    kill_after_the_tool(folder.path(), &KEYED);
    let silent = server(vec![Reply::Silent]);
    for number in 1..=3 {
        kill_in_a_request(folder.path(), &silent, &KEYED, number);
    }
    let server = server(vec![text("fine")]);
    let ended = ask(folder.path(), &server, &KEYED);
    assert_eq!(ended.status, 4, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("error[turn_interrupted]"),
        "{}",
        ended.stderr
    );
    assert!(server.received().is_empty(), "the fifth process asked");
    let shown = show(folder.path(), "s");
    let expected = ["user", "assistant", "tool"];
    assert_eq!(roles(&shown["messages"]), expected, "{shown}");
    // The sender decides to continue it.
    let ran = ask(folder.path(), &server, &KEYED);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "fine\n"),
        "{}",
        ran.stderr
    );
    assert_eq!(runs(folder.path()), "ran\n");
}

#[test]
fn a_supervisor_finishes_every_dead_turn_and_no_live_one() {
    let folder = prepared(DEPLOY);
    for session in ["a", "b"] {
        let send = ["send", "--agent", "p.md", session, "ship it"];
        kill_after_the_tool(folder.path(), &send);
    }
    let of_file = server(vec![call(), Reply::Silent, text("fine")]);
    let asking = ["run", "--permission", "deploy=ask", "f.md", "ship it"];
    std::fs::copy(folder.path().join("p.md"), folder.path().join("f.md")).unwrap();
    let signal = suspended(folder.path(), &of_file, &asking);
    let approve = ["signal", &signal, "--approve"];
    kill_in_a_request(folder.path(), &of_file, &approve, 2);
    let silent = server(vec![Reply::Silent]);
    let live = start(
        folder.path(),
        &silent,
        &["send", "--agent", "p.md", "c", "hi"],
    );
    wait_for_requests(&silent, 1);

    let server = server(vec![text("fine")]);
    let all = ["sessions", "recover", "--all"];
    let ran = ask(folder.path(), &server, &all);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let mut lines: Vec<_> = ran.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["a: completed", "b: completed"], "{}", ran.stderr);
    assert_eq!(
        ran.stderr, "c: skipped: another process works on it\n",
        "{}",
        ran.stdout
    );
    assert_eq!(server.received().len(), 2);
    assert_eq!(silent.received().len(), 1);
    for session in ["a", "b"] {
        let shown = show(folder.path(), session);
        let expected = ["user", "assistant", "tool", "assistant"];
        assert_eq!(roles(&shown["messages"]), expected, "{shown}");
    }
    // The conversation of a file is left to `logue signal`.
    assert_eq!(of_file.received().len(), 2);
    let ran = ask(folder.path(), &of_file, &approve);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "fine\n"));
    assert_eq!(runs(folder.path()), "ran\nran\nran\n");
    kill(live);
    let listed = run(folder.path(), ["sessions", "show", "c", "--json"]);
    let shown: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(shown["messages"], json!([]), "{shown}");
}

#[test]
fn limits_count_across_processes() {
    let folder = prepared(DEPLOY);
    let limited = [&KEYED[..], &["--max-requests", "2"]].concat();
    kill_after_the_tool(folder.path(), &limited);
    let server = server(vec![text("fine")]);
    let ended = ask(folder.path(), &server, &limited);
    assert_eq!(ended.status, 3, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("error[max_requests_reached]"),
        "{}",
        ended.stderr
    );
    assert!(server.received().is_empty(), "a third request was sent");
    let ran = ask(folder.path(), &server, &KEYED);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "fine\n"));
    assert_eq!(runs(folder.path()), "ran\n");
}

#[test]
fn a_checkout_cannot_continue_what_its_user_stops() {
    let folder = prepared(DEPLOY);
    let checkout = format!("{SETTINGS}[run]\non_crash = \"continue\"\n");
    std::fs::write(folder.path().join("logue.toml"), checkout).unwrap();
    let user = folder.path().join(".config/logue");
    std::fs::create_dir_all(&user).unwrap();
    std::fs::write(user.join("config.toml"), "[run]\non_crash = \"stop\"\n").unwrap();
    let send = |arguments: &[&str], replies| {
        let server = server(replies);
        let count = server.received().len();
        let mut command = logue(folder.path());
        command.env("LOGUE_TRUST", "");
        command.env("OPENAI_BASE_URL", server.base_url());
        let output = command.args(arguments).output().unwrap();
        (output, server.received().len() - count)
    };
    kill_after_the_tool(folder.path(), &KEYED);
    let (output, requests) = send(&["sessions", "recover", "s"], vec![text("fine")]);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.starts_with("s: turn_interrupted"), "{output:?}");
    assert_eq!(requests, 0);
}

#[test]
fn a_call_that_had_not_started_says_so_when_its_turn_ends() {
    let server = server(vec![two_calls(), text("fine")]);
    let folder = with_two_calls();
    kill_in_the_tool(folder.path(), &server, &KEYED);
    let stop = ["sessions", "recover", "--on-crash", "stop", "s"];
    let ended = ask(folder.path(), &server, &stop);
    assert!(
        ended.stdout.starts_with("s: turn_interrupted"),
        "{} {}",
        ended.stdout,
        ended.stderr
    );
    let messages = &show(folder.path(), "s")["messages"];
    assert_eq!(roles(messages), ["user", "assistant", "tool", "tool"]);
    let result = |at: usize| messages[at]["content"].as_str().unwrap().to_owned();
    assert_eq!(messages[2]["tool_call_id"], "c1", "{messages}");
    assert!(result(2).contains("may have run"), "{messages}");
    assert_eq!(messages[3]["tool_call_id"], "c2", "{messages}");
    assert!(result(3).starts_with("E-TOOL-CANCELLED"), "{messages}");
    assert!(result(3).contains("did not run"), "{messages}");
    assert!(!result(3).contains("may have run"), "{messages}");
    assert_eq!(runs(folder.path()), "one\n");
}

#[test]
fn a_failure_after_an_interrupted_call_still_guards_it() {
    let server = server(vec![call(), status(503), call()]);
    let folder = prepared(SLOW);
    kill_in_the_tool(folder.path(), &server, &KEYED);
    let failed = ask(folder.path(), &server, &KEYED);
    assert_eq!(failed.status, 4, "{}", failed.stderr);
    suspended(folder.path(), &server, &KEYED);
    assert_eq!(runs(folder.path()), "ran\n");
    let shown = show(folder.path(), "s");
    let why = &shown["suspended"][0]["metadata"]["calls"][0]["why"];
    assert_eq!(why, &json!({"kind": "interrupted"}), "{shown}");
}

#[test]
fn a_cancelled_turn_settles_its_key() {
    let server = server(vec![call(), text("stopped"), text("again")]);
    let folder = prepared(SLOW);
    let first = start(folder.path(), &server, &KEYED);
    wait_for_file(&folder.path().join("runs"));
    let other = ["send", "--busy", "rollback", "s", "second"];
    let other = ask(folder.path(), &server, &other);
    assert_eq!((other.status, other.stdout.as_str()), (0, "stopped\n"));
    kill(first);
    let ran = ask(folder.path(), &server, &KEYED);
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("error[turn_cancelled]"),
        "{}",
        ran.stderr
    );
    assert_eq!(server.received().len(), 2);
    assert_eq!(runs(folder.path()), "ran\n");
}

#[test]
fn a_cancelled_turn_promises_no_continuation() {
    for policy in ["interrupt", "rollback"] {
        let server = server(vec![call(), text("stopped")]);
        let folder = prepared(SLOW);
        let first = logue(folder.path())
            .env("OPENAI_BASE_URL", server.base_url())
            .args(["send", "--agent", "p.md", "s", "ship it"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_for_file(&folder.path().join("runs"));
        let other = ["send", "--busy", policy, "s", "second"];
        assert_eq!(ask(folder.path(), &server, &other).status, 0);
        let first = Ran::from(first.wait_with_output().unwrap());
        assert_eq!(first.status, 3, "{policy}: {}", first.stderr);
        for (words, is_there) in [
            ("nothing continues it", true),
            ("begins a new turn", true),
            ("sessions retry", false),
            ("are kept", false),
        ] {
            assert_eq!(first.stderr.contains(words), is_there, "{}", first.stderr);
        }
        let shown = show(folder.path(), "s");
        assert_eq!(shown["failed"][0]["body"]["resumable"], Value::Null);
        let expected = ["user", "assistant", "tool", "user", "assistant"];
        assert_eq!(roles(&shown["messages"]), expected, "{policy}: {shown}");
        let nothing = ask(folder.path(), &server, &["sessions", "retry", "s"]);
        assert_eq!(nothing.status, 3, "{}", nothing.stderr);
        assert_eq!(runs(folder.path()), "ran\n");
        assert_eq!(server.received().len(), 2);
    }
}
