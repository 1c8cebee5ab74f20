//! Sessions that begin as another one: copies, and turns that continue from one of their steps.

use std::path::Path;

use serde_json::{Value, json};
use testkit::{Answer, ModelServer, Reply};

use crate::program::{Ran, events, folder, run};
use crate::resumed::{ask, kill_in_the_tool, roles, runs, server, text};
use crate::send::show;

const PROMPT: &str = "<config model=\"m\"/>\n<tool name=\"deploy\" command=\"sh deploy.sh\"/>\n";
const DEPLOY: &str = "echo $1 >> runs\necho deployed $1\n";
const SEND: [&str; 5] = ["send", "--agent", "p.md", "s", "ship it"];
const ASKED: [&str; 7] = [
    "send",
    "--agent",
    "p.md",
    "--permission",
    "deploy=ask",
    "s",
    "ship it",
];

fn prepared() -> tempfile::TempDir {
    folder(&[
        ("p.md", PROMPT),
        ("deploy.sh", DEPLOY),
        (
            "logue.toml",
            "[model]\nretries = 0\n[tools]\nconcurrency = 1\n",
        ),
    ])
}

fn call(id: &str, word: &str) -> Reply {
    let arguments = json!({ "arguments": [word] }).to_string();
    Reply::Answer(Answer::text("I try.").with_call(id, "deploy", arguments))
}

fn calls() -> Reply {
    let arguments = |word: &str| json!({ "arguments": [word] }).to_string();
    let answer = Answer::text("Both.").with_call("c1", "deploy", arguments("one"));
    Reply::Answer(answer.with_call("c2", "deploy", arguments("two")))
}

fn signal_of(ran: &Ran) -> String {
    assert_eq!(ran.status, 6, "{}", ran.stderr);
    let mut lines = ran.stderr.lines();
    let command = lines.find(|line| line.contains("logue signal")).unwrap();
    command.split_whitespace().nth(2).unwrap().to_owned()
}

/// The messages of the last request.
fn sent(server: &ModelServer) -> Value {
    server.received().last().unwrap().body["messages"].clone()
}

fn done(ran: &Ran, answer: &str) {
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    // Text before the calls is printed too.
    let last = ran.stdout.rsplit("\n\n").next();
    assert_eq!(last, Some(answer), "{}", ran.stdout);
}

fn sound(folder: &Path) {
    let verified = run(folder, ["sessions", "verify"]);
    assert_eq!(verified.status, 0, "{}", verified.stdout);
}

#[test]
fn a_fork_of_a_waiting_turn_has_a_result_for_its_call() {
    let server = server(vec![
        call("c1", "one"),
        text("in the copy"),
        text("in the first"),
    ]);
    let folder = prepared();
    let signal = signal_of(&ask(folder.path(), &server, &ASKED));
    let forked = run(folder.path(), ["sessions", "fork", "s", "copy"]);
    assert_eq!(
        (forked.status, forked.stdout.as_str()),
        (0, ""),
        "{}",
        forked.stderr
    );
    assert_eq!(show(folder.path(), "copy")["suspended"], json!([]));

    done(
        &ask(folder.path(), &server, &["send", "copy", "go on"]),
        "in the copy\n",
    );
    let messages = sent(&server);
    assert_eq!(
        roles(&messages),
        ["user", "assistant", "tool", "user"],
        "{messages}"
    );
    let result = messages[2]["content"].as_str().unwrap();
    assert!(result.starts_with("E-TOOL-CANCELLED"), "{messages}");
    assert_eq!(messages[2]["tool_call_id"], "c1");

    let approved = ask(folder.path(), &server, &["signal", &signal, "--approve"]);
    done(&approved, "in the first\n");
    assert_eq!(sent(&server)[2]["content"], "deployed one\n[exit status 0]");
    assert_eq!(runs(folder.path()), "one\n");
    sound(folder.path());
}

