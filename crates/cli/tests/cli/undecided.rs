//! Calls that waited for a decision when the process ended: they are reported as not run.

use std::path::Path;

use serde_json::Value;
use testkit::{Answer, Reply};

use crate::program::{Ran, folder, logue, run};
use crate::screen::{Screen, asked, call, prepared, runs, server, text_reply};
use crate::waiting::wait_until;

const NOT_RUN: &str = "the run ended before this call was approved, so it was not run.";
const UNKNOWN: &str = "it may have run or not";

fn read(folder: &Path, file: &str) -> String {
    std::fs::read_to_string(folder.join(file)).unwrap()
}

/// The transcript with its payload files.
fn whole(folder: &Path) -> String {
    let mut text = read(folder, "p.md");
    for file in std::fs::read_dir(folder.join(".chatmd")).unwrap() {
        text.push_str(&std::fs::read_to_string(file.unwrap().path()).unwrap());
    }
    text
}

/// Kills the program without a chance to write.
fn kill(mut screen: Screen) {
    screen.child.kill().unwrap();
    screen.child.wait().unwrap();
    drop(screen.keys);
    screen.reader.join().unwrap();
}

/// The texts of the tool results in the latest request.
fn results(server: &testkit::ModelServer) -> Vec<String> {
    let requests = server.received();
    let messages = requests.last().unwrap().body["messages"].clone();
    let messages: Vec<Value> = serde_json::from_value(messages).unwrap();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    results
        .map(|message| message["content"].as_str().unwrap().to_owned())
        .collect()
}

/// Continues the conversation of a file; every call is denied.
fn next(folder: &Path, server: &testkit::ModelServer, tool: &str, file: &str) -> Ran {
    let mut command = logue(folder);
    command.env("OPENAI_BASE_URL", server.base_url());
    let deny = format!("{tool}=deny");
    command.args(["run", "--permission", &deny, file, "and now?"]);
    command.output().unwrap().into()
}

#[test]
fn a_call_whose_process_was_killed_while_a_person_was_asked_was_not_run() {
    let both = Answer::text("")
        .with_call("c1", "read_file", r#"{"file":"deploy.sh"}"#)
        .with_call("c2", "deploy", r#"{"arguments":["x"]}"#);
    let server = server(vec![Reply::Answer(both), text_reply("Then not.")]);
    let folder = folder(&[
        (
            "p.md",
            "<config model=\"m\"/>\n<tool name=\"read_file\"/>\n\
             <tool name=\"deploy\" command=\"sh deploy.sh\"/>\n",
        ),
        ("deploy.sh", "echo ran >> runs\n"),
    ]);
    let screen = Screen::start(&mut asked(folder.path(), &server));
    screen.expect("Run deploy?");
    kill(screen);
    let written = read(folder.path(), "p.md");
    assert_eq!(written.matches("<tool_response").count(), 2, "{written}");
    assert_eq!(written.matches(NOT_RUN).count(), 2, "{written}");
    let checked = run(folder.path(), ["check", "--deny", "warnings", "p.md"]);
    assert_eq!(checked.status, 0, "{}", checked.stderr);

    let ran = next(folder.path(), &server, "deploy", "p.md");
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "Then not.\n"),
        "{}",
        ran.stderr
    );
    let sent = results(&server);
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert!(sent.iter().all(|text| text.contains(NOT_RUN)), "{sent:?}");
    assert!(read(folder.path(), "p.md").starts_with(&written));
    assert_eq!(runs(folder.path()), "");
}

