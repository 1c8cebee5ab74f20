//! Damage to the stored sessions is found, shown with its remedy, and repaired.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testkit::{Answer, Delivery, Reply};

use crate::program::{Ran, contents, folder, logue, run};
use crate::resumed::{DEPLOY, call, prepared, runs, server, status, text};
use crate::send::show;
use crate::transcript::{say, serve};

/// The file of the sessions somewhere below a folder.
fn store_below(folder: &Path) -> Option<PathBuf> {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if let Some(found) = store_below(&path) {
                return Some(found);
            }
        } else if path.file_name().is_some_and(|name| name == "sessions.db") {
            return Some(path);
        }
    }
    None
}

/// Flips a bit in each copy of a text in a file.
fn flip(path: &Path, text: &str) {
    let mut content = fs::read(path).unwrap();
    let places: Vec<usize> = content
        .windows(text.len())
        .enumerate()
        .filter(|(_, part)| *part == text.as_bytes())
        .map(|(at, _)| at)
        .collect();
    assert!(!places.is_empty(), "{text} is not in the file");
    for at in places {
        content[at] ^= 1;
    }
    fs::write(path, content).unwrap();
}

#[test]
fn a_store_without_space_accepts_nothing_and_can_be_tried_again() {
    let folder = folder(&[("p.md", "<config model=\"echo:\"/>\n")]);
    let first = run(folder.path(), ["send", "--agent", "p.md", "s", "one"]);
    assert_eq!(first.status, 0, "{}", first.stderr);
    let mut shell = logue(folder.path());
    let program = shell.get_program().to_owned();
    let limited = "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\"";
    shell = sh_in(&shell);
    shell.args(["-c", limited]).arg(program).args(["send", "s"]);
    let full: Ran = shell.arg("x".repeat(40_000)).output().unwrap().into();
    assert_eq!(full.status, 4, "{}", full.stderr);
    assert!(
        full.stderr.contains("error[store_unavailable]"),
        "{}",
        full.stderr
    );
    let again = run(folder.path(), ["send", "s", "two"]);
    assert_eq!(
        (again.status, again.stdout.as_str()),
        (0, "two\n"),
        "{}",
        again.stderr
    );
}

/// A shell with the environment and folder of another command.
fn sh_in(command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.env_clear();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            shell.env(name, value);
        }
    }
    if let Some(folder) = command.get_current_dir() {
        shell.current_dir(folder);
    }
    shell
}