#[test]
fn a_fork_with_its_pending_turn_is_decided_on_its_own() {
    for first in ["copy", "s"] {
        let replies = vec![
            call("c1", "one"),
            text("between"),
            text("first"),
            text("second"),
        ];
        let server = server(replies);
        let folder = prepared();
        let origin = signal_of(&ask(folder.path(), &server, &ASKED));
        let forked = run(
            folder.path(),
            ["sessions", "fork", "s", "copy", "--with-pending"],
        );
        assert_eq!(forked.status, 0, "{}", forked.stderr);
        let copied = forked
            .stdout
            .trim()
            .strip_prefix("copy: waits for ")
            .unwrap();
        assert!(
            copied.starts_with("approve-") && copied != origin,
            "{copied}"
        );
        let shown = show(folder.path(), "copy");
        assert_eq!(shown["suspended"][0]["signal_id"], copied);
        assert_eq!(shown["messages"], show(folder.path(), "s")["messages"]);
        // A message in the copy does not end the wait.
        done(
            &ask(folder.path(), &server, &["send", "copy", "well?"]),
            "between\n",
        );
        let waits = sent(&server)[2]["content"].as_str().unwrap().to_owned();
        assert!(waits.contains("waits for the approval"), "{waits}");

        let both = if first == "s" {
            [&*origin, copied]
        } else {
            [copied, &*origin]
        };
        for (signal, answer) in both.into_iter().zip(["first\n", "second\n"]) {
            let approve = ["signal", signal, "--approve"];
            done(&ask(folder.path(), &server, &approve), answer);
            let messages = sent(&server);
            let result = messages.as_array().unwrap().last().unwrap();
            assert_eq!(
                result["content"], "deployed one\n[exit status 0]",
                "{messages}"
            );
            // The same decision again is the same turn.
            done(&ask(folder.path(), &server, &approve), answer);
        }
        assert_eq!(runs(folder.path()), "one\none\n");
        for session in ["s", "copy"] {
            assert_eq!(show(folder.path(), session)["suspended"], json!([]));
        }
        sound(folder.path());
    }
}

/// A finished turn of two calls: message, answer, two calls, two results, answer.
fn finished(more: Vec<Reply>) -> (tempfile::TempDir, ModelServer) {
    let mut replies = vec![calls(), text("shipped")];
    replies.extend(more);
    let server = server(replies);
    let folder = prepared();
    done(&ask(folder.path(), &server, &SEND), "shipped\n");
    assert_eq!(runs(folder.path()), "one\ntwo\n");
    (folder, server)
}

fn steps(folder: &Path, session: &str) -> Vec<Value> {
    let shown = run(folder, ["sessions", "show", session, "--steps", "--json"]);
    assert_eq!(shown.status, 0, "{}", shown.stderr);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    shown["steps"].as_array().unwrap().clone()
}

fn kinds(steps: &[Value]) -> Vec<String> {
    let kinds = steps.iter();
    kinds
        .map(|step| format!("{} {}", step["step"], step["kind"].as_str().unwrap()))
        .collect()
}

fn rerun(folder: &Path, server: &ModelServer, more: &[&str]) -> Ran {
    let command = ["sessions", "rerun", "s", "--into", "again"];
    ask(folder, server, &[&command, more].concat())
}

#[test]
fn the_steps_of_a_turn_are_numbered_and_keep_their_numbers() {
    let (folder, server) = finished(vec![text("and more")]);
    let expected = [
        "1 message",
        "2 answer",
        "3 call",
        "4 call",
        "5 result",
        "6 result",
        "7 answer",
    ];
    let before = steps(folder.path(), "s");
    assert_eq!(kinds(&before), expected);
    assert_eq!(before[3]["call_id"], "c2");
    assert_eq!(before[3]["text"], "{\"arguments\":[\"two\"]}");
    assert_eq!(before[5]["text"], "deployed two\n[exit status 0]");
    assert_eq!(before[6]["turn"]["outcome"], "completed");
    assert!(before[0]["at"].as_u64() <= before[6]["at"].as_u64());
    let keyed = ["send", "--idempotency-key", "k-2", "s", "more"];
    done(&ask(folder.path(), &server, &keyed), "and more\n");
    let after = steps(folder.path(), "s");
    assert_eq!(after[..7], before[..]);
    assert_eq!(after[7]["turn"]["key"], "k-2");
    let text = run(folder.path(), ["sessions", "show", "s", "--steps"]).stdout;
    assert!(text.contains("── turn 2: completed, "), "{text}");
    assert!(text.contains(", key k-2\n   8 message    more\n"), "{text}");
}

