//! Trust and approval are about content: what was looked at is what runs.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, folder, logue, strict};

const DEPLOY: &str = "<config model=\"m\"/>\n<tool name=\"deploy\" command=\"sh deploy.sh\"/>\n";

/// A model that makes these calls, one per answer, and then says `done`.
fn model(calls: &[(&str, Value)]) -> ModelServer {
    let call = |(at, (name, arguments)): (usize, &(&str, Value))| {
        let id = format!("c{at}");
        Reply::Answer(Answer::text("").with_call(&id, *name, arguments.to_string()))
    };
    let calls = calls.iter().enumerate().map(call);
    let replies = calls.chain((0..9).map(|_| Reply::Answer(Answer::text("done"))));
    ModelServer::start(replies.collect(), Delivery::Whole).unwrap()
}

fn no_arguments() -> Value {
    json!({"arguments": []})
}

fn ran(mut command: Command, server: &ModelServer, arguments: &[&str]) -> Ran {
    command.env("OPENAI_BASE_URL", server.base_url());
    command.args(arguments).output().unwrap().into()
}

fn trust(folder: &Path, arguments: &[&str]) -> Ran {
    let mut command = strict(folder);
    let ran: Ran = command
        .arg("trust")
        .args(arguments)
        .output()
        .unwrap()
        .into();
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    ran
}

/// Whether the trusted prompt `p.md` runs `deploy`, which adds a line to `runs`.
fn deploys(folder: &Path) -> bool {
    let server = model(&[("deploy", no_arguments())]);
    let before = effects(folder);
    let arguments = ["run", "-o", "t.md", "p.md", "go"];
    let ran = ran(strict(folder), &server, &arguments);
    let has_run = effects(folder) != before;
    assert_eq!(ran.status, if has_run { 0 } else { 6 }, "{}", ran.stderr);
    drop(fs::remove_file(folder.join("t.md")));
    drop(fs::remove_dir_all(folder.join(".data/logue/sessions")));
    has_run
}

fn effects(folder: &Path) -> String {
    fs::read_to_string(folder.join("runs")).unwrap_or_default()
}

/// The results that the model received, joined.
fn results(server: &ModelServer) -> String {
    let requests = server.received();
    let messages = requests.last().unwrap().body["messages"].clone();
    let messages = messages.as_array().unwrap().clone();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    let results: Vec<String> = results
        .map(|message| message["content"].to_string())
        .collect();
    results.join("\n")
}

#[test]
fn a_changed_script_withdraws_trust_and_another_file_does_not() {
    let folder = folder(&[
        ("p.md", DEPLOY),
        ("deploy.sh", "echo ran >> runs\n"),
        ("notes.txt", "a"),
    ]);
    let folder = folder.path();
    let added = trust(folder, &["add", "p.md"]);
    assert!(
        added.stdout.contains("deploy.sh  sha256:"),
        "{}",
        added.stdout
    );
    assert!(deploys(folder));
    fs::write(folder.join("notes.txt"), "b").unwrap();
    fs::write(folder.join("new.sh"), "echo new\n").unwrap();
    assert!(deploys(folder), "another file is not covered");
    fs::write(folder.join("deploy.sh"), "echo Ran >> runs\n").unwrap();
    assert!(!deploys(folder), "the script is another one");
    let why = trust(folder, &["explain", "p.md"]);
    assert!(
        why.stdout.contains("not trusted") && why.stdout.contains("file changed: deploy.sh"),
        "{}",
        why.stdout
    );
    let why = trust(folder, &["explain", "--json", "p.md"]);
    let why: Value = serde_json::from_str(&why.stdout).unwrap();
    assert_eq!(
        (&why["trusted"], &why["reason"]),
        (&json!(false), &json!("changed"))
    );
    assert_eq!(why["files"][0]["state"], "changed", "{why}");
    let changes = json!([{
        "change": "file_changed",
        "path": "deploy.sh",
        "diff": ["@@ -1 +1 @@", "-echo ran >> runs", "+echo Ran >> runs"],
    }]);
    assert_eq!(why["changes"], changes);
    let again = trust(folder, &["add", "--json", "p.md"]);
    let again: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(again["changes"], changes);
    assert!(deploys(folder), "it was trusted again");
    let why = trust(folder, &["explain", "--json", "p.md"]);
    let why: Value = serde_json::from_str(&why.stdout).unwrap();
    assert_eq!(
        (&why["trusted"], &why["reason"]),
        (&json!(true), &json!("added"))
    );
    fs::remove_file(folder.join("deploy.sh")).unwrap();
    let why = trust(folder, &["explain", "p.md"]);
    assert!(
        why.stdout.contains("file removed: deploy.sh"),
        "{}",
        why.stdout
    );
}

