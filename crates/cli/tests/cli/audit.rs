//! What was decided, by what, and that nothing happens without a record of it.

use std::path::Path;

use serde_json::Value;
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, folder, logue};

const PROMPT: &str = "<config model=\"m\"/>\n<tool name=\"read_file\"/>\n\
    <tool name=\"deploy\" command=\"sh deploy.sh\"/>\n<tool name=\"wipe\" command=\"false\"/>\n\
    <tool name=\"look\" command=\"echo seen\"/>\n";
const SECRET: &str = "sk-abcdefghij0123456789";
const REDACT: &str = "[[redact.rule]]\nname = \"api-key\"\npattern = \"sk-[A-Za-z0-9]{20,}\"\n\
                      [permissions.rules]\n\"w*\" = \"deny\"\n";

fn prepared() -> tempfile::TempDir {
    folder(&[
        ("p.md", PROMPT),
        ("deploy.sh", "echo ran >> runs\n"),
        ("a.txt", "a\n"),
        ("logue.toml", REDACT),
    ])
}

/// A model that calls each tool.
fn server() -> ModelServer {
    let arguments = format!("{{\"arguments\":[\"{SECRET}\"]}}");
    let calls = Answer::text("")
        .with_call("c1", "read_file", "{\"file\":\"a.txt\"}")
        .with_call("c2", "deploy", arguments)
        .with_call("c3", "wipe", "{\"arguments\":[]}")
        .with_call("c4", "look", "{\"arguments\":[]}")
        .with_call("c5", "nowhere", "{}");
    let replies = vec![Reply::Answer(calls), Reply::Answer(Answer::text("done"))];
    ModelServer::start(replies, Delivery::Whole).unwrap()
}

fn run(folder: &Path, server: &ModelServer, arguments: &[&str]) -> Ran {
    let mut command = logue(folder);
    command
        .env("OPENAI_BASE_URL", server.base_url())
        .args(arguments);
    command.output().unwrap().into()
}

fn audit(folder: &Path, of: &str) -> Vec<Value> {
    let ran: Ran = logue(folder)
        .args(["sessions", "show", of, "--audit", "--json"])
        .output()
        .unwrap()
        .into();
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let shown: Value = serde_json::from_str(&ran.stdout).unwrap();
    shown["audit"].as_array().unwrap().clone()
}

fn decided(records: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let line = |record: &Value| {
        let (tool, decision) = (text(&record["tool"]), text(&record["decision"]));
        format!("{tool} {decision} {}", text(&record["by"]["kind"]))
    };
    records.iter().map(line).collect()
}

#[test]
fn each_decision_is_recorded_with_what_made_it() {
    for (of, arguments) in [
        (
            "p.md",
            &["run", "--permission", "deploy=ask", "p.md", "go"][..],
        ),
        (
            "s",
            &[
                "send",
                "--permission",
                "deploy=ask",
                "--agent",
                "p.md",
                "s",
                "go",
            ],
        ),
    ] {
        let folder = prepared();
        let server = server();
        let waits = run(folder.path(), &server, arguments);
        assert_eq!(waits.status, 6, "{}", waits.stderr);
        let line = waits
            .stderr
            .lines()
            .find(|line| line.contains("logue signal"));
        let signal = line.unwrap().split_whitespace().nth(2).unwrap();
        let before = audit(folder.path(), of);
        let at_once = [
            "read_file allow harmless",
            "wipe deny config",
            "look allow trust",
        ];
        assert_eq!(decided(&before), at_once);
        let note = format!("use {SECRET}");
        let done = run(
            folder.path(),
            &server,
            &["signal", signal, "--deny", "--reason", &note],
        );
        assert_eq!(done.status, 0, "{}", done.stderr);

        let records = audit(folder.path(), of);
        assert_eq!(decided(&records).last().unwrap(), "deploy deny signal");
        let last = records.last().unwrap();
        assert_eq!(last["by"]["signal_id"], *signal);
        assert_eq!(last["call_id"], "c2");
        assert!(last["arguments"].as_str().unwrap().starts_with("sha256:"));
        assert!(
            last["shown"].as_str().unwrap().contains(":\nsh deploy.sh "),
            "{last}"
        );
        assert!(!Value::from(records.clone()).to_string().contains(SECRET));
        let config = records[1]["by"]["path"].as_str().unwrap();
        assert!(config.ends_with("/logue.toml"), "{config}");
        assert_eq!(records[1]["by"]["rule"], "w*=deny");
        let invocation = &records[0]["invocation_id"];
        assert!(
            records
                .iter()
                .all(|record| record["invocation_id"] == *invocation)
        );
        let for_people: Ran = logue(folder.path())
            .args(["sessions", "show", of, "--audit"])
            .output()
            .unwrap()
            .into();
        assert!(
            for_people
                .stdout
                .contains(&format!("deny deploy, by the signal {signal}"))
        );
        assert!(!for_people.stdout.contains(SECRET));
    }
}