#[test]
fn the_steps_of_a_running_turn_have_the_numbers_of_its_history() {
    let server = server(vec![calls(), text("shipped")]);
    let folder = prepared();
    let slow = "echo $1 >> runs\n[ $1 != two ] || [ -e go ] || sleep 30\necho deployed $1\n";
    std::fs::write(folder.path().join("deploy.sh"), slow).unwrap();
    let mut child = crate::program::logue(folder.path())
        .env("OPENAI_BASE_URL", server.base_url())
        .args(SEND)
        .spawn()
        .unwrap();
    let runs = folder.path().join("runs");
    crate::waiting::wait_until(
        || "the second call did not start".to_owned(),
        || std::fs::read_to_string(&runs).is_ok_and(|runs| runs.contains("two")),
    );
    child.kill().unwrap();
    child.wait().unwrap();
    let running = steps(folder.path(), "s");
    let expected = ["1 message", "2 answer", "3 call", "4 call", "5 result"];
    assert_eq!(kinds(&running), expected);
    let states: Vec<_> = running.iter().map(|step| step["state"].clone()).collect();
    assert_eq!(states, ["done", "done", "done", "running", "done"]);
    assert_eq!(running[4]["turn"]["outcome"], Value::Null);
    let early = rerun(folder.path(), &server, &["--step", "5"]);
    assert_eq!(early.status, 7, "{}", early.stderr);
    done(
        &ask(folder.path(), &server, &["sessions", "retry", "s"]),
        "shipped\n",
    );
    let ended = steps(folder.path(), "s");
    assert_eq!(ended[5]["state"], "cancelled");
    for (one, other) in running.iter().zip(&ended) {
        for key in ["step", "kind", "text", "call_id"] {
            assert_eq!(one[key], other[key], "{one} {other}");
        }
    }
}

#[test]
fn a_rerun_from_an_edited_call_runs_it_and_no_earlier_one() {
    let (folder, server) = finished(vec![text("again")]);
    let before = show(folder.path(), "s")["messages"].clone();
    std::fs::write(
        folder.path().join("a.json"),
        "{\"arguments\":[\"three\"]}\n",
    )
    .unwrap();
    let edited = rerun(folder.path(), &server, &["--step", "4", "--edit", "a.json"]);
    done(&edited, "again\n");
    assert!(
        edited.stderr.contains("new session: again"),
        "{}",
        edited.stderr
    );
    assert_eq!(runs(folder.path()), "one\ntwo\nthree\n");
    let messages = sent(&server);
    assert_eq!(
        roles(&messages),
        ["user", "assistant", "tool", "tool"],
        "{messages}"
    );
    let arguments = &messages[1]["tool_calls"][1]["function"]["arguments"];
    assert_eq!(arguments, "{\"arguments\":[\"three\"]}", "{messages}");
    assert_eq!(messages[2]["content"], "deployed one\n[exit status 0]");
    assert_eq!(messages[3]["content"], "deployed three\n[exit status 0]");
    assert_eq!(show(folder.path(), "s")["messages"], before);
    assert_eq!(
        show(folder.path(), "again")["messages"]
            .as_array()
            .unwrap()
            .len(),
        5
    );
    sound(folder.path());
}

#[test]
fn a_rerun_from_a_result_runs_only_the_later_calls() {
    let (folder, server) = finished(vec![text("again"), text("and again")]);
    done(&rerun(folder.path(), &server, &["--step", "5"]), "again\n");
    assert_eq!(runs(folder.path()), "one\ntwo\ntwo\n");
    let messages = sent(&server);
    assert_eq!(
        roles(&messages),
        ["user", "assistant", "tool", "tool"],
        "{messages}"
    );
    std::fs::write(folder.path().join("r"), "it failed").unwrap();
    let generated = [
        "sessions", "rerun", "s", "--step", "6", "--edit", "r", "--json",
    ];
    let ran = ask(folder.path(), &server, &generated);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let created = events(&ran.stdout);
    let created = created.iter().find(|one| one["event"] == "session.created");
    let id = created.unwrap()["session_id"].as_str().unwrap().to_owned();
    assert!(id.starts_with("s-"), "{id}");
    assert_eq!(runs(folder.path()), "one\ntwo\ntwo\n");
    assert_eq!(sent(&server)[3]["content"], "it failed");
    assert_eq!(
        show(folder.path(), &id)["messages"][3]["content"],
        "it failed"
    );
}

