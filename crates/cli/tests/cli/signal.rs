//! Tools that a person is asked about: in sessions, and in files.

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, events, folder, logue, run};
use crate::send::show;
use crate::waiting::wait_for_file;

const PROMPT: &str = "<config model=\"m\"/>\n<tool name=\"deploy\" command=\"sh deploy.sh\"/>\n\
                      <tool name=\"look\" command=\"echo seen\"/>\n";

const DEPLOY: &str = "echo ran >> runs\necho deployed\n";

fn prepared() -> tempfile::TempDir {
    folder(&[("p.md", PROMPT), ("deploy.sh", DEPLOY)])
}

fn server(last: &[&str]) -> ModelServer {
    let calls = Answer::text("Both.")
        .with_call("c1", "deploy", "{\"arguments\":[]}")
        .with_call("c2", "look", "{\"arguments\":[]}");
    let mut replies = vec![Reply::Answer(calls)];
    replies.extend(last.iter().map(|text| Reply::Answer(Answer::text(*text))));
    ModelServer::start(replies, Delivery::Whole).unwrap()
}

fn ask(folder: &Path, server: &ModelServer, arguments: &[&str]) -> Ran {
    let mut command = logue(folder);
    command
        .env("OPENAI_BASE_URL", server.base_url())
        .args(arguments);
    command.output().unwrap().into()
}

/// The signal that a suspended turn named, out of the command that it printed.
fn signal_of(ran: &Ran) -> String {
    assert_eq!(ran.status, 6, "{}", ran.stderr);
    let command = ran
        .stderr
        .lines()
        .find(|line| line.contains("logue signal"))
        .unwrap();
    command.split_whitespace().nth(2).unwrap().to_owned()
}

fn runs(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("runs")).unwrap_or_default()
}

