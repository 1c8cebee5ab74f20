//! What is stored, listed, copied, removed and checked.

use std::process::Stdio;

use serde_json::Value;

use crate::program::{Ran, events, folder, logue, run};
use crate::send::show;

const ECHO: &str = "<config model=\"echo:\"/>\n";

fn two_turns() -> tempfile::TempDir {
    let folder = folder(&[("echo.md", ECHO)]);
    for message in ["one", "two"] {
        let ran = run(folder.path(), ["send", "--agent", "echo.md", "s", message]);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
    }
    folder
}

fn texts(shown: &Value) -> Vec<String> {
    let messages = shown["messages"].as_array().unwrap().iter();
    messages
        .map(|message| message["content"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn sessions_are_listed_and_shown() {
    let folder = two_turns();
    let listed = run(folder.path(), ["sessions", "list"]);
    assert_eq!(listed.status, 0, "{}", listed.stderr);
    let lines: Vec<&str> = listed.stdout.lines().collect();
    assert!(
        lines[0].starts_with("SESSION  MESSAGES  CHANGED"),
        "{}",
        listed.stdout
    );
    assert!(lines[1].starts_with("s        4 "), "{}", listed.stdout);
    assert!(lines[1].ends_with("echo.md"), "{}", listed.stdout);
    let json = events(&run(folder.path(), ["sessions", "list", "--json", "x"]).stdout);
    assert_eq!(json, Vec::<Value>::new());
    let shown = run(folder.path(), ["sessions", "show", "s"]);
    assert_eq!(
        shown.stdout,
        "── user\none\n\n── assistant\none\n\n── user\ntwo\n\n── assistant\ntwo\n\n"
    );
    let none = run(folder.path(), ["sessions", "show", "none"]);
    assert_eq!(none.status, 3);
    assert!(
        none.stderr.contains("error[session_not_found]"),
        "{}",
        none.stderr
    );
}

#[test]
fn outcomes_are_followed_from_a_cursor() {
    let folder = two_turns();
    let all = events(&run(folder.path(), ["sessions", "outcomes", "s", "--json"]).stdout);
    let cursors: Vec<u64> = all
        .iter()
        .map(|line| line["cursor"].as_u64().unwrap())
        .collect();
    assert_eq!(cursors, [1, 2]);
    assert_eq!(all[1]["messages"][0]["content"], "two");
    let arguments = ["sessions", "outcomes", "s", "--json", "--after", "1"];
    assert_eq!(events(&run(folder.path(), arguments).stdout).len(), 1);

    let mut follower = logue(folder.path())
        .args([
            "sessions", "outcomes", "s", "--follow", "--json", "--after", "2",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let sent = run(folder.path(), ["send", "s", "three"]);
    assert_eq!(sent.status, 0, "{}", sent.stderr);
    let mut line = String::new();
    let mut out = std::io::BufReader::new(follower.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    follower.kill().unwrap();
    follower.wait().unwrap();
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (&line["cursor"], &line["messages"][0]["content"]),
        (&Value::from(3), &Value::from("three"))
    );
}

#[test]
fn a_fork_goes_its_own_way() {
    let folder = two_turns();
    let forked = run(
        folder.path(),
        ["sessions", "fork", "s", "t", "--messages", "2"],
    );
    assert_eq!(forked.status, 0, "{}", forked.stderr);
    // The agent comes along.
    let sent = run(folder.path(), ["send", "t", "other"]);
    assert_eq!(
        (sent.status, sent.stdout.as_str()),
        (0, "other\n"),
        "{}",
        sent.stderr
    );
    assert_eq!(
        texts(&show(folder.path(), "t")),
        ["one", "one", "other", "other"]
    );
    assert_eq!(texts(&show(folder.path(), "s")).len(), 4);
    let again = run(folder.path(), ["sessions", "fork", "s", "t"]);
    assert_eq!(again.status, 3);
    assert!(
        again.stderr.contains("error[session_exists]"),
        "{}",
        again.stderr
    );
    let long = run(
        folder.path(),
        ["sessions", "fork", "s", "u", "--messages", "9"],
    );
    assert_eq!(long.status, 3, "{}", long.stderr);
}

#[test]
fn a_session_comes_back_from_every_form() {
    let folder = two_turns();
    let messages = show(folder.path(), "s")["messages"].clone();
    for form in ["json", "openai", "ocml2.2", "chatmd"] {
        let out = run(folder.path(), ["sessions", "export", "s", "--to", form]);
        assert_eq!(out.status, 0, "{form}: {}", out.stderr);
        let file = format!("out-{form}");
        std::fs::write(folder.path().join(&file), &out.stdout).unwrap();
        let arguments = [
            "sessions", "import", &file, form, "--from", form, "--agent", "echo.md",
        ];
        let read = run(folder.path(), arguments);
        assert_eq!(read.status, 0, "{form}: {}", read.stderr);
        assert_eq!(show(folder.path(), form)["messages"], messages, "{form}");
        let sent = run(folder.path(), ["send", form, "on"]);
        assert_eq!(
            (sent.status, sent.stdout.as_str()),
            (0, "on\n"),
            "{}",
            sent.stderr
        );
    }
    let twice = run(folder.path(), ["sessions", "import", "out-json", "json"]);
    assert_eq!(twice.status, 3, "{}", twice.stderr);
    let verified = run(folder.path(), ["sessions", "verify", "--json"]);
    let found: Value = serde_json::from_str(&verified.stdout).unwrap();
    assert_eq!(
        (verified.status, &found["sessions"]),
        (0, &Value::from(5)),
        "{found}"
    );
}

#[test]
fn removing_needs_a_word() {
    let folder = two_turns();
    let unsaid = run(folder.path(), ["sessions", "rm", "s"]);
    assert_eq!(unsaid.status, 2, "{}", unsaid.stderr);
    assert_eq!(texts(&show(folder.path(), "s")).len(), 4);
    let removed = run(folder.path(), ["sessions", "rm", "--yes", "s"]);
    assert_eq!(removed.status, 0, "{}", removed.stderr);
    assert_eq!(run(folder.path(), ["sessions", "show", "s"]).status, 3);
}

#[test]
fn the_store_is_named_by_flag_variable_and_file() {
    let folder = folder(&[
        ("echo.md", ECHO),
        ("logue.toml", "[store]\nurl = \"sqlite:c.db\"\n"),
    ]);
    let send = |variable: Option<&str>, flag: &[&str]| {
        let mut command = logue(folder.path());
        if let Some(url) = variable {
            command.env("LOGUE_STORE", url);
        }
        command
            .args(["send", "--agent", "echo.md", "s", "x"])
            .args(flag);
        let ran = Ran::from(command.output().unwrap());
        assert_eq!(ran.status, 0, "{}", ran.stderr);
    };
    send(None, &[]);
    assert!(folder.path().join("c.db").exists());
    send(Some("sqlite:v.db"), &[]);
    assert!(folder.path().join("v.db").exists());
    send(Some("sqlite:v.db"), &["--store", "sqlite:f.db"]);
    assert!(folder.path().join("f.db").exists());
}

#[test]
fn the_example_of_the_readme_answers() {
    let folder = folder(&[(
        "echo.md",
        include_str!("../../../../examples/echo/prompt.md"),
    )]);
    let ran = run(
        folder.path(),
        ["send", "--agent", "echo.md", "greeting", "Hello"],
    );
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "Hello\n"),
        "{}",
        ran.stderr
    );
}
