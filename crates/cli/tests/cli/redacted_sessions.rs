//! `[redact]` in sessions: what matches is in no byte of a store, and only tools receive it.

use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, folder};
use crate::resumed::{ask, kill_in_the_tool, runs};
use crate::send::show;

const SECRET: &str = "sk-abcdefghij0123456789";
const OTHER: &str = "sk-zyxwvutsrq9876543210";
const SHOWN: &str = "[redacted:api-key]";
const RULE: &str = "[model]\nretries = 0\n[tools]\nconcurrency = 1\n\
                    [[redact.rule]]\nname = \"api-key\"\npattern = \"sk-[A-Za-z0-9]{20,}\"\n";
const NO_RULE: &str = "[model]\nretries = 0\n[tools]\nconcurrency = 1\n";
const PROMPT: &str =
    "<config model=\"m\"/>\n<tool name=\"deploy\" command=\"sh deploy.sh\" description=\"d\"/>\n";
/// The tool notes what it received, and prints it.
const TOOL: &str = "echo \"$*\" >> runs\necho \"it: $*\"\n";
/// The first call lasts.
const SLOW: &str = "echo \"$*\" >> runs\n[ $(wc -l < runs) -gt 1 ] || sleep 30\n";
const SEND: [&str; 5] = ["send", "--agent", "p.md", "s", "go"];
const ASKING: [&str; 7] = [
    "send",
    "--agent",
    "p.md",
    "--permission",
    "deploy=ask",
    "s",
    "go",
];

fn prepared(tool: &str, settings: &str) -> tempfile::TempDir {
    folder(&[
        ("p.md", PROMPT),
        ("deploy.sh", tool),
        ("logue.toml", settings),
    ])
}

fn server(replies: Vec<Reply>) -> ModelServer {
    ModelServer::start(replies, Delivery::Random(3)).unwrap()
}

fn text(text: impl Into<String>) -> Reply {
    Reply::Answer(Answer::text(text))
}

fn words(word: &str) -> String {
    json!({ "arguments": [word] }).to_string()
}

fn call(word: &str) -> Reply {
    Reply::Answer(Answer::text("").with_call("c1", "deploy", words(word)))
}

/// The files that have to contain a secret: what the tool received, and what a person wrote.
const ALLOWED: [&str; 3] = ["runs", "arguments.json", "said.json"];

/// The files that contain a secret, or the hash of arguments with it.
fn leaks(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
                continue;
            }
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            let bytes = std::fs::read(&path).unwrap();
            let hash = format!("{:x}", Sha256::digest(words(SECRET)));
            let has = |text: &str| {
                bytes
                    .windows(text.len())
                    .any(|part| part == text.as_bytes())
            };
            if !ALLOWED.contains(&name.as_str()) && (has(SECRET) || has(OTHER) || has(&hash)) {
                found.push(name);
            }
        }
    }
    found
}

fn assert_no_secret(folder: &Path) {
    assert_eq!(leaks(folder), Vec::<String>::new());
    let verified = crate::program::run(folder, ["sessions", "verify"]);
    assert_eq!(verified.status, 0, "{}", verified.stdout);
}

/// Checks that a command printed no secret.
fn prints_none(ran: &Ran) {
    for printed in [&ran.stdout, &ran.stderr] {
        assert!(
            !printed.contains(SECRET) && !printed.contains(OTHER),
            "{printed}"
        );
    }
}

fn sent(server: &ModelServer, at: usize) -> Value {
    server.received()[at].body["messages"].clone()
}

fn last_result(server: &ModelServer) -> String {
    let requests = server.received();
    let messages = requests.last().unwrap().body["messages"].clone();
    let messages = messages.as_array().unwrap();
    let result = messages.iter().rfind(|one| one["role"] == "tool").unwrap();
    result["content"].as_str().unwrap().to_owned()
}

/// Runs a command that suspends; returns the name of its signal.
fn suspended(folder: &Path, server: &ModelServer, arguments: &[&str]) -> (String, Ran) {
    let ran = ask(folder, server, arguments);
    assert_eq!(ran.status, 6, "{}", ran.stderr);
    let mut lines = ran.stderr.lines();
    let command = lines.find(|line| line.contains("logue signal")).unwrap();
    let signal = command.split_whitespace().nth(2).unwrap().to_owned();
    (signal, ran)
}

