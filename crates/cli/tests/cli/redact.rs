//! `[redact]`: what matches never reaches the disk.

use std::path::Path;

use insta::assert_snapshot;
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, contents, folder, logue, run};

const SECRET: &str = "sk-abcdefghij0123456789";

const RULE: &str = "[[redact.rule]]\nname = \"api-key\"\npattern = \"sk-[A-Za-z0-9]{20,}\"\n";

/// A model that repeats the secret wherever it can, and calls a tool that prints it.
fn server() -> ModelServer {
    let arguments = format!("{{\"arguments\":[\"{SECRET}\"]}}");
    let call = Answer::text(format!("I look for {SECRET}."))
        .with_reasoning(format!("They want {SECRET}."))
        .with_call("c1", "work", arguments);
    let replies = vec![
        Reply::Answer(call),
        Reply::Answer(Answer::text(format!("It is {SECRET}."))),
        Reply::Answer(Answer::text("Still the same.")),
    ];
    ModelServer::start(replies, Delivery::Random(3)).unwrap()
}

fn assert_no_secret(folder: &Path) {
    for (name, bytes) in contents(folder) {
        let found = bytes
            .windows(SECRET.len())
            .any(|part| part == SECRET.as_bytes());
        assert!(!found, "{name}: {}", String::from_utf8_lossy(&bytes));
    }
}

fn say(folder: &Path, server: &ModelServer, arguments: &[&str]) -> Ran {
    let ran = logue(folder)
        .args(arguments)
        .env("OPENAI_BASE_URL", server.base_url())
        .output();
    ran.unwrap().into()
}

#[test]
fn a_secret_that_is_said_by_all_is_in_no_file() {
    for (flag, inline_bytes) in [
        (" show_tool_call", 65536),
        ("", 65536),
        (" show_tool_call", 4),
    ] {
        let prompt = format!(
            "<config model=\"m\"{flag}/>\n<tool name=\"work\" command=\"printf it:%s\"/>\n"
        );
        let settings = format!("[transcript]\nmax_inline_bytes = {inline_bytes}\n{RULE}");
        let folder = folder(&[("prompt.md", &prompt), ("logue.toml", &settings)]);
        let server = server();
        let question = format!("find {SECRET}");
        let ran = say(folder.path(), &server, &["run", "prompt.md", &question]);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        // The user reads it, and the model of this run is sent it.
        assert_eq!(
            ran.stdout,
            format!("I look for {SECRET}.\n\nIt is {SECRET}.\n")
        );
        let sent = server.received()[1].body["messages"].clone();
        assert_eq!(sent[0]["content"], question);
        assert_eq!(sent[1]["content"], format!("I look for {SECRET}."));
        assert_eq!(sent[2]["content"], format!("it:{SECRET}\n[exit status 0]"));
        assert_no_secret(folder.path());
        let checked = run(folder.path(), ["check", "--deny", "warnings", "prompt.md"]);
        assert_eq!(checked.status, 0, "{}", checked.stderr);

        // The next run goes on from the placeholders.
        let ran = say(folder.path(), &server, &["run", "prompt.md", "again"]);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let sent = server.received()[2].body["messages"].clone();
        assert_eq!(sent[0]["content"], "find [redacted:api-key]");
        assert_eq!(
            sent[1]["tool_calls"][0]["function"]["arguments"],
            "{\"arguments\":[\"[redacted:api-key]\"]}"
        );
        assert_eq!(sent[2]["content"], "it:[redacted:api-key]\n[exit status 0]");
        assert_eq!(sent[3]["content"], "It is [redacted:api-key].");
        assert_no_secret(folder.path());
    }
}

#[test]
fn a_secret_is_not_rescued() {
    let call = Answer::text("").with_call("c", "work", format!("{{\"arguments\":[\"{SECRET}\"]}}"));
    let server = ModelServer::start(vec![Reply::Answer(call)], Delivery::Whole).unwrap();
    let script = "#!/bin/sh\necho '<user>somebody writes' >> prompt.md\necho \"$1\"\n";
    let prompt =
        "<config model=\"m\"/>\n<tool name=\"work\" command=\"sh work.sh\"/>\n<user>go</user>\n";
    let folder = folder(&[
        ("prompt.md", prompt),
        ("work.sh", script),
        ("logue.toml", RULE),
    ]);
    let ran = say(folder.path(), &server, &["run", "prompt.md"]);
    assert_eq!(ran.status, 5, "{}", ran.stderr);
    let rescued = std::fs::read_to_string(folder.path().join("prompt.md.rescue-0")).unwrap();
    assert!(
        rescued.contains("<tool_response tool_call_id=\"c\">"),
        "{rescued}"
    );
    assert_no_secret(folder.path());
}

#[test]
fn the_same_words_after_a_failure_are_known_by_their_placeholder() {
    let replies = vec![
        Reply::Status(500, Vec::new(), String::new()),
        Reply::Answer(Answer::text("hi")),
    ];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[
        ("prompt.md", "<config model=\"m\"/>\n"),
        ("logue.toml", RULE),
    ]);
    for status in [4, 0] {
        let ran = say(
            folder.path(),
            &server,
            &["run", "--retries=0", "prompt.md", SECRET],
        );
        assert_eq!(ran.status, status, "{}", ran.stderr);
    }
    let text = std::fs::read_to_string(folder.path().join("prompt.md")).unwrap();
    assert_eq!(text.matches("<user>").count(), 1, "{text}");
    assert_eq!(server.received()[1].body["messages"][0]["content"], SECRET);
}