#[test]
fn a_script_that_appears_withdraws_trust() {
    let folder = folder(&[("p.md", DEPLOY)]);
    trust(folder.path(), &["add", "p.md"]);
    fs::write(folder.path().join("deploy.sh"), "echo ran >> runs\n").unwrap();
    assert!(!deploys(folder.path()));
}

#[test]
fn built_in_tools_are_trusted_in_one_folder_only() {
    let prompt = "<config model=\"m\"/>\n<tool name=\"write_file\"/>\n";
    let folder = folder(&[("a/p.md", prompt), ("b/p.md", prompt)]);
    trust(folder.path(), &["add", "a/p.md"]);
    for (place, expected) in [("a", true), ("b", false)] {
        let server = model(&[("write_file", json!({"path": "x", "content": "1"}))]);
        let prompt = format!("{place}/p.md");
        let ran = ran(strict(folder.path()), &server, &["run", &prompt, "go"]);
        let is_written = folder.path().join(place).join("x").exists();
        assert_eq!(is_written, expected, "{place}: {}", ran.stderr);
        assert_eq!(ran.status, if expected { 0 } else { 6 }, "{}", ran.stderr);
    }
}

/// A turn that waits for a decision about `deploy`, and the signal that resumes it.
fn waiting(folder: &Path, server: &ModelServer, session: bool) -> String {
    let ask = ["--permission", "deploy=ask"];
    let arguments: &[&str] = if session {
        &["send", "--agent", "p.md", "s", "go"]
    } else {
        &["run", "p.md", "go"]
    };
    let arguments = [&arguments[..1], &ask, &arguments[1..]].concat();
    let ran = ran(logue(folder), server, &arguments);
    assert_eq!(ran.status, 6, "{}", ran.stderr);
    let mut lines = ran.stderr.lines();
    let line = lines.find(|line| line.contains("logue signal")).unwrap();
    line.split_whitespace().nth(2).unwrap().to_owned()
}

