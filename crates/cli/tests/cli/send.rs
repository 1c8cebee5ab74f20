//! Sessions in a file, with several processes that send.

use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, events, folder, logue, run};
use crate::waiting::{wait_for_file, wait_until};

const ECHO: &str = "<config model=\"echo:\"/>\n<system>Say it again.</system>\n";

/// The session as `sessions show --json` prints it.
pub(crate) fn show(folder: &Path, session: &str) -> Value {
    let ran = run(folder, ["sessions", "show", session, "--json"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

fn spawn(folder: &Path, server: Option<&ModelServer>, arguments: &[&str]) -> Child {
    let mut command = logue(folder);
    if let Some(server) = server {
        command.env("OPENAI_BASE_URL", server.base_url());
    }
    command
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn a_session_remembers_who_answers_and_what_was_said() {
    let folder = folder(&[("echo.md", ECHO)]);
    let first = run(
        folder.path(),
        ["send", "--agent", "echo.md", "s", "Hello", "there"],
    );
    assert_eq!(
        (first.status, first.stdout.as_str()),
        (0, "Hello there\n"),
        "{}",
        first.stderr
    );
    let second = run(folder.path(), ["send", "s", "again", "--json"]);
    let reported = events(&second.stdout);
    let last = reported.last().unwrap();
    assert_eq!(last["event"], "turn.completed");
    assert_eq!(
        last["replies"],
        json!([{"role": "assistant", "content": "again"}])
    );
    assert!(
        reported
            .iter()
            .any(|event| event["event"] == "response.delta")
    );
    // What the prompt says is no part of the session.
    let shown = show(folder.path(), "s");
    let texts: Vec<&str> = shown["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["Hello there", "Hello there", "again", "again"]);
}

#[test]
fn each_request_begins_with_the_prompt() {
    let server =
        ModelServer::start(vec![Reply::Answer(Answer::text("yes"))], Delivery::Whole).unwrap();
    let prompt = "<config model=\"m\"/>\n<system>Be brief.</system>\n<user>2+2?</user>\n<assistant>4</assistant>\n";
    let folder = folder(&[("p.md", prompt)]);
    for message in ["one", "two"] {
        let child = spawn(
            folder.path(),
            Some(&server),
            &["send", "--agent", "p.md", "s", message],
        );
        let ran = Ran::from(child.wait_with_output().unwrap());
        assert_eq!(
            (ran.status, ran.stdout.as_str()),
            (0, "yes\n"),
            "{}",
            ran.stderr
        );
    }
    let requests = server.received();
    let messages = requests.last().unwrap().body["messages"].clone();
    let texts: Vec<(&str, &str)> = messages
        .as_array()
        .unwrap()
        .iter()
        .map(|m| (m["role"].as_str().unwrap(), m["content"].as_str().unwrap()))
        .collect();
    let expected = [
        ("system", "Be brief."),
        ("user", "2+2?"),
        ("assistant", "4"),
        ("user", "one"),
        ("assistant", "yes"),
        ("user", "two"),
    ];
    assert_eq!(texts, expected);
}

#[test]
fn what_is_wrong_is_said_before_anything_is_stored() {
    let folder = folder(&[("echo.md", ECHO)]);
    let nobody = run(folder.path(), ["send", "s", "hello"]);
    assert_eq!(nobody.status, 3);
    assert!(
        nobody.stderr.contains("error[agent_not_configured]"),
        "{}",
        nobody.stderr
    );
    let nameless = run(folder.path(), ["send", "--agent", "echo.md", "", "hello"]);
    assert_eq!(nameless.status, 2);
    assert!(
        nameless
            .stderr
            .contains("error[usage]: the session id is empty"),
        "{}",
        nameless.stderr
    );
    let empty = run(folder.path(), ["send", "--agent", "echo.md", "s", " "]);
    assert_eq!(empty.status, 3);
    assert!(
        empty.stderr.contains("chat_message_shape_invalid"),
        "{}",
        empty.stderr
    );
    let address = run(
        folder.path(),
        ["send", "--store", "mysql:x", "--agent", "echo.md", "s", "x"],
    );
    assert_eq!(address.status, 3, "{}", address.stderr);
    let listed = run(folder.path(), ["sessions", "list", "--json"]);
    assert_eq!(listed.stdout, "");
}

#[test]
fn processes_that_send_to_one_session_lose_and_mix_nothing() {
    let folder = folder(&[("echo.md", ECHO)]);
    let begun = run(folder.path(), ["send", "--agent", "echo.md", "s", "begin"]);
    assert_eq!(begun.status, 0, "{}", begun.stderr);
    std::thread::scope(|scope| {
        for sender in 0..4 {
            let folder = folder.path();
            scope.spawn(move || {
                for number in 0..10 {
                    let message = format!("{sender}-{number}");
                    let ran = run(folder, ["send", "s", &message]);
                    assert_eq!(
                        (ran.status, ran.stdout),
                        (0, format!("{message}\n")),
                        "{}",
                        ran.stderr
                    );
                }
            });
        }
    });
    let shown = show(folder.path(), "s");
    let messages = shown["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 2 * 41);
    let mut next = [0; 4];
    for turn in messages.chunks(2).skip(1) {
        let text = turn[0]["content"].as_str().unwrap();
        assert_eq!(
            (turn[0]["role"].as_str(), turn[1]["role"].as_str()),
            (Some("user"), Some("assistant"))
        );
        assert_eq!(turn[1]["content"], text);
        let (sender, number) = text.split_once('-').unwrap();
        let sender: usize = sender.parse().unwrap();
        assert_eq!(
            number,
            next[sender].to_string(),
            "the order of one sender is kept"
        );
        next[sender] += 1;
    }
    let verified = run(folder.path(), ["sessions", "verify"]);
    assert_eq!(verified.status, 0, "{}", verified.stdout);
}

#[test]
fn a_message_with_a_key_is_one_turn_however_often_it_is_sent() {
    let folder = folder(&[("echo.md", ECHO)]);
    let arguments = [
        "send",
        "--agent",
        "echo.md",
        "--idempotency-key",
        "k",
        "s",
        "once",
    ];
    let children: Vec<Child> = (0..4)
        .map(|_| spawn(folder.path(), None, &arguments))
        .collect();
    for child in children {
        let ran = Ran::from(child.wait_with_output().unwrap());
        assert_eq!(
            (ran.status, ran.stdout.as_str()),
            (0, "once\n"),
            "{}",
            ran.stderr
        );
    }
    let later = run(
        folder.path(),
        ["send", "--idempotency-key", "k", "s", "other words"],
    );
    assert_eq!((later.status, later.stdout.as_str()), (3, ""));
    assert_eq!(
        show(folder.path(), "s")["messages"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn a_busy_session_can_refuse() {
    let call = Answer::text("").with_call("c1", "slow", "{\"arguments\":[]}");
    let replies = vec![Reply::Answer(call), Reply::Answer(Answer::text("done"))];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let prompt = "<config model=\"m\"/>\n<tool name=\"slow\" command=\"sh slow.sh\"/>\n";
    let folder = folder(&[
        ("p.md", prompt),
        (
            "slow.sh",
            "touch began\nuntil test -e go; do sleep 0.05; done\n",
        ),
    ]);
    let first = spawn(
        folder.path(),
        Some(&server),
        &["send", "--agent", "p.md", "s", "first"],
    );
    wait_for_file(&folder.path().join("began"));
    let child = spawn(
        folder.path(),
        Some(&server),
        &["send", "--busy", "reject", "s", "second"],
    );
    let second = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(second.status, 7, "{}", second.stderr);
    assert!(
        second.stderr.contains("error[session_busy]"),
        "{}",
        second.stderr
    );
    std::fs::write(folder.path().join("go"), "").unwrap();
    let first = Ran::from(first.wait_with_output().unwrap());
    assert_eq!(
        (first.status, first.stdout.as_str()),
        (0, "done\n"),
        "{}",
        first.stderr
    );
    let history = show(folder.path(), "s").to_string();
    assert!(!history.contains("second"), "{history}");
}

#[test]
fn a_killed_turn_is_put_in_order_by_the_next_and_its_tool_runs_once() {
    let call = Answer::text("I try.").with_call("c1", "slow", "{\"arguments\":[]}");
    let replies = vec![Reply::Answer(call), Reply::Answer(Answer::text("fine"))];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let prompt = "<config model=\"m\"/>\n<tool name=\"slow\" command=\"sh slow.sh\"/>\n";
    let folder = folder(&[
        ("p.md", prompt),
        ("slow.sh", "echo ran >> runs\nsleep 20\n"),
    ]);
    let mut first = spawn(
        folder.path(),
        Some(&server),
        &["send", "--agent", "p.md", "s", "first"],
    );
    wait_for_file(&folder.path().join("runs"));
    first.kill().unwrap();
    first.wait().unwrap();
    let child = spawn(folder.path(), Some(&server), &["send", "s", "second"]);
    let second = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(
        (second.status, second.stdout.as_str()),
        (0, "fine\n"),
        "{}",
        second.stderr
    );
    let shown = show(folder.path(), "s");
    let roles: Vec<&str> = shown["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    let expected = [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
    ];
    assert_eq!(roles, expected, "{shown}");
    assert!(
        shown["messages"][2]["content"]
            .as_str()
            .unwrap()
            .starts_with("E-TOOL-CANCELLED")
    );
    assert_eq!(shown["failed"], json!([]));
    assert_eq!(
        std::fs::read_to_string(folder.path().join("runs")).unwrap(),
        "ran\n"
    );
}

#[test]
fn a_polite_signal_ends_the_process_at_once() {
    let server = ModelServer::start(vec![Reply::Silent], Delivery::Whole).unwrap();
    let folder = folder(&[("p.md", "<config model=\"m\"/>\n")]);
    let child = spawn(
        folder.path(),
        Some(&server),
        &["send", "--agent", "p.md", "s", "first"],
    );
    wait_until(
        || "the model was not asked".to_owned(),
        || !server.received().is_empty(),
    );
    let pid = child.id().to_string();
    let killed = std::process::Command::new("kill")
        .args(["-TERM", &pid])
        .status();
    assert!(killed.unwrap().success());
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (143, ""),
        "{}",
        ran.stderr
    );
    let shown = show(folder.path(), "s");
    assert_eq!(shown["inbox"][0]["work"]["message"]["content"], "first");
}

#[test]
fn a_message_can_end_the_turn_that_runs() {
    for (policy, kept) in [("interrupt", 5), ("rollback", 5)] {
        let call = Answer::text("I try.").with_call("c1", "slow", "{\"arguments\":[]}");
        let replies = vec![Reply::Answer(call), Reply::Answer(Answer::text("stopped"))];
        let server = ModelServer::start(replies, Delivery::Whole).unwrap();
        let prompt = "<config model=\"m\"/>\n<tool name=\"slow\" command=\"sh slow.sh\"/>\n";
        let folder = folder(&[("p.md", prompt), ("slow.sh", "touch began\nsleep 60\n")]);
        let first = spawn(
            folder.path(),
            Some(&server),
            &["send", "--agent", "p.md", "s", "first"],
        );
        wait_for_file(&folder.path().join("began"));
        let second = spawn(
            folder.path(),
            Some(&server),
            &["send", "--busy", policy, "s", "second"],
        );
        let second = Ran::from(second.wait_with_output().unwrap());
        assert_eq!(
            (second.status, second.stdout.as_str()),
            (0, "stopped\n"),
            "{policy}: {}",
            second.stderr
        );
        let first = Ran::from(first.wait_with_output().unwrap());
        assert_eq!(first.status, 3, "{policy}: {}", first.stderr);
        assert!(
            first.stderr.contains("error[turn_cancelled]"),
            "{}",
            first.stderr
        );
        let shown = show(folder.path(), "s");
        assert_eq!(
            shown["messages"].as_array().unwrap().len(),
            kept,
            "{policy}: {shown}"
        );
    }
}

#[test]
fn an_empty_idempotency_key_is_wrong_usage() {
    let folder = folder(&[("p.md", "<config model=\"echo:\"/>\n")]);
    let send = ["send", "--agent", "p.md", "--idempotency-key", "", "s", "x"];
    let ran = run(folder.path(), send);
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    let shown = run(folder.path(), ["sessions", "show", "s"]);
    assert!(
        shown.stderr.contains("session_not_found"),
        "{}",
        shown.stderr
    );
}
