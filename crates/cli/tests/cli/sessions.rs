//! What is stored, listed, copied, removed and checked.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};
use testkit::Answer;

use crate::program::{Ran, events, folder, logue, run};
use crate::send::show;
use crate::transcript::{say, serve};

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
    assert_eq!(long.status, 2, "{}", long.stderr);
    assert!(
        long.stderr
            .contains("error[usage]: --messages 9: session `s` has 4 messages"),
        "{}",
        long.stderr
    );
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

/// A session with reasoning, several calls, their results and a denied call.
fn with_calls() -> tempfile::TempDir {
    let prompt = "<config model=\"m\"/>\n<tool name=\"read_file\"/>\n<tool name=\"write_file\"/>\n";
    let folder = folder(&[
        ("p.md", prompt),
        ("a.txt", "a <b> & c\n"),
        ("echo.md", ECHO),
    ]);
    let server = serve(vec![
        Answer::text("I look.")
            .with_reasoning("Two files.")
            .with_call("c1", "read_file", r#"{"file": "a.txt"}"#)
            .with_call("c2", "read_file", r#"{"file":"none.txt"}"#),
        Answer::text("").with_call("c3", "write_file", r#"{"path":"b.txt","content":"x"}"#),
        Answer::text("It was denied."),
    ]);
    let arguments = [
        "send",
        "--trust",
        "--permission",
        "write_file=deny",
        "--agent",
        "p.md",
        "s",
        "Look.",
    ];
    let ran = say(folder.path(), &server, &arguments);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    folder
}

/// The messages of a session without the differences that forms may make.
///
/// An assistant message with calls may lack an empty content, and its text is always a preamble.
fn normal(shown: &Value) -> Vec<Value> {
    let mut messages = shown["messages"].as_array().unwrap().clone();
    for message in &mut messages {
        let message = message.as_object_mut().unwrap();
        if message.contains_key("tool_calls") && message.get("content") == Some(&"".into()) {
            message.remove("content");
        }
        let blocks = message.get_mut("content").and_then(Value::as_array_mut);
        for block in blocks.into_iter().flatten() {
            block.as_object_mut().unwrap().remove("preamble");
        }
    }
    messages
}

#[test]
fn a_session_with_calls_comes_back_from_every_form() {
    let folder = with_calls();
    let messages = normal(&show(folder.path(), "s"));
    assert_eq!(messages.len(), 7, "{messages:?}");
    let denied = messages[5]["content"].as_str().unwrap();
    assert!(denied.contains("tool_not_permitted"), "{denied}");
    for form in [
        "json", "json2.0", "openai", "sharegpt", "chatmd", "ocml2.2", "ocml2.0", "ocml0.1",
        "harmony", "chatml",
    ] {
        let out = run(folder.path(), ["sessions", "export", "s", "--to", form]);
        assert_eq!(out.status, 0, "{form}: {}", out.stderr);
        let file = format!("out-{form}");
        std::fs::write(folder.path().join(&file), &out.stdout).unwrap();
        let arguments = [
            "sessions", "import", &file, form, "--from", form, "--agent", "echo.md",
        ];
        let read = run(folder.path(), arguments);
        assert_eq!(read.status, 0, "{form}: {}\n{}", read.stderr, out.stdout);
        let found = normal(&show(folder.path(), form));
        match form {
            "json" | "ocml2.2" | "chatmd" => assert_eq!(found, messages, "{form}"),
            "chatml" => {}
            _ => {
                let calls = |messages: &[Value]| -> Vec<String> {
                    let calls = messages
                        .iter()
                        .filter_map(|one| one["tool_calls"].as_array());
                    calls
                        .flatten()
                        .map(|call| call["name"].to_string())
                        .collect()
                };
                assert_eq!(calls(&found), calls(&messages), "{form}: {found:?}");
                assert_eq!(found.last(), messages.last(), "{form}");
            }
        }
        let sent = run(folder.path(), ["send", form, "on"]);
        assert_eq!(sent.status, 0, "{form}: {}", sent.stderr);
    }
}

#[test]
fn an_exported_session_is_converted() {
    let folder = with_calls();
    let out = run(folder.path(), ["sessions", "export", "s", "--to", "json"]);
    std::fs::write(folder.path().join("s.json"), &out.stdout).unwrap();
    let direct = run(
        folder.path(),
        ["sessions", "export", "s", "--to", "ocml2.2"],
    );
    for from in [&["--from", "json"][..], &[]] {
        let arguments = ["convert", "s.json", "--to", "ocml2.2"];
        let converted = run(folder.path(), arguments.iter().chain(from));
        assert_eq!(converted.status, 0, "{}", converted.stderr);
        assert!(
            converted.stdout.ends_with(&direct.stdout),
            "{}",
            converted.stdout
        );
    }
}

#[test]
fn an_import_names_the_invalid_message_and_raises_nothing() {
    let folder = folder(&[
        (
            "empty.json",
            r#"[{"role":"user","content":"a"},{"role":"user","content":""}]"#,
        ),
        (
            "typo.json",
            r#"[{"role":"user","content":"a"},{"role":"robot","content":"b"}]"#,
        ),
        (
            "hidden.json",
            r#"[{"role":"assistant","channel":"analysis","content":"secret"},{"role":"assistant","content":"b"}]"#,
        ),
    ]);
    let empty = run(folder.path(), ["sessions", "import", "empty.json", "s"]);
    assert_eq!(empty.status, 3, "{}", empty.stderr);
    assert!(
        empty.stderr.contains(
            "error[chat_message_shape_invalid]: message 2 of the conversation is invalid"
        ),
        "{}",
        empty.stderr
    );
    let typo = run(folder.path(), ["sessions", "import", "typo.json", "s"]);
    assert_eq!(typo.status, 3, "{}", typo.stderr);
    assert!(typo.stderr.contains("typo.json:1:"), "{}", typo.stderr);
    let hidden = run(folder.path(), ["sessions", "import", "hidden.json", "s"]);
    assert_eq!(hidden.status, 0, "{}", hidden.stderr);
    let messages = show(folder.path(), "s")["messages"].clone();
    assert_eq!(messages[0]["content"][0]["type"], "thinking", "{messages}");
}

#[test]
fn an_address_that_names_no_store_is_one_clear_error() {
    let folder = folder(&[("text.db", "this is no database"), ("echo.md", ECHO)]);
    for address in ["sqlite:", "s.db", "/tmp/x.db", "foo:secret", ""] {
        let ran = run(folder.path(), ["sessions", "list", "--store", address]);
        assert_eq!(ran.status, 3, "{address}: {}", ran.stderr);
        assert!(
            ran.stderr
                .contains("error[store_unavailable]: invalid store address")
                && ran.stderr.contains("sqlite:PATH"),
            "{address}: {}",
            ran.stderr
        );
        assert!(!ran.stderr.contains("secret"), "{}", ran.stderr);
    }
    let ran = run(
        folder.path(),
        ["sessions", "list", "--store", "sqlite:text.db"],
    );
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("error[store_unavailable]")
            && ran.stderr.contains("not an SQLite database")
            && !ran.stderr.contains("backup"),
        "{}",
        ran.stderr
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

#[test]
fn ids_of_any_length_are_listed_and_new_ones_have_a_limit() {
    let folder = two_turns();
    let long = "x".repeat(8_192);
    let longer = "x".repeat(65_536);
    let forked = run(folder.path(), ["sessions", "fork", "s", &long]);
    assert_eq!(forked.status, 0, "{}", forked.stderr);
    for arguments in [
        vec!["send", "--agent", "echo.md", &longer, "one"],
        vec!["sessions", "fork", "s", &longer],
    ] {
        let refused = run(folder.path(), arguments);
        assert_eq!(refused.status, 2, "{}", refused.stderr);
        assert!(
            refused
                .stderr
                .contains("the session id has 65536 bytes, at most 8192 are possible"),
            "{}",
            refused.stderr
        );
    }
    for arguments in [
        vec!["sessions", "show", &longer],
        vec!["sessions", "fork", &longer, "new"],
        vec!["sessions", "fork", "s", &long],
        vec!["sessions", "import", "echo.md", &long],
        vec!["sessions", "rm", "--yes", &longer],
        vec!["send", &longer, "one"],
    ] {
        let refused = run(folder.path(), &arguments);
        assert_eq!(refused.status, 3, "{}", refused.stderr);
        assert!(refused.stderr.len() < 600, "{}", refused.stderr);
        assert!(refused.stderr.contains(" bytes)`"), "{}", refused.stderr);
    }
    let listed = run(folder.path(), ["sessions", "list"]);
    assert_eq!(listed.status, 0, "{}", listed.stderr);
    assert_eq!(listed.stdout.lines().count(), 3, "{}", listed.stdout);
    // The other rows stay as narrow as they were.
    let other = listed.stdout.lines().find(|line| line.starts_with("s "));
    assert!(
        other.is_some_and(|line| line.len() < 200),
        "{}",
        listed.stdout
    );
}

#[test]
fn an_empty_id_is_wrong_usage_everywhere() {
    let folder = two_turns();
    for arguments in [
        vec!["send", "--agent", "echo.md", "", "one"],
        vec!["sessions", "show", ""],
        vec!["sessions", "outcomes", ""],
        vec!["sessions", "fork", "", "new"],
        vec!["sessions", "fork", "s", ""],
        vec!["sessions", "export", ""],
        vec!["sessions", "import", "echo.md", ""],
        vec!["sessions", "retry", ""],
        vec!["sessions", "recover", ""],
        vec!["sessions", "rm", "--yes", ""],
        vec!["sessions", "verify", ""],
    ] {
        let refused = run(folder.path(), &arguments);
        assert_eq!(refused.status, 2, "{arguments:?}: {}", refused.stderr);
        assert!(
            refused
                .stderr
                .contains("error[usage]: the session id is empty"),
            "{arguments:?}: {}",
            refused.stderr
        );
    }
}

#[test]
fn a_session_of_more_than_64_mib_is_exported_and_imported() {
    let folder = folder(&[]);
    let file = folder.path().join("large.json");
    let text = "x".repeat(2 << 20);
    let message = |number: usize| {
        let role = if number.is_multiple_of(2) {
            "user"
        } else {
            "assistant"
        };
        format!(r#"{{"role":"{role}","content":"{number} {text}"}}"#)
    };
    let messages: Vec<String> = (0..34).map(message).collect();
    let whole = format!("{{\"messages\":[{}]}}\n", messages.join(","));
    fs::write(&file, &whole).unwrap();
    let imported = run(folder.path(), ["sessions", "import", "large.json", "s"]);
    assert_eq!(imported.status, 0, "{}", imported.stderr);
    let exported = logue(folder.path())
        .args(["sessions", "export", "s"])
        .stdout(fs::File::create(folder.path().join("again.json")).unwrap())
        .status()
        .unwrap();
    assert!(exported.success());
    let again = fs::read_to_string(folder.path().join("again.json")).unwrap();
    assert!(again.len() > 64 << 20, "{}", again.len());
    assert!(again == whole, "the export differs");
}

#[test]
fn old_sessions_are_pruned_and_those_that_wait_are_kept() {
    let prompt = "<config model=\"m\"/>\n<tool name=\"work\" command=\"true\"/>\n";
    let folder = folder(&[("echo.md", ECHO), ("p.md", prompt)]);
    let server = serve(vec![Answer::text("I call.").with_call("c1", "work", "{}")]);
    let ask = [
        "send",
        "--agent",
        "p.md",
        "--permission",
        "work=ask",
        "waits",
        "one",
    ];
    assert_eq!(say(folder.path(), &server, &ask).status, 6);
    for session in ["old", "young"] {
        let sent = run(
            folder.path(),
            ["send", "--agent", "echo.md", session, "one"],
        );
        assert_eq!(sent.status, 0, "{}", sent.stderr);
    }
    let sent = run(folder.path(), ["send", "--ttl", "1s", "old", "two"]);
    assert_eq!(sent.status, 0, "{}", sent.stderr);
    let listed = || run(folder.path(), ["sessions", "list"]).stdout;
    let prune = |arguments: &[&str]| {
        let arguments: Vec<&str> = ["sessions", "prune"]
            .iter()
            .chain(arguments)
            .copied()
            .collect();
        let pruned = run(folder.path(), &arguments);
        assert_eq!(pruned.status, 0, "{}", pruned.stderr);
        pruned
    };
    assert_eq!(prune(&["--older-than", "1d"]).stdout, "");
    // Only its own time ends.
    let until = std::time::Instant::now();
    while prune(&["--dry-run"]).stdout.is_empty() {
        assert!(until.elapsed().as_secs() < 30);
    }
    assert_eq!(prune(&["--dry-run"]).stdout, "old\n");
    assert!(listed().contains("old"));
    assert_eq!(prune(&["--vacuum"]).stdout, "old\n");
    assert!(!listed().contains("old"));

    let kept = prune(&["--older-than", "1s"]);
    assert_eq!(kept.stdout, "young\n", "{}", kept.stderr);
    assert!(kept.stderr.contains("waits: kept"), "{}", kept.stderr);
    assert_eq!(prune(&["--older-than", "1s", "--keep", "1"]).stdout, "");
    assert_eq!(prune(&["--older-than", "1s", "--force"]).stdout, "waits\n");
    let wrong = run(folder.path(), ["sessions", "prune", "--older-than", "1y"]);
    assert_eq!(wrong.status, 2, "{}", wrong.stderr);
}

#[test]
fn the_settings_give_new_sessions_a_time_and_the_flag_takes_precedence() {
    let ttl = |time: &str| format!("[store]\nttl = \"{time}\"\n");
    let folder = folder(&[("echo.md", "<config model=\"echo:\"/>\n")]);
    let own = |settings: &str| {
        let path = folder.path().join(".config/logue");
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("config.toml"), settings).unwrap();
    };
    let send = |arguments: &[&str]| {
        let arguments = [&["send", "--agent", "echo.md"][..], arguments, &["hi"]].concat();
        run(folder.path(), arguments)
    };
    let seconds = |session: &str| show(folder.path(), session)["labels"]["ttl_seconds"].clone();
    assert_eq!(send(&["plain"]).status, 0);
    assert_eq!(seconds("plain"), Value::Null);
    own(&ttl("2d"));
    assert_eq!(send(&["new"]).status, 0);
    assert_eq!(send(&["--ttl", "3d", "own"]).status, 0);
    assert_eq!(send(&["plain"]).status, 0);
    let day = 86_400;
    let found = ["new", "own", "plain"].map(seconds);
    assert_eq!(found, [json!(2 * day), json!(3 * day), json!(2 * day)]);
    // What a session has stays.
    own(&ttl("1s"));
    for session in ["new", "own", "plain"] {
        assert_eq!(send(&[session]).status, 0);
    }
    assert_eq!(["new", "own", "plain"].map(seconds), found);
    assert_eq!(send(&["--ttl", "4d", "new"]).status, 0);
    assert_eq!(seconds("new"), json!(4 * day));
    assert_eq!(send(&["short"]).status, 0);
    let until = std::time::Instant::now();
    let prune = || run(folder.path(), ["sessions", "prune"]).stdout;
    while prune().is_empty() {
        assert!(until.elapsed().as_secs() < 30);
    }
    let listed = run(folder.path(), ["sessions", "list"]).stdout;
    assert!(
        !listed.contains("short") && listed.contains("plain"),
        "{listed}"
    );
    for wrong in ["30", "1y", "0d", ""] {
        own(&ttl(wrong));
        let ran = send(&["new"]);
        assert_eq!(ran.status, 3, "{wrong}: {}", ran.stderr);
        assert!(ran.stderr.contains("config.toml:2:7"), "{}", ran.stderr);
    }
}

#[test]
fn a_backup_is_restored_with_its_sessions() {
    let folder = two_turns();
    let backup = run(folder.path(), ["sessions", "backup", "copy.db"]);
    assert_eq!(backup.status, 0, "{}", backup.stderr);
    assert_eq!(backup.stderr, "1 session, 4 messages copied and verified\n");
    let again = run(folder.path(), ["sessions", "backup", "copy.db"]);
    assert_eq!(again.status, 3, "{}", again.stderr);
    let removed = run(folder.path(), ["sessions", "rm", "--yes", "s"]);
    assert_eq!(removed.status, 0, "{}", removed.stderr);
    let restored = run(folder.path(), ["sessions", "restore", "copy.db"]);
    assert_eq!(restored.status, 0, "{}", restored.stderr);
    let refused = run(folder.path(), ["sessions", "restore", "copy.db"]);
    assert_eq!(refused.status, 3, "{}", refused.stderr);
    assert!(refused.stderr.contains("--replace"), "{}", refused.stderr);
    let sent = run(folder.path(), ["send", "s", "three"]);
    assert_eq!(
        (sent.status, sent.stdout.as_str()),
        (0, "three\n"),
        "{}",
        sent.stderr
    );
    let missing = run(folder.path(), ["sessions", "restore", "nothing.db"]);
    assert_eq!(missing.status, 3, "{}", missing.stderr);
}

#[test]
fn recover_names_its_two_forms() {
    let folder = folder(&[]);
    let ran = run(folder.path(), ["sessions", "recover"]);
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    let text = &ran.stderr;
    assert!(text.contains("SESSION") && text.contains("--all"), "{text}");
    let both = run(folder.path(), ["sessions", "recover", "--all", "s"]);
    assert_eq!(both.status, 2, "{}", both.stderr);
}

#[test]
fn a_list_fits_the_columns_that_are_asked_for() {
    let folder = folder(&[("echo.md", ECHO)]);
    let long = "long".repeat(50);
    let sent = run(folder.path(), ["send", "--agent", "echo.md", &long, "one"]);
    assert_eq!(sent.status, 0, "{}", sent.stderr);
    let listed = run(folder.path(), ["sessions", "list"]);
    assert!(listed.stdout.contains(&long), "{}", listed.stdout);
    let mut narrow = logue(folder.path());
    narrow.env("COLUMNS", "60").args(["sessions", "list"]);
    let narrow: Ran = narrow.output().unwrap().into();
    for line in narrow.stdout.lines() {
        assert!(line.chars().count() <= 60, "{line}");
    }
}

#[test]
fn an_idempotency_key_has_a_limit() {
    let folder = folder(&[("echo.md", ECHO)]);
    for (length, status) in [(256, 0), (257, 2)] {
        let key = "é".repeat(length);
        let send = [
            "send",
            "--agent",
            "echo.md",
            "--idempotency-key",
            &key,
            "s",
            "x",
        ];
        let sent = run(folder.path(), send);
        assert_eq!(sent.status, status, "{}", sent.stderr);
    }
}

#[test]
fn words_find_the_messages_of_all_sessions() {
    let folder = two_turns();
    let text = "Crème brûlée needs\u{1b}[31m a torch";
    let asked = run(folder.path(), ["ask", "-m", "echo:", text]);
    assert_eq!(asked.status, 0, "{}", asked.stderr);
    let search = |words: &[&str]| {
        let arguments = ["sessions", "search"].iter().chain(words);
        run(folder.path(), arguments)
    };
    let found = search(&["BRULEE", "torch"]);
    assert_eq!(found.status, 0, "{}", found.stderr);
    let lines: Vec<&str> = found.stdout.lines().collect();
    assert!(lines[0].starts_with("SESSION"), "{}", found.stdout);
    assert!(lines[1].starts_with("ask-"), "{}", found.stdout);
    assert!(
        lines[1].contains(": Crème brûlée needs"),
        "{}",
        found.stdout
    );
    assert_eq!(lines.len(), 3, "the question and its answer");
    assert!(
        !found.stdout.contains('\u{1b}'),
        "no control sequence of a message"
    );
    let json = events(&search(&["tw*", "--json"]).stdout);
    assert_eq!(json[0]["session_id"], "s");
    assert_eq!(
        (&json[0]["message"], &json[0]["excerpt"]),
        (&json!(2), &json!("two"))
    );
    for words in [
        &["nowhere"][..],
        &["two", "torch"],
        &["torch", "--prefix", "s"],
    ] {
        let none = search(words);
        assert_eq!((none.status, &*none.stdout), (8, ""), "{words:?}");
        assert!(none.stderr.contains("no message contains these words"));
    }
    assert_eq!(search(&["--", "-"]).status, 2);
    // Four messages contain a word with `t`; a limit says that there are more.
    let all = search(&["t*", "--json"]);
    let count = all.stdout.lines().count();
    assert!(
        count > 2 && !all.stdout.contains("\"more\""),
        "{}",
        all.stdout
    );
    let cut = search(&["t*", "--limit", "2"]);
    assert_eq!(cut.stdout.lines().count(), 3, "{}", cut.stdout);
    let expected = "more messages contain these words; --limit 20 prints up to 20\n";
    assert_eq!((cut.status, cut.stderr.as_str()), (0, expected));
    let cut = search(&["t*", "--limit", "2", "--json"]);
    let lines = events(&cut.stdout);
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[2], json!({"more": true, "limit": 2}));
    let exact = search(&["t*", "--limit", &count.to_string()]);
    assert_eq!(exact.stderr, "", "nothing more matches");
    let removed = run(folder.path(), ["sessions", "rm", "--yes", "s"]);
    assert_eq!(removed.status, 0, "{}", removed.stderr);
    assert_eq!(
        search(&["two"]).status,
        8,
        "nothing remains of a removed session"
    );
}