#[test]
fn a_flipped_bit_is_found_and_repaired() {
    let folder = folder(&[("p.md", "<config model=\"m\"/>\n")]);
    let server = serve(vec![
        Answer::text("The first answer."),
        Answer::text("The second answer."),
        Answer::text("The third answer."),
    ]);
    for message in ["one", "two"] {
        let sent = say(
            folder.path(),
            &server,
            &["send", "--agent", "p.md", "s", message],
        );
        assert_eq!(sent.status, 0, "{}", sent.stderr);
    }
    flip(&store_below(folder.path()).unwrap(), "The first answer.");

    let verified = run(folder.path(), ["sessions", "verify"]);
    assert_eq!(verified.status, 8, "{}", verified.stderr);
    assert_eq!(
        verified.stdout,
        "`s`: message 1: the checksum does not match the content\n\
         1 session, 4 messages: 1 fault; run `logue sessions repair`, or restore a backup\n"
    );
    let verified = run(folder.path(), ["sessions", "verify", "--json"]);
    let found: Value = serde_json::from_str(&verified.stdout).unwrap();
    assert_eq!(found["faults"][0]["session"], "s");
    assert_eq!(found["faults"][0]["position"], 1);

    // The model is not sent what nobody said.
    let refused = say(folder.path(), &server, &["send", "s", "refused"]);
    assert_eq!(refused.status, 5, "{}", refused.stderr);
    let words = [
        "error[store_corrupt]",
        "`s`",
        "message 1",
        "sessions repair",
    ];
    for part in words {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    assert_eq!(server.received().len(), 2);
    // What can be read is shown and exported, and the rest is marked.
    let shown = run(folder.path(), ["sessions", "show", "s"]);
    assert_eq!(shown.status, 8, "{}", shown.stderr);
    assert!(
        shown.stdout.contains("unreadable message"),
        "{}",
        shown.stdout
    );
    assert!(
        shown.stdout.contains("The second answer."),
        "{}",
        shown.stdout
    );
    let exported = run(folder.path(), ["sessions", "export", "s"]);
    assert_eq!(exported.status, 8, "{}", exported.stderr);
    assert!(
        exported.stderr.contains("message 1: error[store_corrupt]"),
        "{}",
        exported.stderr
    );
    let exported: Value = serde_json::from_str(&exported.stdout).unwrap();
    let content = &exported["messages"][1]["content"];
    assert_eq!(content, "(this message is damaged in the store)");
    assert_eq!(exported["messages"][3]["content"], "The second answer.");

    let repaired = run(folder.path(), ["sessions", "repair"]);
    assert_eq!(
        repaired.status, 0,
        "{} {}",
        repaired.stdout, repaired.stderr
    );
    assert!(
        repaired
            .stdout
            .ends_with("1 record in quarantine, 0 faults left\n"),
        "{}",
        repaired.stdout
    );
    let verified = run(folder.path(), ["sessions", "verify"]);
    assert_eq!(verified.status, 0, "{}", verified.stdout);

    // The next turn sends what is sound, and says what is not.
    let sent = say(folder.path(), &server, &["send", "s", "three"]);
    assert_eq!(sent.status, 0, "{}", sent.stderr);
    let request = format!("{:?}", server.received().pop().unwrap());
    assert!(request.contains("in quarantine"), "{request}");
    assert!(request.contains("The second answer."), "{request}");
    assert!(!request.contains("first answer"), "{request}");
}

#[test]
fn a_page_that_cannot_be_read_is_a_fault_and_the_rest_is_checked() {
    let folder = folder(&[("p.md", "<config model=\"echo:\"/>\n")]);
    let long = "a long message ".repeat(100);
    for session in ["s", "s", "s", "s", "t"] {
        let message = if session == "s" { &long } else { "short" };
        let sent = run(folder.path(), ["send", "--agent", "p.md", session, message]);
        assert_eq!(sent.status, 0, "{}", sent.stderr);
    }
    let store = store_below(folder.path()).unwrap();
    let whole = fs::read(&store).unwrap();
    let has_text = |page: &&[u8]| String::from_utf8_lossy(page).matches("long").count() > 50;
    let mut found = 0;
    for (page, _) in whole
        .chunks(2048)
        .enumerate()
        .filter(|(_, page)| has_text(page))
    {
        let mut broken = whole.clone();
        broken[page * 2048..(page + 1) * 2048].fill(0);
        fs::write(&store, broken).unwrap();
        let verified = run(folder.path(), ["sessions", "verify"]);
        // A page that is free has copies of removed rows.
        if verified.status == 0 {
            continue;
        }
        assert_eq!(
            verified.status, 8,
            "{} {}",
            verified.stdout, verified.stderr
        );
        assert!(
            verified.stdout.contains("2 sessions, "),
            "{}",
            verified.stdout
        );
        let text = &verified.stdout;
        assert!(text.contains("sessions export"), "{text}");
        assert!(!text.contains("sessions repair"), "{text}");
        found += usize::from(
            verified.stdout.contains("`s`: message") && !verified.stdout.contains("`t`: "),
        );
        // A repair would take the rows of the page for lost ones, so it says that it cannot.
        let before = fs::read(&store).unwrap();
        let repaired = run(folder.path(), ["sessions", "repair"]);
        assert_eq!(repaired.status, 8, "{}", repaired.stderr);
        let text = &repaired.stdout;
        assert!(text.contains("this cannot be repaired"), "{text}");
        assert!(text.contains("sessions restore"), "{text}");
        assert_eq!(fs::read(&store).unwrap(), before);
    }
    assert!(found > 0);
}

#[test]
fn a_damaged_call_is_replaced_so_that_its_session_goes_on() {
    let prompt = "<config model=\"m\"/>\n<tool name=\"read_file\"/>\n";
    let folder = folder(&[("p.md", prompt), ("a.txt", "content\n")]);
    let server = serve(vec![
        Answer::text("I look.").with_call("c1", "read_file", r#"{"file":"a.txt"}"#),
        Answer::text("It is there."),
        Answer::text("And on."),
    ]);
    let sent = say(
        folder.path(),
        &server,
        &["send", "--agent", "p.md", "s", "Look."],
    );
    assert_eq!(sent.status, 0, "{}", sent.stderr);
    flip(&store_below(folder.path()).unwrap(), "\"tool_calls\"");
    let verified = run(folder.path(), ["sessions", "verify"]);
    assert_eq!(verified.status, 8, "{}", verified.stdout);
    let repaired = run(folder.path(), ["sessions", "repair"]);
    assert_eq!(repaired.status, 0, "{}", repaired.stdout);
    let verified = run(folder.path(), ["sessions", "verify"]);
    assert_eq!(verified.status, 0, "{}", verified.stdout);
    let sent = say(folder.path(), &server, &["send", "s", "on"]);
    assert_eq!(
        (sent.status, sent.stdout.as_str()),
        (0, "And on.\n"),
        "{}",
        sent.stderr
    );
}

#[test]
fn a_read_only_copy_is_shown_exported_verified_and_listed() {
    let echo = "<config model=\"echo:\"/>\n";
    let folder = folder(&[("p.md", echo), ("away.md", "<config model=\"m\"/>\n")]);
    let sent = run(folder.path(), ["send", "--agent", "p.md", "s", "hello"]);
    assert_eq!(sent.status, 0, "{}", sent.stderr);
    let away = server(vec![status(400)]);
    let failing = ["send", "--agent", "away.md", "s", "fails"];
    let failed = say(folder.path(), &away, &failing);
    assert_eq!(failed.status, 3, "{}", failed.stderr);
    let copies = folder.path().join("copies");
    fs::create_dir(&copies).unwrap();
    let copy = copies.join("copy.db");
    fs::copy(store_below(folder.path()).unwrap(), &copy).unwrap();
    let set_read_only = |is_read_only| {
        for path in [&copy, &copies] {
            let mut permissions = fs::metadata(path).unwrap().permissions();
            permissions.set_readonly(is_read_only);
            fs::set_permissions(path, permissions).unwrap();
        }
    };
    set_read_only(true);
    let url = format!("sqlite:{}", copy.display());
    for arguments in [
        vec!["sessions", "show", "s"],
        vec!["sessions", "show", "--audit", "s"],
        vec!["sessions", "export", "s"],
        vec!["sessions", "outcomes", "s"],
        vec!["sessions", "verify"],
        vec!["sessions", "list"],
    ] {
        let arguments: Vec<&str> = arguments.into_iter().chain(["--store", &url]).collect();
        let ran = run(folder.path(), &arguments);
        assert_eq!(ran.status, 0, "{arguments:?}: {}", ran.stderr);
    }
    // Without this server the missing key would be reported first.
    let write = |arguments: &[&str]| say(folder.path(), &away, arguments);
    let refused = write(&["send", "--store", &url, "s", "on"]);
    let labelled = write(&["send", "--ttl", "1d", "--store", &url, "s", "on"]);
    let retried = write(&["sessions", "retry", "--store", &url, "s"]);
    let entries = fs::read_dir(&copies).unwrap().count();
    set_read_only(false);
    for refused in [refused, retried, labelled] {
        assert_eq!(refused.status, 3, "{}", refused.stderr);
        let text = &refused.stderr;
        assert!(text.contains("error[store_read_only]"), "{text}");
        assert!(text.contains("help: make the file"), "{text}");
    }
    assert_eq!(entries, 1, "files were created beside the copy");
}

/// A check of a file that is not there must not make one and find it sound.
#[test]
fn a_missing_or_empty_store_is_not_sound() {
    let folder = folder(&[("empty.db", "")]);
    for file in ["empty.db", "missing.db"] {
        for action in ["verify", "repair"] {
            let store = format!("sqlite:{file}");
            let ran = run(folder.path(), ["sessions", action, "--store", &store]);
            assert_ne!(ran.status, 0, "{}", ran.stdout);
            assert!(ran.stderr.contains("no session store"), "{}", ran.stderr);
        }
    }
    assert_eq!(
        contents(folder.path()),
        [("empty.db".to_owned(), Vec::new())]
    );
}

#[test]
fn a_store_that_fills_up_in_a_turn_can_be_tried_again() {
    let server = server(vec![text(&"x".repeat(400_000)), text("fine")]);
    let folder = folder(&[("p.md", "<config model=\"m\"/>\n")]);
    let mut shell = logue(folder.path());
    let program = shell.get_program().to_owned();
    let limited = "trap '' XFSZ; ulimit -f 300; exec \"$0\" \"$@\"";
    shell = sh_in(&shell);
    shell.env("OPENAI_BASE_URL", server.base_url());
    shell.args(["-c", limited]).arg(program);
    shell.args(["send", "--agent", "p.md", "s", "one"]);
    let full: Ran = shell.output().unwrap().into();
    assert_eq!(full.status, 4, "{}", full.stderr);
    let code = "error[session_save_failed]";
    assert!(full.stderr.contains(code), "{}", full.stderr);
    let again = say(folder.path(), &server, &["sessions", "retry", "s"]);
    assert_eq!(again.status, 0, "{}", again.stderr);
    assert_eq!(again.stdout, "fine\n");
}

/// `recover` reports the status that the sender would get.
#[test]
fn a_store_that_fills_up_in_a_recovered_turn_has_the_same_status() {
    let server = server(vec![text(&"x".repeat(400_000)), text("fine")]);
    let folder = folder(&[("p.md", "<config model=\"m\"/>\n")]);
    let store = format!("sqlite:{}", folder.path().join("s.db").display());
    let mut waiting = logue(folder.path());
    waiting.env("OPENAI_BASE_URL", server.base_url());
    let mut shell = sh_in(&waiting);
    let limited = "trap '' XFSZ; ulimit -f 300; exec \"$0\" \"$@\"";
    shell.env("OPENAI_BASE_URL", server.base_url());
    shell.args(["-c", limited]).arg(waiting.get_program());
    // A process that is killed before its turn leaves the message in the inbox.
    let silent = testkit::ModelServer::start(vec![Reply::Silent], Delivery::Whole).unwrap();
    let mut sender = logue(folder.path())
        .env("OPENAI_BASE_URL", silent.base_url())
        .args(["send", "--store", &store, "--agent", "p.md", "s", "one"])
        .spawn()
        .unwrap();
    while silent.received().is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    sender.kill().unwrap();
    sender.wait().unwrap();
    shell.args(["sessions", "recover", "--store", &store, "s"]);
    let recovered: Ran = shell.output().unwrap().into();
    // The store may have no space left for the failure either.
    let reported = format!("{}{}", recovered.stdout, recovered.stderr);
    let is_reported = reported.contains("s: session_save_failed")
        || reported.contains("s: error[session_save_failed]");
    assert!(is_reported, "{reported}");
    assert_eq!(recovered.status, 4, "{}", recovered.stderr);
}

/// A damaged key names nothing, so its message would be another one.
#[test]
fn a_damaged_key_does_not_run_its_message_again() {
    let server = server(vec![call(), text("fine"), call(), text("again")]);
    let folder = prepared(DEPLOY);
    let keyed = [
        "send",
        "--agent",
        "p.md",
        "--idempotency-key",
        "the-key-of-it",
        "s",
        "ship it",
    ];
    let sent = say(folder.path(), &server, &keyed);
    assert_eq!(sent.status, 0, "{}", sent.stderr);
    flip(&store_below(folder.path()).unwrap(), "the-key-of-it");
    let refused = say(folder.path(), &server, &keyed);
    assert_eq!(refused.status, 5, "{}", refused.stderr);
    let text = &refused.stderr;
    assert!(text.contains("error[store_corrupt]"), "{text}");
    assert!(
        text.contains("entry 1") && text.contains("sessions repair"),
        "{text}"
    );
    let verified = run(folder.path(), ["sessions", "verify"]);
    assert_eq!(verified.status, 8, "{}", verified.stdout);
    let repaired = run(folder.path(), ["sessions", "repair"]);
    assert_eq!(repaired.status, 0, "{}", repaired.stdout);
    // The key is lost, so the message is a new one, and its tools ask.
    let asks = say(folder.path(), &server, &keyed);
    assert_eq!(asks.status, 6, "{}", asks.stderr);
    assert_eq!(runs(folder.path()), "ran\n");
}

/// What is left of a journal is history, and the turn ends.
#[test]
fn a_repair_of_a_journal_keeps_its_sound_calls_and_makes_tools_ask() {
    let waits =
        Answer::text("I try once more.").with_call("c2", "deploy", r#"{"arguments":["wait"]}"#);
    let server = server(vec![call(), Reply::Answer(waits), call(), text("done")]);
    let folder = prepared("echo ran >> runs\n[ \"$1\" = wait ] && sleep 60\necho deployed\n");
    let mut sender = logue(folder.path())
        .env("OPENAI_BASE_URL", server.base_url())
        .args(["send", "--agent", "p.md", "s", "ship it"])
        .spawn()
        .unwrap();
    while runs(folder.path()) != "ran\nran\n" {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    sender.kill().unwrap();
    sender.wait().unwrap();
    // The last program that closes the store moves its log into the file.
    let listed = run(folder.path(), ["sessions", "list"]);
    assert_eq!(listed.status, 0, "{}", listed.stderr);
    flip(&store_below(folder.path()).unwrap(), "I try once more.");
    let repaired = run(folder.path(), ["sessions", "repair"]);
    assert_eq!(repaired.status, 0, "{}", repaired.stdout);
    let ended = say(folder.path(), &server, &["send", "s", "ship it"]);
    assert_eq!(ended.status, 5, "{}", ended.stderr);
    let text = &ended.stderr;
    assert!(text.contains("note 3 of the turn's journal"), "{text}");
    assert!(text.contains("send the message again"), "{text}");
    let asks = say(folder.path(), &server, &["send", "s", "ship it"]);
    assert_eq!(asks.status, 6, "{}", asks.stderr);
    assert_eq!(runs(folder.path()), "ran\nran\n");
    let shown = show(folder.path(), "s");
    let messages = &shown["messages"];
    assert_eq!(messages[1]["tool_calls"][0]["id"], "c1", "{shown}");
    assert_eq!(
        messages[2]["content"], "deployed\n[exit status 0]",
        "{shown}"
    );
    assert_eq!(shown["failed"][0]["code"], "session_load_failed", "{shown}");
}

#[test]
fn a_store_that_cannot_be_opened_is_a_finding_and_is_mended() {
    let folder = folder(&[("p.md", "<config model=\"echo:\"/>\n")]);
    let sent = run(folder.path(), ["send", "--agent", "p.md", "s", "one"]);
    assert_eq!(sent.status, 0, "{}", sent.stderr);
    flip(&store_below(folder.path()).unwrap(), "CREATE TABLE note");
    let refused = run(folder.path(), ["send", "s", "two"]);
    assert_eq!(refused.status, 5, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("sessions repair"),
        "{}",
        refused.stderr
    );
    let verified = run(folder.path(), ["sessions", "verify"]);
    assert_eq!(verified.status, 8, "{}", verified.stderr);
    assert!(
        verified
            .stdout
            .contains("1 fault; run `logue sessions repair`"),
        "{}",
        verified.stdout
    );
    let json = run(folder.path(), ["sessions", "verify", "--json"]);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["faults"][0]["record"], "file", "{json}");
    let repaired = run(folder.path(), ["sessions", "repair"]);
    assert_eq!(repaired.status, 0, "{}", repaired.stdout);
    assert!(
        repaired.stdout.contains("`note`: built again"),
        "{}",
        repaired.stdout
    );
    let verified = run(folder.path(), ["sessions", "verify"]);
    assert_eq!(verified.status, 0, "{}", verified.stdout);
    let sent = run(folder.path(), ["send", "s", "two"]);
    assert_eq!(
        (sent.status, sent.stdout.as_str()),
        (0, "two\n"),
        "{}",
        sent.stderr
    );
}

#[test]
fn a_log_that_cannot_be_read_is_named() {
    let folder = folder(&[("p.md", "<config model=\"echo:\"/>\n")]);
    let sent = run(folder.path(), ["send", "--agent", "p.md", "s", "hello"]);
    assert_eq!(sent.status, 0, "{}", sent.stderr);
    let copies = folder.path().join("copies");
    fs::create_dir(&copies).unwrap();
    let copy = copies.join("copy.db");
    fs::copy(store_below(folder.path()).unwrap(), &copy).unwrap();
    fs::write(copies.join("copy.db-wal"), "a log").unwrap();
    let set_read_only = |is_read_only| {
        for path in [&copy, &copies] {
            let mut permissions = fs::metadata(path).unwrap().permissions();
            permissions.set_readonly(is_read_only);
            fs::set_permissions(path, permissions).unwrap();
        }
    };
    set_read_only(true);
    let is_root = fs::File::create(copies.join("probe")).is_ok();
    let url = format!("sqlite:{}", copy.display());
    let ran = run(folder.path(), ["sessions", "list", "--store", &url]);
    set_read_only(false);
    // Permissions do not bind the superuser, who creates the missing file.
    if !is_root {
        assert_eq!(ran.status, 3, "{}", ran.stderr);
        assert!(ran.stderr.contains("copy.db-wal"), "{}", ran.stderr);
    }
}

/// Messages of a turn whose record was damaged are neither copied nor those of another turn.
#[test]
fn the_steps_after_a_repair_keep_their_turns() {
    let folder = folder(&[("p.md", "<config model=\"m\"/>\n")]);
    let server = serve(vec![
        Answer::text("The first answer."),
        Answer::text("The second answer."),
        Answer::text("The third answer."),
    ]);
    for (message, key) in [("one", "key-1"), ("two", "key-2"), ("three", "key-3")] {
        let send = ["send", "--idempotency-key", key, "--agent", "p.md"];
        let sent = say(
            folder.path(),
            &server,
            &[&send[..], &["s", message]].concat(),
        );
        assert_eq!(sent.status, 0, "{}", sent.stderr);
    }
    let steps = || {
        let shown = run(folder.path(), ["sessions", "show", "s", "--steps"]);
        assert_eq!(shown.status, 0, "{}", shown.stderr);
        let turn = |line: &str| line.split_inclusive(':').next().unwrap().to_owned();
        let headings = shown.stdout.lines().filter(|line| line.starts_with("──"));
        headings.map(turn).collect::<Vec<String>>()
    };
    assert_eq!(steps(), ["── turn 1:", "── turn 2:", "── turn 3:"]);
    flip(&store_below(folder.path()).unwrap(), "key-2");
    let repaired = run(folder.path(), ["sessions", "repair"]);
    assert_eq!(repaired.status, 0, "{}{}", repaired.stdout, repaired.stderr);
    assert_eq!(steps(), ["── turn 1:", "── turn unknown:", "── turn 3:"]);
    // A copy is one, whatever was damaged in its source.
    let fork = ["sessions", "fork", "s", "copy"];
    let forked = run(folder.path(), fork);
    assert_eq!(forked.status, 0, "{}", forked.stderr);
    let shown = run(folder.path(), ["sessions", "show", "copy", "--steps"]);
    assert!(
        shown.stdout.starts_with("── copied or imported\n"),
        "{}",
        shown.stdout
    );
    assert_eq!(shown.stdout.matches("──").count(), 1, "{}", shown.stdout);
}