#[test]
fn a_transcript_of_frames_has_the_result_in_its_form() {
    let header = "version: 2.2\nmodel: m\ngeneration_settings: {builtin_tools: [write_file]}\n";
    let folder = folder(&[("p.ocml", header)]);
    let call = Answer::text("").with_call("c1", "write_file", r#"{"path":"b","content":"b"}"#);
    let server = server(vec![Reply::Answer(call), text_reply("Then not.")]);
    let mut command = logue(folder.path());
    command.env("OPENAI_BASE_URL", server.base_url());
    command.args(["run", "--permission", "write_file=ask", "p.ocml", "go"]);
    let screen = Screen::start(&mut command);
    screen.expect("Run write_file?");
    kill(screen);
    let written = read(folder.path(), "p.ocml");
    let reply = written
        .lines()
        .find(|line| line.starts_with("<|start|>tool"));
    let body = reply.unwrap().split("<|message|>").nth(1).unwrap();
    let body: Value = serde_json::from_str(body.strip_suffix("<|end|>").unwrap()).unwrap();
    assert_eq!(body["ok"], false, "{body}");
    assert_eq!(body["error"]["code"], "E-TOOL-CANCELLED", "{body}");
    assert!(body.to_string().contains(NOT_RUN), "{body}");
    let ran = next(folder.path(), &server, "write_file", "p.ocml");
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(results(&server)[0].contains(NOT_RUN));
    assert!(!folder.path().join("b").exists());
}

#[test]
fn a_call_that_was_approved_has_its_own_result_only() {
    for (key, expected) in [("y\n", "ran x"), ("n\n", "denied")] {
        let server = server(vec![call("c1", "x"), text_reply("fine")]);
        let folder = prepared();
        std::fs::write(
            folder.path().join("deploy.sh"),
            "echo ran $* | tee -a runs\n",
        )
        .unwrap();
        let mut screen = Screen::start(&mut asked(folder.path(), &server));
        screen.expect("Run deploy?");
        screen.press(key);
        let (status, text) = screen.end();
        assert_eq!(status, 0, "{text}");
        let written = whole(folder.path());
        assert_eq!(written.matches("<tool_response").count(), 1, "{written}");
        assert!(
            !written.contains(NOT_RUN) && written.contains(expected),
            "{written}"
        );
    }
}

#[test]
fn a_call_that_was_killed_after_its_approval_may_have_run() {
    let server = server(vec![call("c1", "x"), text_reply("Hm.")]);
    let folder = prepared();
    std::fs::write(
        folder.path().join("deploy.sh"),
        "echo ran >> runs\ntail -f runs\n",
    )
    .unwrap();
    let mut screen = Screen::start(&mut asked(folder.path(), &server));
    screen.expect("Run deploy?");
    screen.press("y\n");
    wait_until(
        || "it does not run".to_owned(),
        || runs(folder.path()) == "ran\n",
    );
    kill(screen);
    let written = read(folder.path(), "p.md");
    assert!(!written.contains("<tool_response"), "{written}");
    let ran = next(folder.path(), &server, "deploy", "p.md");
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let sent = results(&server);
    assert!(sent[0].contains(UNKNOWN), "{sent:?}");
}

#[test]
fn a_suspended_call_was_not_run_if_the_conversation_continues_without_a_decision() {
    let server = server(vec![call("c1", "x"), text_reply("Then not.")]);
    let folder = prepared();
    let suspended: Ran = asked(folder.path(), &server).output().unwrap().into();
    assert_eq!(suspended.status, 6, "{}", suspended.stderr);
    // The decision can still be made.
    assert!(!read(folder.path(), "p.md").contains("<tool_response"));
    let ran = next(folder.path(), &server, "deploy", "p.md");
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "Then not.\n"),
        "{}",
        ran.stderr
    );
    let sent = results(&server);
    assert!(sent.len() == 1 && sent[0].contains(NOT_RUN), "{sent:?}");
    let written = whole(folder.path());
    assert!(
        written.contains(NOT_RUN) && !written.contains(UNKNOWN),
        "{written}"
    );
}