#[test]
fn a_decision_that_cannot_be_recorded_has_no_effect() {
    let folder = prepared();
    let place = folder.path().join(".data/logue");
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join("audit"), "in the way").unwrap();
    let server = server();
    let ran = run(folder.path(), &server, &["run", "p.md", "go"]);
    assert_eq!(ran.status, 4, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("error[audit_write_failed]"),
        "{}",
        ran.stderr
    );
    assert!(!folder.path().join("runs").exists());
    // Nobody has to guess whether a call was run.
    let text = std::fs::read_to_string(folder.path().join("p.md")).unwrap();
    assert_eq!(
        chatmd::check(&text)
            .iter()
            .filter(|found| found.is_error())
            .count(),
        0
    );
    let next = run(folder.path(), &server, &["run", "p.md"]);
    assert_eq!(
        (next.status, next.stdout.as_str()),
        (0, "done\n"),
        "{}",
        next.stderr
    );
    let messages = server.received().last().unwrap().body["messages"].to_string();
    assert!(
        messages.matches("audit_write_failed").count() >= 4,
        "{messages}"
    );
    assert!(!messages.contains("E-TOOL-CANCELLED"), "{messages}");
}

#[test]
fn a_decision_of_a_signal_that_cannot_be_recorded_has_no_effect() {
    let folder = prepared();
    let server = server();
    let waits = run(
        folder.path(),
        &server,
        &["run", "--permission", "deploy=ask", "p.md", "go"],
    );
    let line = waits
        .stderr
        .lines()
        .find(|line| line.contains("logue signal"));
    let signal = line.unwrap().split_whitespace().nth(2).unwrap();
    let place = folder.path().join(".data/logue/audit");
    std::fs::remove_dir_all(&place).unwrap();
    std::fs::write(&place, "in the way").unwrap();
    let approve = ["signal", signal, "--approve"];
    let ran = run(folder.path(), &server, &approve);
    assert_eq!(ran.status, 4, "{}", ran.stderr);
    assert!(ran.stderr.contains("audit_write_failed"), "{}", ran.stderr);
    let count = server.received().len();
    let ran = run(folder.path(), &server, &approve);
    assert_eq!(ran.status, 4, "{}", ran.stderr);
    assert!(!folder.path().join("runs").exists());
    assert_eq!(server.received().len(), count);
    // The decision is kept, and takes effect once it can be recorded.
    std::fs::remove_file(&place).unwrap();
    let ran = run(folder.path(), &server, &approve);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let messages = server.received().last().unwrap().body["messages"].to_string();
    assert!(!messages.contains("audit_write_failed"), "{messages}");
    let decisions = decided(&audit(folder.path(), "p.md"));
    let is_recorded = |one: &String| one.contains("deploy") && one.contains("allow");
    assert!(
        decisions.iter().any(is_recorded),
        "{decisions:?} {messages}"
    );
}

#[test]
fn a_log_that_a_crash_cut_off_goes_on_and_the_rest_is_read() {
    let folder = prepared();
    assert_eq!(
        run(folder.path(), &server(), &["run", "p.md", "go"]).status,
        0
    );
    let logs = folder.path().join(".data/logue/audit");
    let log = std::fs::read_dir(&logs)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let mut text = std::fs::read_to_string(&log).unwrap();
    text.push_str("{\"tool\": \"dep");
    std::fs::write(&log, text).unwrap();
    let before = audit(folder.path(), "p.md").len();
    assert_eq!(
        run(folder.path(), &server(), &["run", "p.md", "go"]).status,
        0
    );
    assert_eq!(audit(folder.path(), "p.md").len(), 2 * before);
    assert_eq!(audit(folder.path(), "deploy.sh").len(), 0);
}