/// What the model was sent last as the results of tools.
fn results(server: &ModelServer) -> Vec<String> {
    let requests = server.received();
    let messages = requests.last().unwrap().body["messages"].clone();
    let messages = messages.as_array().unwrap().clone();
    let last = messages.last().unwrap();
    assert_eq!(
        last["role"], "tool",
        "a request ends with what is to be answered"
    );
    let tools = messages.iter().filter(|message| message["role"] == "tool");
    tools
        .map(|message| message["content"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn an_approved_call_runs_once_and_the_first_decision_counts() {
    let server = server(&["deployed it"]);
    let folder = prepared();
    let send = [
        "send",
        "--agent",
        "p.md",
        "--permission",
        "deploy=ask",
        "s",
        "deploy!",
    ];
    let suspended = ask(folder.path(), &server, &send);
    let signal = signal_of(&suspended);
    assert!(
        signal.starts_with("approve-") && signal.ends_with("-1"),
        "{signal}"
    );
    assert_eq!(suspended.stdout, "Both.\n");
    assert_eq!(runs(folder.path()), "");
    let shown = show(folder.path(), "s");
    let pending = shown["messages"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .clone();
    assert!(
        pending["content"].as_str().unwrap().contains("deploy"),
        "{pending}"
    );
    assert_eq!(shown["suspended"][0]["metadata"]["calls"][0]["id"], "c1");
    let listed = run(folder.path(), ["sessions", "list"]);
    assert!(listed.stdout.contains(&signal), "{}", listed.stdout);

    let wrong = [
        "signal",
        &signal,
        "--payload",
        "{\"approval\": \"perhaps\"}",
    ];
    let wrong = ask(folder.path(), &server, &wrong);
    assert_eq!(wrong.status, 3);
    assert!(
        wrong.stderr.contains("suspension_resume_payload_invalid"),
        "{}",
        wrong.stderr
    );

    let approved = ask(folder.path(), &server, &["signal", &signal, "--approve"]);
    assert_eq!(
        (approved.status, approved.stdout.as_str()),
        (0, "deployed it\n"),
        "{}",
        approved.stderr
    );
    let tool_results = results(&server);
    assert!(
        tool_results[0].contains("deployed") && tool_results[1].contains("seen"),
        "{tool_results:?}"
    );

    let again = ask(folder.path(), &server, &["signal", &signal, "--deny"]);
    assert_eq!((again.status, again.stdout.as_str()), (3, ""));
    assert!(
        again.stderr.contains("error[signal_contradicts_earlier]"),
        "{}",
        again.stderr
    );
    let same = ask(folder.path(), &server, &["signal", &signal, "--approve"]);
    assert_eq!((same.status, same.stdout.as_str()), (0, "deployed it\n"));
    assert_eq!(runs(folder.path()), "ran\n");
    assert_eq!(server.received().len(), 2);
}

#[test]
fn a_denied_call_does_not_run_and_the_model_is_told_why() {
    let server = server(&["a pity"]);
    let folder = prepared();
    let send = [
        "send",
        "--agent",
        "p.md",
        "--permission",
        "*=ask",
        "s",
        "deploy!",
        "--json",
    ];
    let suspended = ask(folder.path(), &server, &send);
    assert_eq!(suspended.status, 6, "{}", suspended.stderr);
    let last = events(&suspended.stdout).pop().unwrap();
    assert_eq!(last["event"], "turn.suspended");
    let invocation = last["invocation_id"].as_str().unwrap();
    let deny = [
        "signal",
        invocation,
        "--deny",
        "--reason",
        "not on a Friday",
    ];
    let denied = ask(folder.path(), &server, &deny);
    assert_eq!(
        (denied.status, denied.stdout.as_str()),
        (0, "a pity\n"),
        "{}",
        denied.stderr
    );
    assert_eq!(runs(folder.path()), "");
    let tool_results = results(&server);
    assert_eq!(tool_results.len(), 2);
    assert!(
        tool_results
            .iter()
            .all(|text| text.contains("denied") && text.contains("Friday")),
        "{tool_results:?}"
    );
}

#[test]
fn calls_are_decided_one_by_one_and_tools_can_be_forbidden() {
    let server = server(&["half"]);
    let folder = prepared();
    let send = [
        "send",
        "--agent",
        "p.md",
        "--permission",
        "deploy=ask",
        "--permission",
        "look=deny",
        "s",
        "x",
    ];
    let signal = signal_of(&ask(folder.path(), &server, &send));
    let payload = "{\"approval\": {\"c1\": \"approve\"}, \"note\": \"go\"}";
    let ran = ask(
        folder.path(),
        &server,
        &["signal", &signal, "--payload", payload],
    );
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "half\n"),
        "{}",
        ran.stderr
    );
    let tool_results = results(&server);
    assert!(
        tool_results[0].contains("deployed") && tool_results[1].contains("may not be used"),
        "{tool_results:?}"
    );
}

#[test]
fn a_turn_that_comes_between_stays_and_every_request_is_valid() {
    let server = server(&["sure", "all done"]);
    let folder = prepared();
    let send = [
        "send",
        "--agent",
        "p.md",
        "--permission",
        "deploy=ask",
        "s",
        "deploy!",
    ];
    let signal = signal_of(&ask(folder.path(), &server, &send));
    let refused = ask(
        folder.path(),
        &server,
        &["send", "--while-paused", "reject", "s", "no"],
    );
    assert_eq!(refused.status, 3, "{}", refused.stderr);
    assert!(refused.stderr.contains(&signal), "{}", refused.stderr);
    let between = ask(folder.path(), &server, &["send", "s", "are you there?"]);
    assert_eq!(
        (between.status, between.stdout.as_str()),
        (0, "sure\n"),
        "{}",
        between.stderr
    );
    let approved = ask(folder.path(), &server, &["signal", &signal, "--approve"]);
    assert_eq!(
        (approved.status, approved.stdout.as_str()),
        (0, "all done\n"),
        "{}",
        approved.stderr
    );
    for request in server.received() {
        valid(&request.body["messages"]);
    }
    assert!(results(&server)[0].contains("deployed"));
}

/// Each call has its result right behind it, and nobody hears what is for people.
fn valid(messages: &Value) {
    let messages = messages.as_array().unwrap();
    for (at, message) in messages.iter().enumerate() {
        let calls = message["tool_calls"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        for (number, call) in calls.iter().enumerate() {
            let answer = &messages[at + 1 + number];
            assert_eq!(answer["tool_call_id"], call["id"], "{messages:#?}");
        }
        let text = message["content"].as_str().unwrap_or_default();
        assert!(!text.contains("Waiting for approval"), "{text}");
    }
}

#[test]
fn a_signal_that_nobody_waits_for_is_refused() {
    let folder = folder(&[]);
    let ran = run(folder.path(), ["signal", "approve-none-1", "--approve"]);
    assert_eq!(ran.status, 3);
    assert!(
        ran.stderr.contains("harness_signal_correlation_failed"),
        "{}",
        ran.stderr
    );
    let both = run(folder.path(), ["signal", "x", "--approve", "--deny"]);
    assert_eq!(both.status, 2);
}

#[test]
fn a_turn_of_a_file_waits_and_goes_on_in_the_file() {
    let server = server(&["deployed it", "anything else?"]);
    let folder = prepared();
    let plain = ask(
        folder.path(),
        &server,
        &["run", "--no-save", "--permission", "*=ask", "p.md", "x"],
    );
    assert_eq!(plain.status, 2, "{}", plain.stderr);
    assert!(!folder.path().join("s.db").exists());

    let arguments = [
        "run",
        "--store",
        "sqlite:s.db",
        "--permission",
        "deploy=ask",
        "p.md",
        "deploy!",
    ];
    let suspended = ask(folder.path(), &server, &arguments);
    let signal = signal_of(&suspended);
    assert!(
        suspended.stderr.contains("--store sqlite:s.db"),
        "{}",
        suspended.stderr
    );
    assert_eq!(runs(folder.path()), "");
    let signal = ["signal", &signal, "--store", "sqlite:s.db", "--approve"];
    let approved = ask(folder.path(), &server, &signal);
    assert_eq!(
        (approved.status, approved.stdout.as_str()),
        (0, "deployed it\n"),
        "{}",
        approved.stderr
    );
    let text = std::fs::read_to_string(folder.path().join("p.md")).unwrap();
    assert_eq!(chatmd::check(&text), []);
    for words in ["deploy!", "Both.", "deployed it"] {
        assert_eq!(text.matches(words).count(), 1, "{words}:\n{text}");
    }
    assert_eq!(results(&server).len(), 2);

    let again = ask(folder.path(), &server, &signal);
    assert_eq!(
        (again.status, again.stdout.as_str()),
        (0, "deployed it\n"),
        "{}",
        again.stderr
    );
    assert_eq!(
        std::fs::read_to_string(folder.path().join("p.md")).unwrap(),
        text
    );
    // A file's conversation has no second history.
    let name = format!(
        "file:{}",
        folder.path().canonicalize().unwrap().join("p.md").display()
    );
    let send = ["send", "--store", "sqlite:s.db", &name, "x"];
    assert_eq!(ask(folder.path(), &server, &send).status, 2);
    let next = ask(folder.path(), &server, &["run", "p.md", "thanks"]);
    assert_eq!(
        (next.status, next.stdout.as_str()),
        (0, "anything else?\n"),
        "{}",
        next.stderr
    );
    assert_eq!(runs(folder.path()), "ran\n");
}

#[test]
fn a_file_that_went_on_is_not_decided_about_any_more() {
    let server = server(&["never mind"]);
    let folder = prepared();
    let arguments = ["run", "--permission", "deploy=ask", "p.md", "deploy!"];
    let signal = signal_of(&ask(folder.path(), &server, &arguments));
    let on = ask(folder.path(), &server, &["run", "p.md", "forget it"]);
    assert_eq!(
        (on.status, on.stdout.as_str()),
        (0, "never mind\n"),
        "{}",
        on.stderr
    );
    let late = ask(folder.path(), &server, &["signal", &signal, "--approve"]);
    assert_eq!(late.status, 3, "{}", late.stderr);
    assert!(
        late.stderr.contains("suspension_record_invalid"),
        "{}",
        late.stderr
    );
    assert_eq!(runs(folder.path()), "");
}

/// Kills the process that runs an approved tool, and decides again.
fn killed_in_the_tool(folder: &Path, server: &ModelServer, signal: &str) -> Ran {
    let mut child = logue(folder)
        .env("OPENAI_BASE_URL", server.base_url())
        .args(["signal", signal, "--approve"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for_file(&folder.join("runs"));
    child.kill().unwrap();
    child.wait().unwrap();
    ask(folder, server, &["signal", signal, "--approve"])
}

#[test]
fn an_approved_call_that_was_killed_does_not_run_again() {
    let server = server(&["and now?"]);
    let slow = "echo ran >> runs\nsleep 20\n";
    let folder = folder(&[("p.md", PROMPT), ("deploy.sh", slow)]);
    let send = [
        "send",
        "--agent",
        "p.md",
        "--permission",
        "deploy=ask",
        "s",
        "deploy!",
    ];
    let signal = signal_of(&ask(folder.path(), &server, &send));
    let again = killed_in_the_tool(folder.path(), &server, &signal);
    assert_eq!(
        (again.status, again.stdout.as_str()),
        (0, "and now?\n"),
        "{}",
        again.stderr
    );
    let shown = show(folder.path(), "s");
    let messages = shown["messages"].as_array().unwrap();
    let results: Vec<&Value> = messages
        .iter()
        .filter(|message| message["role"] == "tool")
        .collect();
    assert_eq!(results.len(), 2, "{shown}");
    // The other call of the answer ran beside it, and may have ended before.
    for (result, name) in results.iter().zip(["deploy", "look"]) {
        let text = result["content"].as_str().unwrap();
        let is_cancelled = text.starts_with("E-TOOL-CANCELLED");
        assert!(is_cancelled || (name == "look" && text.starts_with("seen")));
    }
    assert_eq!(runs(folder.path()), "ran\n");
}

#[test]
fn an_approved_call_of_a_file_that_was_killed_does_not_run_again() {
    let server = server(&["and now?"]);
    let slow = "echo ran >> runs\nsleep 20\n";
    let folder = folder(&[("p.md", PROMPT), ("deploy.sh", slow)]);
    let arguments = ["run", "--permission", "deploy=ask", "p.md", "deploy!"];
    let signal = signal_of(&ask(folder.path(), &server, &arguments));
    let again = killed_in_the_tool(folder.path(), &server, &signal);
    assert_eq!(
        (again.status, again.stdout.as_str()),
        (0, "and now?\n"),
        "{}",
        again.stderr
    );
    let text = std::fs::read_to_string(folder.path().join("p.md")).unwrap();
    assert_eq!(chatmd::check(&text), []);
    assert_eq!(text.matches("<tool_response").count(), 2, "{text}");
    let next = ask(folder.path(), &server, &["run", "p.md", "go on"]);
    assert_eq!(
        (next.status, next.stdout.as_str()),
        (0, "and now?\n"),
        "{}",
        next.stderr
    );
    let request = server.received().pop().unwrap().body["messages"].clone();
    valid(&request);
    let results = request.as_array().unwrap().iter();
    let results: Vec<&Value> = results
        .filter(|message| message["role"] == "tool")
        .collect();
    // The calls ran side by side: the other one may have ended before the program was killed.
    for (result, name) in results.iter().zip(["deploy", "look"]) {
        let text = result["content"].as_str().unwrap();
        let is_cancelled = text.starts_with("E-TOOL-CANCELLED");
        assert!(is_cancelled || (name == "look" && text.starts_with("seen")));
    }
    assert_eq!(runs(folder.path()), "ran\n");
}

#[test]
fn a_turn_may_ask_twice_and_a_late_decision_is_told_its_own_outcome() {
    let call =
        |id: &str| Reply::Answer(Answer::text("").with_call(id, "deploy", "{\"arguments\":[]}"));
    let replies = vec![call("c1"), call("c2"), Reply::Answer(Answer::text("twice"))];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = prepared();
    let send = [
        "send",
        "--agent",
        "p.md",
        "--permission",
        "deploy=ask",
        "s",
        "deploy!",
    ];
    let first = signal_of(&ask(folder.path(), &server, &send));
    let second = signal_of(&ask(
        folder.path(),
        &server,
        &["signal", &first, "--approve"],
    ));
    assert_eq!(
        (&first[..first.len() - 1], &second[second.len() - 1..]),
        (&second[..second.len() - 1], "2")
    );
    let late = ask(folder.path(), &server, &["signal", &first, "--approve"]);
    assert_eq!(signal_of(&late), second);
    let done = ask(folder.path(), &server, &["signal", &second, "--approve"]);
    assert_eq!(
        (done.status, done.stdout.as_str()),
        (0, "twice\n"),
        "{}",
        done.stderr
    );
    assert_eq!(runs(folder.path()), "ran\nran\n");
    for request in server.received() {
        valid(&request.body["messages"]);
    }
}

/// Replaces bytes of the session store by others of the same length.
fn damage(folder: &Path, from: &[u8], to: &[u8]) {
    let store = folder.join(".data/logue/sessions.db");
    let mut bytes = std::fs::read(&store).unwrap();
    let at = bytes.windows(from.len()).position(|part| part == from);
    bytes.splice(at.unwrap()..at.unwrap() + from.len(), to.iter().copied());
    std::fs::write(store, bytes).unwrap();
}

/// A lost rule may have asked or denied: nothing runs unasked after a repair.
#[test]
fn after_a_repair_that_lost_labels_every_tool_asks() {
    let call = Answer::text("Now.").with_call("c1", "deploy", "{\"arguments\":[]}");
    let replies = vec![Reply::Answer(Answer::text("hi")), Reply::Answer(call)];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = prepared();
    let permission = ["--permission", "deploy=ask", "s", "hello"];
    let send = [["send", "--agent", "p.md"].as_slice(), &permission].concat();
    assert_eq!(ask(folder.path(), &server, &send).status, 0);
    damage(folder.path(), b"deploy=ask", b"deploy=asl");
    let refused = ask(folder.path(), &server, &["send", "s", "deploy!"]);
    assert_eq!(refused.status, 5, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("sessions repair"),
        "{}",
        refused.stderr
    );
    let repaired = ask(folder.path(), &server, &["sessions", "repair"]);
    assert_eq!(repaired.status, 0, "{}", repaired.stderr);
    let asked = ask(folder.path(), &server, &["send", "s", "deploy!"]);
    assert_eq!(asked.status, 6, "{}", asked.stderr);
    assert_eq!(runs(folder.path()), "");
}