#[test]
fn an_agent_that_tells_a_secret_is_not_remembered() {
    // The secret comes from a folder beside, which is no part of the test.
    let elsewhere = folder(&[("secret.txt", SECRET)]);
    let secret = elsewhere.path().join("secret.txt");
    let prompt = format!(
        "<config model=\"echo:\"/>\n<user>It says <agent src=\"a.md\" local><doc src=\"{}\" local/></agent></user>\n",
        secret.display()
    );
    let files = [
        ("prompt.md", prompt.as_str()),
        ("a.md", "<config model=\"echo:\"/>\n"),
        ("logue.toml", RULE),
    ];
    let folder = folder(&files);
    let root = elsewhere.path().display().to_string();
    let ran = run(folder.path(), ["run", "--root", &root, "prompt.md"]);
    assert_eq!(
        (ran.status, ran.stdout),
        (0, format!("It says {SECRET}\n")),
        "{}",
        ran.stderr
    );
    assert_no_secret(folder.path());
    // Without the rule it is remembered: the test would find it.
    std::fs::remove_file(folder.path().join("logue.toml")).unwrap();
    std::fs::write(folder.path().join("prompt.md"), &prompt).unwrap();
    let ran = run(
        folder.path(),
        ["run", "--root", &root, "--no-save", "prompt.md"],
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let kept = contents(folder.path());
    assert!(
        kept.iter()
            .any(|(name, bytes)| name.contains("agents/") && bytes == SECRET.as_bytes())
    );
}

#[test]
fn patterns_of_project_and_user_add_up() {
    let prompt = "<config model=\"echo:\"/>\n";
    let folder = folder(&[
        ("prompt.md", prompt),
        ("logue.toml", "[redact]\npatterns = [\"[0-9]{6}\", 'b+']\n"),
        (".config/logue/config.toml", RULE),
    ]);
    let message = format!("{SECRET} 123456 bbb");
    assert_eq!(run(folder.path(), ["run", "prompt.md", &message]).status, 0);
    let text = std::fs::read_to_string(folder.path().join("prompt.md")).unwrap();
    let written = "RAW|[redacted:api-key] [redacted:pattern-1] [redacted:pattern-2]|RAW";
    assert_eq!(text.matches(written).count(), 2, "{text}");
}

#[test]
fn a_recording_is_refused() {
    let folder = folder(&[
        ("prompt.md", "<config model=\"echo:\"/>\n"),
        ("logue.toml", RULE),
    ]);
    let ran = run(
        folder.path(),
        ["run", "--record", "r.ocml", "prompt.md", SECRET],
    );
    assert_eq!(ran.status, 3);
    assert_snapshot!(ran.stderr, @r"
    error[recording_write_failed]: a recording contains all text as sent, including text that [redact] keeps off the disk
      = help: run without --record, or record where no logue.toml has [redact]
    ");
    assert!(!folder.path().join("r.ocml").exists());
    assert_no_secret(folder.path());
}

#[test]
fn a_bad_rule_is_an_error_at_its_place() {
    let folder = folder(&[("prompt.md", "<config model=\"echo:\"/>\n")]);
    let mut reports = String::new();
    for settings in [
        "[redact]\npatterns = [\"fine\", \"sk-[a-z\"]\n",
        "[[redact.rule]]\nname = \"API key\"\npattern = \"x\"\n",
        "[[redact.rule]]\nname = \"all\"\npattern = \"x*\"\n",
        "[[redact.rule]]\nname = \"all\"\n",
        "[redact]\npattern = [\"x\"]\n",
    ] {
        std::fs::write(folder.path().join("logue.toml"), settings).unwrap();
        let ran = run(folder.path(), ["run", "prompt.md", "hi"]);
        assert_eq!(ran.status, 3, "{settings}");
        let name = folder.path().canonicalize().unwrap().join("logue.toml");
        reports.push_str(
            &ran.stderr
                .replace(&name.display().to_string(), "logue.toml"),
        );
    }
    assert_snapshot!(reports, @r#"
    error[E-CONFIG-INVALID]: the pattern cannot be used: unclosed character class
     --> logue.toml:2:21
      |
    2 | patterns = ["fine", "sk-[a-z"]
      |                     ^^^^^^^^^
      |
      = help: correct the key or its value in this file
    error[E-CONFIG-INVALID]: invalid pattern name `API key`: use lower-case letters, digits and hyphens
     --> logue.toml:2:8
      |
    2 | name = "API key"
      |        ^^^^^^^^^
      |
      = help: correct the key or its value in this file
    error[E-CONFIG-INVALID]: the pattern matches the empty text, which occurs everywhere
     --> logue.toml:3:11
      |
    3 | pattern = "x*"
      |           ^^^^
      |
      = help: correct the key or its value in this file
    error[E-CONFIG-INVALID]: the key `pattern` is missing
     --> logue.toml:1:1
      |
    1 | [[redact.rule]]
      | ^^^^^^^^^^^^^^^
      |
      = help: correct the key or its value in this file
    error[E-CONFIG-INVALID]: unknown key `pattern` (did you mean `patterns`?); keys of [redact] are patterns, rule
     --> logue.toml:2:1
      |
    2 | pattern = ["x"]
      | ^^^^^^^
      |
      = help: correct the key or its value in this file
    "#);
    let text = std::fs::read_to_string(folder.path().join("prompt.md")).unwrap();
    assert_eq!(text, "<config model=\"echo:\"/>\n");
}