/// An answer with a call that is asked about and one that is not.
fn two_calls() -> Reply {
    let both = Answer::text("")
        .with_call("c1", "deploy", r#"{"arguments":["x"]}"#)
        .with_call("c2", "effect", r#"{"arguments":["y"]}"#);
    Reply::Answer(both)
}

/// A prompt with both tools.
fn with_effect(deploy: &str) -> tempfile::TempDir {
    folder(&[
        (
            "p.md",
            "<config model=\"m\"/>\n<tool name=\"deploy\" command=\"sh deploy.sh\"/>\n\
             <tool name=\"effect\" command=\"sh effect.sh\"/>\n",
        ),
        ("deploy.sh", deploy),
        ("effect.sh", "echo effect >> effects\n"),
    ])
}

/// Runs the program to its end.
fn ran(folder: &Path, server: &testkit::ModelServer, arguments: &[&str]) -> Ran {
    let mut command = logue(folder);
    command.env("OPENAI_BASE_URL", server.base_url());
    command.args(arguments).output().unwrap().into()
}

#[test]
fn the_other_calls_of_a_suspended_answer_were_not_run_either() {
    let server = server(vec![two_calls(), text_reply("Then not.")]);
    let folder = with_effect("echo ran >> runs\n");
    let suspended: Ran = asked(folder.path(), &server).output().unwrap().into();
    assert_eq!(suspended.status, 6, "{}", suspended.stderr);
    let continued = ran(folder.path(), &server, &["run", "p.md", "never mind"]);
    assert_eq!(continued.status, 0, "{}", continued.stderr);
    let sent = results(&server);
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert!(sent.iter().all(|text| text.contains(NOT_RUN)), "{sent:?}");
    let written = whole(folder.path());
    assert_eq!(written.matches(NOT_RUN).count(), 2, "{written}");
    assert!(!folder.path().join("effects").exists());
    assert_eq!(runs(folder.path()), "");
}

#[test]
fn the_other_calls_of_a_suspended_answer_in_frames_were_not_run_either() {
    let tools = "generation_settings: {builtin_tools: [write_file, append_to_file]}";
    let header = format!("version: 2.2\nmodel: m\n{tools}\n");
    let folder = folder(&[("p.ocml", &header)]);
    let both = Answer::text("")
        .with_call("c1", "write_file", r#"{"path":"a","content":"a"}"#)
        .with_call("c2", "append_to_file", r#"{"path":"b","content":"b"}"#);
    let server = server(vec![Reply::Answer(both), text_reply("Then not.")]);
    let rules = ["--permission", "write_file=ask", "--permission"];
    let first = ["run", rules[0], rules[1], rules[2], "append_to_file=allow"];
    let suspended = ran(
        folder.path(),
        &server,
        &[&first[..], &["p.ocml", "go"]].concat(),
    );
    assert_eq!(suspended.status, 6, "{}", suspended.stderr);
    let continued = ran(folder.path(), &server, &["run", "p.ocml", "never mind"]);
    assert_eq!(continued.status, 0, "{}", continued.stderr);
    let sent = results(&server);
    assert_eq!(sent.len(), 2, "{sent:?}");
    for text in &sent {
        let body: Value = serde_json::from_str(text).unwrap();
        assert_eq!(body["error"]["code"], "E-TOOL-CANCELLED", "{body}");
        assert!(text.contains(NOT_RUN), "{text}");
    }
    assert!(!folder.path().join("a").exists() && !folder.path().join("b").exists());
}

#[test]
fn the_other_calls_of_a_suspended_answer_may_have_run_after_its_approval() {
    let server = server(vec![two_calls(), text_reply("Hm.")]);
    let folder = with_effect("echo ran >> runs\ntail -f runs\n");
    let suspended: Ran = asked(folder.path(), &server).output().unwrap().into();
    assert_eq!(suspended.status, 6, "{}", suspended.stderr);
    let mut command = logue(folder.path());
    command.env("OPENAI_BASE_URL", server.base_url());
    let mut words = suspended.stderr.split_whitespace();
    let signal = words.find(|word| word.starts_with("approve-")).unwrap();
    command.args(["signal", signal, "--approve"]);
    let screen = Screen::start(&mut command);
    wait_until(
        || "it does not run".to_owned(),
        || runs(folder.path()) == "ran\n",
    );
    kill(screen);
    let continued = ran(folder.path(), &server, &["run", "p.md", "never mind"]);
    assert_eq!(continued.status, 0, "{}", continued.stderr);
    let sent = results(&server);
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert!(sent[0].contains(UNKNOWN), "{sent:?}");
    assert!(sent.iter().all(|text| !text.contains(NOT_RUN)), "{sent:?}");
}

#[test]
fn the_other_calls_of_a_suspended_answer_of_a_session_were_not_run_yet() {
    let server = server(vec![two_calls(), text_reply("Then not.")]);
    let folder = with_effect("echo ran >> runs\n");
    let send = |text| {
        let arguments = ["send", "--agent", "p.md", "--permission", "deploy=ask", "s"];
        ran(folder.path(), &server, &[&arguments[..], &[text]].concat())
    };
    let suspended = send("go");
    assert_eq!(suspended.status, 6, "{}", suspended.stderr);
    let continued = send("never mind");
    assert_eq!(continued.status, 0, "{}", continued.stderr);
    let sent = results(&server);
    assert_eq!(sent.len(), 2, "{sent:?}");
    let is_open = |text: &String| text.contains("was not run yet") && !text.contains(UNKNOWN);
    assert!(sent.iter().all(is_open), "{sent:?}");
    assert!(!folder.path().join("effects").exists());
}

#[test]
fn a_call_of_a_session_that_was_killed_while_a_person_was_asked_is_asked_about_again() {
    let server = server(vec![call("c1", "x"), text_reply("Then not.")]);
    let folder = prepared();
    let send = |permission: &str| {
        let mut command = logue(folder.path());
        command.env("OPENAI_BASE_URL", server.base_url());
        command.args([
            "send",
            "--agent",
            "p.md",
            "--permission",
            permission,
            "s",
            "go",
        ]);
        command
    };
    let screen = Screen::start(&mut send("deploy=ask"));
    screen.expect("Run deploy?");
    kill(screen);
    let ran: Ran = send("deploy=deny").output().unwrap().into();
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let sent = results(&server);
    assert!(!sent.is_empty(), "{}", ran.stderr);
    assert!(sent.iter().all(|text| !text.contains(UNKNOWN)), "{sent:?}");
    assert_eq!(runs(folder.path()), "");
}