/// A model that repeats the secret wherever it can.
fn talkative() -> Vec<Reply> {
    let call = Answer::text(format!("I look for {SECRET}."))
        .with_reasoning(format!("They want {SECRET}."))
        .with_call("c1", "deploy", words(SECRET));
    vec![
        Reply::Answer(call),
        text(format!("It is {SECRET}.")),
        text("Still the same."),
    ]
}

#[test]
fn a_secret_that_is_said_by_all_is_in_no_byte_of_the_store() {
    let question = format!("find {SECRET}");
    let say = ["send", "--agent", "p.md", "--idempotency-key", "k", "s"];
    let say = [&say[..], &[question.as_str()]].concat();
    for json in [false, true] {
        let server = server(talkative());
        let folder = prepared(TOOL, RULE);
        let say = if json {
            [&say[..1], &["--json"], &say[1..]].concat()
        } else {
            say.clone()
        };
        let ran = ask(folder.path(), &server, &say);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        prints_none(&ran);
        assert!(
            ran.stdout.contains(&format!("It is {SHOWN}.")),
            "{}",
            ran.stdout
        );
        // The tool received it; the model is sent what the store holds.
        assert_eq!(runs(folder.path()), format!("{SECRET}\n"));
        let messages = sent(&server, 1);
        assert_eq!(messages[0]["content"], format!("find {SHOWN}"));
        assert_eq!(messages[1]["content"], format!("I look for {SHOWN}."));
        let arguments = &messages[1]["tool_calls"][0]["function"]["arguments"];
        assert_eq!(arguments, &json!(words(SHOWN)));
        assert_eq!(
            messages[2]["content"],
            format!("it: {SHOWN}\n[exit status 0]")
        );
        assert_no_secret(folder.path());

        // The key is bound to what is stored.
        let other = format!("find {OTHER}");
        let key = ["send", "--idempotency-key", "k", "s", other.as_str()];
        let ran = ask(folder.path(), &server, &key);
        assert_eq!(ran.stdout, format!("It is {SHOWN}.\n"), "{}", ran.stderr);
        let key = ["send", "--idempotency-key", "k", "s", "find"];
        assert_eq!(ask(folder.path(), &server, &key).status, 3);
        assert_eq!(server.received().len(), 2);
        let ran = ask(folder.path(), &server, &["send", "s", &other]);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        assert_eq!(sent(&server, 2)[3]["content"], format!("It is {SHOWN}."));

        for command in [
            &["sessions", "fork", "s", "copy"][..],
            &["sessions", "backup", "backup.db"],
        ] {
            assert_eq!(ask(folder.path(), &server, command).status, 0);
        }
        for form in ["json", "openai", "chatmd", "ocml2.2"] {
            let export = ["sessions", "export", "copy", "--to", form];
            let ran = ask(folder.path(), &server, &export);
            assert_eq!(ran.status, 0, "{}", ran.stderr);
            prints_none(&ran);
            assert!(ran.stdout.contains(SHOWN), "{}", ran.stdout);
        }
        assert_no_secret(folder.path());
    }
}