#[test]
fn a_rerun_from_a_message_or_an_answer_sends_its_new_text() {
    let (folder, server) = finished(vec![text("other")]);
    std::fs::write(folder.path().join("m"), "ship nothing\n").unwrap();
    done(
        &rerun(folder.path(), &server, &["--step", "1", "--edit", "m"]),
        "other\n",
    );
    let messages = sent(&server);
    assert_eq!(messages[0]["content"], "ship nothing", "{messages}");
    assert_eq!(roles(&messages), ["user"]);
    // The last step ends the turn: it can only be changed.
    let last = ["sessions", "rerun", "s", "--into", "end", "--step", "7"];
    let refused = ask(folder.path(), &server, &last);
    assert_eq!(refused.status, 2, "{}", refused.stderr);
    assert_eq!(run(folder.path(), ["sessions", "show", "end"]).status, 3);
    done(
        &ask(
            folder.path(),
            &server,
            &[&last[..], &["--edit", "m"]].concat(),
        ),
        "",
    );
    assert_eq!(
        show(folder.path(), "end")["messages"][4]["content"],
        "ship nothing"
    );
    assert_eq!(server.received().len(), 3);
    assert_eq!(runs(folder.path()), "one\ntwo\n");
}

#[test]
fn a_rerun_asks_about_its_calls_as_the_session_does() {
    let server = server(vec![call("c1", "one"), text("denied"), text("allowed")]);
    let folder = prepared();
    let signal = signal_of(&ask(folder.path(), &server, &ASKED));
    done(
        &ask(folder.path(), &server, &["signal", &signal, "--deny"]),
        "denied\n",
    );
    let list = steps(folder.path(), "s");
    let expected = [
        "1 message",
        "2 answer",
        "3 call",
        "4 answer",
        "5 suspension",
        "6 result",
        "7 answer",
    ];
    assert_eq!(kinds(&list), expected);
    assert_eq!(list[4]["name"], signal.as_str());
    let again = signal_of(&rerun(folder.path(), &server, &["--step", "5"]));
    assert_eq!(runs(folder.path()), "");
    done(
        &ask(folder.path(), &server, &["signal", &again, "--approve"]),
        "allowed\n",
    );
    assert_eq!(runs(folder.path()), "one\n");
    let first = ask(folder.path(), &server, &["signal", &signal, "--deny"]);
    done(&first, "denied\n");
}

#[test]
fn a_rerun_whose_process_dies_repeats_no_call() {
    let (folder, server) = finished(vec![text("again")]);
    std::fs::remove_file(folder.path().join("runs")).unwrap();
    let slow = "echo $1 >> runs\n[ -e go ] || sleep 30\n";
    std::fs::write(folder.path().join("deploy.sh"), slow).unwrap();
    let command = ["sessions", "rerun", "s", "--into", "again", "--step", "3"];
    kill_in_the_tool(folder.path(), &server, &command);
    std::fs::write(folder.path().join("go"), "").unwrap();
    done(
        &ask(folder.path(), &server, &["sessions", "retry", "again"]),
        "again\n",
    );
    assert_eq!(runs(folder.path()), "one\ntwo\n");
    let messages = sent(&server);
    let first = messages[2]["content"].as_str().unwrap();
    assert!(first.starts_with("E-TOOL-CANCELLED"), "{messages}");
    assert_eq!(messages[3]["content"], "[exit status 0]", "{messages}");
    sound(folder.path());
}

#[test]
fn a_fork_ends_at_a_step() {
    let (folder, server) = finished(vec![text("copied")]);
    let forked = run(
        folder.path(),
        ["sessions", "fork", "s", "copy", "--step", "5"],
    );
    assert_eq!(forked.status, 0, "{}", forked.stderr);
    done(
        &ask(folder.path(), &server, &["send", "copy", "go on"]),
        "copied\n",
    );
    let messages = sent(&server);
    assert_eq!(
        roles(&messages),
        ["user", "assistant", "tool", "tool", "user"]
    );
    assert_eq!(messages[2]["content"], "deployed one\n[exit status 0]");
    let second = messages[3]["content"].as_str().unwrap();
    assert!(second.starts_with("E-TOOL-CANCELLED"), "{messages}");
    assert_eq!(runs(folder.path()), "one\ntwo\n");
    let beyond = run(
        folder.path(),
        ["sessions", "fork", "s", "more", "--step", "8"],
    );
    assert_eq!(beyond.status, 2, "{}", beyond.stderr);
    assert!(beyond.stderr.contains("--steps"), "{}", beyond.stderr);
}