/// Waits for a decision, makes a change, approves, and returns the effects and the results.
fn changed_while_waiting(
    session: bool,
    arguments: Value,
    change: impl Fn(&Path),
) -> (String, String) {
    let folder = folder(&[
        ("p.md", DEPLOY),
        ("deploy.sh", "echo \"ran $1\" >> runs\n"),
        ("data.txt", "1"),
    ]);
    let server = model(&[("deploy", arguments)]);
    let signal = waiting(folder.path(), &server, session);
    change(folder.path());
    let ran = ran(
        logue(folder.path()),
        &server,
        &["signal", &signal, "--approve"],
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    (effects(folder.path()), results(&server))
}

#[test]
fn what_was_approved_is_what_runs() {
    type Edit = fn(&Path);
    let evil: Edit = |folder| fs::write(folder.join("deploy.sh"), "echo evil >> runs\n").unwrap();
    let declared: Edit = |folder| {
        fs::write(folder.join("evil.sh"), "echo evil >> runs\n").unwrap();
        let text = fs::read_to_string(folder.join("p.md")).unwrap();
        let text = text.replacen("sh deploy.sh", "sh evil.sh", 1);
        fs::write(folder.join("p.md"), text).unwrap();
    };
    let data: Edit = |folder| fs::write(folder.join("data.txt"), "2").unwrap();
    let gone: Edit = |folder| fs::remove_file(folder.join("deploy.sh")).unwrap();
    let nothing: Edit = |_| {};
    let other: Edit = |folder| fs::write(folder.join("notes.txt"), "2").unwrap();
    let table = [
        ("script", evil, false),
        ("declaration", declared, false),
        ("argument", data, false),
        ("removed", gone, false),
        ("nothing", nothing, true),
        ("other", other, true),
    ];
    for session in [false, true] {
        for (name, change, runs) in table {
            let arguments = json!({"arguments": ["data.txt"]});
            let (effects, results) = changed_while_waiting(session, arguments, change);
            let context = format!("{name}, session {session}: {effects} {results}");
            assert_eq!(
                effects,
                if runs { "ran data.txt\n" } else { "" },
                "{context}"
            );
            assert_eq!(results.contains("approval_stale"), !runs, "{context}");
        }
    }
}

#[test]
fn a_call_of_the_same_answer_cannot_change_what_was_approved() {
    // `deploy` loads its settings late, so that a concurrent call could replace them.
    let prompt = "<config model=\"m\"/>\n\
                  <tool name=\"deploy\" command=\"sh deploy.sh settings.sh\"/>\n\
                  <tool name=\"swap\" command=\"sh swap.sh\"/>\n";
    let deploy = "n=0\nwhile [ ! -e swapped ] && [ $n -lt 20 ]; do n=$((n+1)); sleep 0.05; done\n\
                  . ./settings.sh\n";
    let folder = folder(&[
        ("p.md", prompt),
        ("deploy.sh", deploy),
        ("settings.sh", "echo agreed >> runs\n"),
        (
            "swap.sh",
            "echo 'echo evil >> runs' > settings.sh\ntouch swapped\n",
        ),
    ]);
    let none = no_arguments().to_string();
    let both = Answer::text("")
        .with_call("c1", "deploy", none.clone())
        .with_call("c2", "swap", none);
    let replies = vec![Reply::Answer(both), Reply::Answer(Answer::text("done"))];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let signal = waiting(folder.path(), &server, false);
    let ran = ran(
        logue(folder.path()),
        &server,
        &["signal", &signal, "--approve"],
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(
        folder.path().join("swapped").exists(),
        "{}",
        results(&server)
    );
    assert_eq!(effects(folder.path()), "agreed\n");
}

#[test]
fn an_approval_binds_a_built_in_tool_too() {
    let prompt = "<config model=\"m\"/>\n<tool name=\"write_file\"/>\n";
    let folder = folder(&[("p.md", prompt)]);
    let server = model(&[("write_file", json!({"path": "x", "content": "1"}))]);
    let waits = ran(
        logue(folder.path()),
        &server,
        &["run", "--permission", "write_file=ask", "p.md", "go"],
    );
    let mut lines = waits.stderr.lines();
    let line = lines.find(|line| line.contains("logue signal")).unwrap();
    let signal = line.split_whitespace().nth(2).unwrap();
    fs::write(folder.path().join("x"), "mine").unwrap();
    ran(
        logue(folder.path()),
        &server,
        &["signal", signal, "--approve"],
    );
    assert_eq!(fs::read_to_string(folder.path().join("x")).unwrap(), "mine");
    assert!(
        results(&server).contains("approval_stale"),
        "{}",
        results(&server)
    );
}

/// The command of an MCP server that is this test program.
fn peer() -> String {
    let program = std::env::current_exe().unwrap();
    format!(
        "exec '{}' --exact mcp::peer --nocapture scenario=plain\n",
        program.display()
    )
}

#[test]
fn nothing_is_written_below_the_name_of_a_covered_file() {
    let prompt = "<config model=\"m\"/>\n<tool name=\"write_file\"/>\n\
                  <tool name=\"deploy\" command=\"sh later.sh\"/>\n";
    let paths = [
        "logue.toml/x",
        "Logue.toml/a/b",
        "later.sh/x",
        "p.md/x",
        "sub/y",
    ];
    let calls = paths.map(|path| ("write_file", json!({"path": path, "content": "x"})));
    let folder = folder(&[("p.md", prompt)]);
    let server = model(&calls);
    let ran = ran(logue(folder.path()), &server, &["run", "p.md", "go"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let names = fs::read_dir(folder.path()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    assert_eq!(names, ["p.md", "sub"], "{}", results(&server));
}

#[test]
fn tools_do_not_write_what_trust_covers() {
    let prompt = "<config model=\"m\"/>\n<tool name=\"write_file\"/>\n<tool name=\"apply_patch\"/>\n\
                  <tool name=\"deploy\" command=\"sh deploy.sh\"/>\n\
                  <tool name=\"late\" command=\"sh ./late.sh\"/>\n\
                  <tool name=\"ask\" agent=\"agents/a.md\" local/>\n<import src=\"more.chatmd\"/>\n\
                  <tool mcp_server=\"stdio:sh server.sh\"/>\n";
    let agent = "<config model=\"m\"/>\n<tool name=\"act\" command=\"sh act.sh\"/>\n";
    let peer = peer();
    let files = [
        ("p.md", prompt),
        ("deploy.sh", "echo ran >> runs\n"),
        ("server.sh", &peer),
        ("more.chatmd", "<tool name=\"x\" command=\"./x.sh\"/>\n"),
        ("x.sh", "#!/bin/sh\n"),
        ("agents/a.md", agent),
        ("agents/act.sh", "echo acted\n"),
    ];
    let folder = folder(&files);
    crate::mcp::readable_peer(folder.path(), "");
    trust(folder.path(), &["add", "p.md"]);
    let covered = [
        "server.sh",
        "deploy.sh",
        "more.chatmd",
        "x.sh",
        "agents/a.md",
        "agents/act.sh",
        "late.sh",
    ];
    let mut calls: Vec<(&str, Value)> = covered
        .iter()
        .map(|path| {
            (
                "write_file",
                json!({"path": path, "content": "touch evil\n"}),
            )
        })
        .collect();
    let patch = "*** Begin Patch\n*** Delete File: deploy.sh\n*** End Patch\n";
    calls.push(("apply_patch", json!({"patch": patch})));
    calls.push(("write_file", json!({"path": "free.txt", "content": "1"})));
    calls.push(("echo", json!({"text": "hi"})));
    calls.push(("late", no_arguments()));
    let server = model(&calls);
    let arguments = ["run", "-o", "t.md", "p.md", "go"];
    let ran = ran(strict(folder.path()), &server, &arguments);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    for (name, text) in &files[1..] {
        let now = fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(now, *text, "{name}");
    }
    assert!(!folder.path().join("late.sh").exists());
    assert!(!folder.path().join("evil").exists());
    assert!(folder.path().join("free.txt").exists());
    let results = results(&server);
    assert!(results.contains("you said"), "{results}");
    // Trust is as it was, because nothing that it covers was written.
    let why = trust(folder.path(), &["explain", "--json", "p.md"]);
    assert!(why.stdout.contains("\"trusted\":true"), "{}", why.stdout);
}

#[test]
fn nothing_is_inspected_by_running_it() {
    let prompt = "<config model=\"m\"/>\n<tool name=\"deploy\" command=\"sh mark.sh\"/>\n\
                  <tool mcp_server=\"stdio:sh mark.sh\"/>\n<user>Hi.</user>\n";
    let folder = folder(&[("p.md", prompt), ("mark.sh", "echo started >> marks\n")]);
    let marks = folder.path().join("marks");
    let inspections: [&[&str]; 11] = [
        &["mcp", "list", "p.md"],
        &["mcp", "list", "--json", "p.md"],
        &["check", "p.md"],
        &["view", "p.md"],
        &["convert", "p.md", "--to", "json"],
        &["fmt", "--check", "p.md"],
        &["tokens", "count", "p.md"],
        &["debug", "tree", "p.md"],
        &["trust", "explain", "p.md"],
        &["trust", "add", "p.md"],
        &["doctor"],
    ];
    for words in inspections {
        let ran: Ran = strict(folder.path()).args(words).output().unwrap().into();
        assert!(!marks.exists(), "{words:?}: {}", ran.stderr);
        if words[0] == "mcp" {
            assert_eq!(ran.status, 3, "{words:?}: {}", ran.stderr);
            assert!(
                ran.stderr.contains("error[E-MCP-SERVER-NOT-TRUSTED]")
                    && ran.stderr.contains("logue trust add p.md"),
                "{}",
                ran.stderr
            );
        }
    }
    // It is trusted now, and lists start the server.
    let mut command = strict(folder.path());
    command.args(["mcp", "list", "p.md"]).output().unwrap();
    assert!(marks.exists());
    trust(folder.path(), &["remove", "p.md"]);
    fs::remove_file(&marks).unwrap();
    let mut command = strict(folder.path());
    command.args(["mcp", "list", "--trust", "p.md"]);
    command.output().unwrap();
    assert!(marks.exists());
}

#[test]
fn what_cannot_be_hashed_is_not_trusted() {
    let prompt = "<config model=\"m\"/>\n<tool name=\"deploy\" command=\"sh deploy.sh big\"/>\n";
    let folder = folder(&[("p.md", prompt), ("deploy.sh", "echo ran >> runs\n")]);
    let big = fs::File::create(folder.path().join("big")).unwrap();
    big.set_len(64 * 1024 * 1024 + 1).unwrap();
    let mut command = strict(folder.path());
    let ran: Ran = command
        .args(["trust", "add", "p.md"])
        .output()
        .unwrap()
        .into();
    assert_eq!(ran.status, 3, "{}", ran.stdout);
    assert!(ran.stderr.contains("trust_not_coverable"), "{}", ran.stderr);
    assert!(!deploys(folder.path()));
    let why = trust(folder.path(), &["explain", "--json", "p.md"]);
    assert!(why.stdout.contains("not_coverable"), "{}", why.stdout);
    // A pipe is not a file to cover, and nothing waits for its other end.
    fs::remove_file(folder.path().join("big")).unwrap();
    let made = Command::new("mkfifo")
        .arg(folder.path().join("big"))
        .status();
    assert!(made.unwrap().success());
    trust(folder.path(), &["add", "p.md"]);
    assert!(deploys(folder.path()));
}

#[test]
fn entries_of_an_earlier_form_are_asked_about_again() {
    let folder = folder(&[("p.md", DEPLOY), ("deploy.sh", "echo ran >> runs\n")]);
    trust(folder.path(), &["add", "p.md"]);
    let file = folder.path().join(".data/logue/trust.json");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("\"version\": 2"), "{text}");
    fs::write(&file, text.replacen("\"version\": 2", "\"version\": 1", 1)).unwrap();
    assert!(!deploys(folder.path()));
    trust(folder.path(), &["add", "p.md"]);
    assert!(deploys(folder.path()));
}

#[test]
fn what_changed_in_a_script_is_shown_as_a_difference() {
    let first = "echo one\necho two\necho three\n";
    let folder = folder(&[("p.md", DEPLOY), ("deploy.sh", first)]);
    trust(folder.path(), &["add", "p.md"]);
    let evil = first.replace("two", "\u{1b}[2Jtwo; rm -rf /");
    fs::write(folder.path().join("deploy.sh"), evil).unwrap();
    let why = trust(folder.path(), &["explain", "p.md"]);
    let expected = "  ~ file changed: deploy.sh\n      @@ -1,3 +1,3 @@\n       echo one\n      -echo two\n      \
                    +echo \\u{1b}[2Jtwo; rm -rf /\n       echo three\n";
    assert!(why.stdout.contains(expected), "{}", why.stdout);
    let json = trust(folder.path(), &["explain", "--json", "p.md"]);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["changes"][0]["diff"][2], "-echo two");
    // A copy that was changed is not shown.
    let copies = folder.path().join(".data/logue/trust-files");
    for copy in fs::read_dir(&copies).unwrap() {
        let copy = copy.unwrap().path();
        assert_eq!(fs::read_to_string(&copy).unwrap(), first);
        let mode = std::os::unix::fs::PermissionsExt::mode(&copy.metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        fs::write(copy, "echo forged\n").unwrap();
    }
    let why = trust(folder.path(), &["explain", "p.md"]);
    assert!(!why.stdout.contains("forged"), "{}", why.stdout);
    // Copies go with the trust, and nothing else.
    fs::write(copies.join("notes"), "mine").unwrap();
    trust(folder.path(), &["remove", "p.md"]);
    assert_eq!(fs::read_dir(&copies).unwrap().count(), 1);
    // A link leads to files that are not copies.
    let other = folder.path().join("other");
    let digest = other.join("a".repeat(64));
    fs::create_dir(&other).unwrap();
    fs::write(&digest, "mine").unwrap();
    fs::remove_dir_all(&copies).unwrap();
    std::os::unix::fs::symlink(&other, &copies).unwrap();
    trust(folder.path(), &["add", "p.md"]);
    trust(folder.path(), &["remove", "p.md"]);
    assert_eq!(fs::read_dir(&other).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(&digest).unwrap(), "mine");
}