#[test]
fn without_a_pattern_the_secret_is_found_and_kept() {
    let server = server(talkative());
    let folder = prepared(TOOL, NO_RULE);
    let ran = ask(folder.path(), &server, &SEND);
    assert_eq!(
        ran.stdout,
        format!("I look for {SECRET}.\n\nIt is {SECRET}.\n"),
        "{}",
        ran.stderr
    );
    let leaks = leaks(folder.path());
    assert!(
        leaks.iter().any(|name| name.contains("sessions.db")),
        "{leaks:?}"
    );
    // Patterns that come later apply to what is new, and the session continues.
    std::fs::write(folder.path().join("logue.toml"), RULE).unwrap();
    let ran = ask(folder.path(), &server, &["send", "s", "again"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(sent(&server, 2)[3]["content"], format!("It is {SECRET}."));
}

#[test]
fn an_error_of_a_server_is_stored_without_the_secret() {
    let body = json!({"error": {"message": format!("bad key {SECRET}")}}).to_string();
    let refused = Reply::Status(400, Vec::new(), body);
    let server = server(vec![refused]);
    let folder = prepared(TOOL, RULE);
    let ran = ask(folder.path(), &server, &SEND);
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains(SHOWN), "{}", ran.stderr);
    prints_none(&ran);
    assert_no_secret(folder.path());
}

/// The commands that begin a turn which asks, in a session and in a file.
const TURNS: [&[&str]; 2] = [
    &ASKING,
    &["run", "--permission", "deploy=ask", "p.md", "go"],
];

#[test]
fn an_approved_call_with_redacted_arguments_does_not_run() {
    for turn in TURNS {
        // The patterns may be gone by the time of the decision.
        for settings in [RULE, NO_RULE] {
            let server = server(vec![call(SECRET), text("so be it")]);
            let folder = prepared(TOOL, RULE);
            let (signal, ran) = suspended(folder.path(), &server, turn);
            assert!(
                ran.stderr.contains("approval alone cannot run this call"),
                "{}",
                ran.stderr
            );
            let command = format!("logue signal {signal} --approve --edit ARGUMENTS.json");
            assert!(ran.stderr.contains(&command), "{}", ran.stderr);
            prints_none(&ran);
            assert_no_secret(folder.path());
            std::fs::write(folder.path().join("logue.toml"), settings).unwrap();
            let ran = ask(folder.path(), &server, &["signal", &signal, "--approve"]);
            assert_eq!(ran.status, 0, "{}", ran.stderr);
            let warning = "warning[arguments_redacted]: the approved call of deploy was not run";
            assert!(ran.stderr.contains(warning), "{}", ran.stderr);
            assert_eq!(runs(folder.path()), "");
            let result = last_result(&server);
            assert!(result.starts_with("arguments_redacted: "), "{result}");
            assert_no_secret(folder.path());
        }
    }
}

#[test]
fn complete_arguments_run_a_redacted_call_once() {
    for turn in TURNS {
        let server = server(vec![call(SECRET), text("so be it")]);
        let folder = prepared(TOOL, RULE);
        let (signal, _) = suspended(folder.path(), &server, turn);
        let edit = ["signal", &signal, "--approve", "--edit", "arguments.json"];
        for (secret, status) in [(SECRET, 0), (SECRET, 0), (OTHER, 0), ("sk-short", 3)] {
            std::fs::write(folder.path().join("arguments.json"), words(secret)).unwrap();
            let ran = ask(folder.path(), &server, &edit);
            assert_eq!(ran.status, status, "{secret}: {}", ran.stderr);
            prints_none(&ran);
            assert_eq!(runs(folder.path()), format!("{SECRET}\n"));
        }
        let result = last_result(&server);
        let expected = format!(
            "A person replaced the arguments of this call with: {}\n\nit: {SHOWN}\n[exit status 0]",
            words(SHOWN)
        );
        assert_eq!(result, expected);
        assert_no_secret(folder.path());
    }
}

#[test]
fn other_calls_of_the_answer_do_not_run_with_placeholders_either() {
    let both = Answer::text("")
        .with_call("c1", "deploy", words("to prod"))
        .with_call("c2", "deploy", words(SECRET));
    let server = server(vec![Reply::Answer(both), text("so be it")]);
    let folder = prepared(TOOL, RULE);
    let (signal, ran) = suspended(folder.path(), &server, &ASKING);
    assert!(
        ran.stderr.contains("--approve --edit c2=ARGUMENTS.json"),
        "{}",
        ran.stderr
    );
    let ran = ask(folder.path(), &server, &["signal", &signal, "--approve"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(runs(folder.path()), "to prod\n");
    assert_no_secret(folder.path());
}

#[test]
fn the_reason_of_a_denial_is_stored_without_the_secret() {
    let server = server(vec![call("to prod"), text("so be it")]);
    let folder = prepared(TOOL, RULE);
    let (signal, _) = suspended(folder.path(), &server, &ASKING);
    let reason = format!("it is {SECRET}");
    let deny = ["signal", &signal, "--deny", "--reason", &reason];
    let ran = ask(folder.path(), &server, &deny);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(last_result(&server).contains(SHOWN));
    let audit = ["sessions", "show", "s", "--audit", "--json"];
    prints_none(&ask(folder.path(), &server, &audit));
    assert_no_secret(folder.path());
}

#[test]
fn a_call_of_a_dead_process_does_not_run_with_placeholders() {
    let both = Answer::text("")
        .with_call("c1", "deploy", words("first"))
        .with_call("c2", "deploy", words(SECRET));
    let server = server(vec![Reply::Answer(both), text("so be it")]);
    let folder = prepared(SLOW, RULE);
    kill_in_the_tool(folder.path(), &server, &SEND);
    assert_eq!(leaks(folder.path()), Vec::<String>::new());
    let recover = ["sessions", "recover", "s"];
    let ran = ask(folder.path(), &server, &recover);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(runs(folder.path()), "first\n");
    let result = last_result(&server);
    assert!(result.starts_with("arguments_redacted: "), "{result}");
    assert_no_secret(folder.path());
}

#[test]
fn an_interrupted_call_with_a_secret_is_repeated_only_by_a_person() {
    let server = server(vec![call(SECRET), call(SECRET), text("so be it")]);
    let folder = prepared(SLOW, RULE);
    kill_in_the_tool(folder.path(), &server, &SEND);
    let recover = ["sessions", "recover", "s"];
    let ran = ask(folder.path(), &server, &recover);
    assert_eq!(ran.status, 0, "{} {}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("waits for approve-"), "{}", ran.stdout);
    assert_eq!(runs(folder.path()), format!("{SECRET}\n"));
    assert_no_secret(folder.path());
}

#[test]
fn the_start_of_an_edited_call_is_noted_without_the_secret() {
    let server = server(vec![call("to prod"), call(SECRET), text("so be it")]);
    let folder = prepared(SLOW, RULE);
    let (signal, _) = suspended(folder.path(), &server, &ASKING);
    std::fs::write(folder.path().join("arguments.json"), words(SECRET)).unwrap();
    let edit = ["signal", &signal, "--approve", "--edit", "arguments.json"];
    kill_in_the_tool(folder.path(), &server, &edit);
    assert_eq!(leaks(folder.path()), Vec::<String>::new());
    let allow = ["send", "--permission", "deploy=allow", "s", "next"];
    let ran = ask(folder.path(), &server, &allow);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(runs(folder.path()), format!("{SECRET}\n"));
    assert_no_secret(folder.path());
}

#[test]
fn an_edit_of_a_dead_process_runs_only_if_it_is_sent_again() {
    for again in [false, true] {
        let both = Answer::text("")
            .with_call("c1", "deploy", words("first"))
            .with_call("c2", "deploy", words("second"));
        let server = server(vec![Reply::Answer(both), text("so be it")]);
        let folder = prepared(SLOW, RULE);
        let (signal, _) = suspended(folder.path(), &server, &ASKING);
        std::fs::write(folder.path().join("arguments.json"), words(SECRET)).unwrap();
        let edit = [
            "signal",
            &signal,
            "--approve",
            "--edit",
            "c2=arguments.json",
        ];
        kill_in_the_tool(folder.path(), &server, &edit);
        assert_eq!(leaks(folder.path()), Vec::<String>::new());
        let recover = ["sessions", "recover", "s"];
        let next = if again { &edit[..] } else { &recover };
        let ran = ask(folder.path(), &server, next);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let expected = if again {
            format!("first\n{SECRET}\n")
        } else {
            "first\n".to_owned()
        };
        assert_eq!(runs(folder.path()), expected);
        let result = last_result(&server);
        assert_eq!(result.contains("arguments_redacted: "), !again, "{result}");
        assert_no_secret(folder.path());
    }
}

#[test]
fn imported_and_edited_text_is_stored_without_the_secret() {
    let server = server(vec![text("one"), text("two"), text("three")]);
    let folder = prepared(TOOL, RULE);
    let exported = json!({"messages": [
        {"role": "user", "content": format!("find {SECRET}")},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function",
             "function": {"name": "deploy", "arguments": words(SECRET)}}
        ]},
        {"role": "tool", "tool_call_id": "c1", "content": SECRET},
        {"role": "assistant", "content": "done"}
    ]});
    std::fs::write(folder.path().join("said.json"), exported.to_string()).unwrap();
    let import = ["sessions", "import", "--agent", "p.md", "said.json", "s"];
    let ran = ask(folder.path(), &server, &import);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(
        show(folder.path(), "s")["messages"][0]["content"],
        format!("find {SHOWN}")
    );
    assert_no_secret(folder.path());
    std::fs::write(
        folder.path().join("arguments.json"),
        format!("say {SECRET}"),
    )
    .unwrap();
    let edit = ["--step", "1", "--edit", "arguments.json", "--into", "t"];
    let rerun = [&["sessions", "rerun", "s"][..], &edit[..]].concat();
    let ran = ask(folder.path(), &server, &rerun);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(sent(&server, 0)[0]["content"], format!("say {SHOWN}"));
    // A call of the history runs only with complete arguments.
    let rerun = ["sessions", "rerun", "s", "--step", "2", "--into", "u"];
    let ran = ask(folder.path(), &server, &rerun);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(last_result(&server).starts_with("arguments_redacted: "));
    assert_eq!(runs(folder.path()), "");
    assert_no_secret(folder.path());
}

/// Text that is cut in a secret keeps no part of it.
#[test]
fn a_cut_secret_leaves_no_part() {
    let tool = format!("head -c 9985 /dev/zero | tr '\\0' ' '; echo '{SECRET} and more'; yes\n");
    let folder = prepared(&tool, RULE);
    let error = format!("{{\"error\":\"{} {SECRET} eeee\"}}", "e".repeat(380));
    let server = server(vec![call("now"), Reply::Status(400, Vec::new(), error)]);
    let ran = ask(folder.path(), &server, &SEND);
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    assert!(last_result(&server).contains("[output cut at 9985 bytes"));
    let part = &SECRET[..6];
    assert!(!ran.stderr.contains(part), "{}", ran.stderr);
    std::fs::remove_file(folder.path().join("deploy.sh")).unwrap();
    let stored = files_with(folder.path(), part.as_bytes());
    assert_eq!(stored, Vec::<String>::new());
}

/// The files that contain these bytes.
fn files_with(folder: &Path, searched: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).unwrap();
            if bytes.windows(searched.len()).any(|part| part == searched) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

/// The marks of a difference do not hide a secret of several lines.
#[test]
fn a_preview_shows_no_secret_of_several_lines() {
    let settings = "[[redact.rule]]\nname = \"key\"\npattern = \"BEGIN\\n[a-z]+\\nEND\"\n";
    let folder = prepared(TOOL, settings);
    let prompt = "<config model=\"m\"/>\n<tool name=\"find_and_replace\"/>\n";
    std::fs::write(folder.path().join("p.md"), prompt).unwrap();
    std::fs::write(
        folder.path().join("said.json"),
        "BEGIN\nhiddenx\nEND\nold\n",
    )
    .unwrap();
    let arguments = json!({"path": "said.json", "find": "old", "replace": "new", "all": false});
    let call = Answer::text("").with_call("c1", "find_and_replace", arguments.to_string());
    let server = server(vec![Reply::Answer(call)]);
    let arguments = [
        "send",
        "--agent",
        "p.md",
        "--permission",
        "find_and_replace=ask",
        "s",
        "go",
    ];
    let ran = ask(folder.path(), &server, &arguments);
    assert_eq!(ran.status, 6, "{}", ran.stderr);
    assert!(ran.stderr.contains("[redacted:lines]"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("hiddenx"), "{}", ran.stderr);
    let store = show(folder.path(), "s").to_string();
    assert!(!store.contains("hiddenx"), "{store}");
}
