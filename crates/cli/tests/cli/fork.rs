//! `fork`: a copy of the conversation with its own request, one budget, and decisions each time.

use std::path::Path;

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, folder, logue, run};
use crate::screen::Screen;
use crate::transcript::{say, serve, text};

const PROMPT: &str = "<config model=\"m\" temperature=\"0.5\" show_tool_call/>\n<tool name=\"read_file\"/>\n\
    <tool name=\"fork\"/>\n<tool name=\"write_file\"/>\n<system>Be brief.</system>\n";
const ANSWER: &str = "===RESULT===\nOne line.\n===PERSIST===\nnotes.txt has one line.";

fn fork(id: &str) -> Answer {
    Answer::text("").with_call(
        id,
        "fork",
        r#"{"command":"Count the lines.","arguments":["notes.txt","quickly"]}"#,
    )
}

fn write(id: &str, path: &str) -> Answer {
    let arguments = json!({"path": path, "content": "x\n"}).to_string();
    Answer::text("").with_call(id, "write_file", arguments)
}

fn prepared(prompt: &str) -> tempfile::TempDir {
    folder(&[("p.md", prompt), ("notes.txt", "a\n")])
}

fn messages(server: &ModelServer, request: usize) -> Vec<Value> {
    let body = server.received()[request].body.clone();
    serde_json::from_value(body["messages"].clone()).unwrap()
}

/// The content of the last message of a request.
fn last(server: &ModelServer, request: usize) -> String {
    let messages = messages(server, request);
    messages.last().unwrap()["content"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn tools(server: &ModelServer, request: usize) -> Vec<Value> {
    let body = server.received()[request].body.clone();
    serde_json::from_value(body["tools"].clone()).unwrap()
}

#[test]
fn a_fork_has_the_history_and_its_answer_is_the_result_of_the_call() {
    let both = fork("c1").with_call("c2", "read_file", r#"{"file":"notes.txt"}"#);
    let server = serve(vec![
        both,
        Answer::text("I look.").with_call("d1", "read_file", r#"{"file":"notes.txt"}"#),
        Answer::text(format!("Here it is:\n{ANSWER}\n")),
        Answer::text("There is one line."),
    ]);
    let folder = prepared(PROMPT);
    let ran = say(
        folder.path(),
        &server,
        &["run", "--trust", "p.md", "How long is it?"],
    );
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "There is one line.\n"),
        "{}",
        ran.stderr
    );
    assert_eq!(server.received().len(), 4);

    let begun = messages(&server, 0);
    let child = messages(&server, 1);
    assert_eq!(child[..2], begun[..]);
    assert_eq!(child[2]["role"], "assistant");
    assert_eq!(child[2]["tool_calls"].as_array().unwrap().len(), 2);
    let task = "You are now a fork of this conversation. You have all of its history, and your steps are \
        not added to it. Work on this task only:\n\nCount the lines.\n- notes.txt\n- quickly\n\nUse your \
        tools if you need them; their effects are real. You cannot fork again. Then answer once, in this \
        form:\n\n===RESULT===\nthe result of the task, complete and short\n===PERSIST===\nfacts and \
        decisions that the conversation needs later, or nothing";
    assert_eq!(
        child[3..],
        [
            json!({"role": "tool", "tool_call_id": "c1", "content": task}),
            json!({"role": "tool", "tool_call_id": "c2", "content":
                "This call belongs to the conversation that was forked; its result is not known here."}),
        ]
    );
    // The model, the settings and all other tools are the same.
    let (parent, forked) = (
        server.received()[0].body.clone(),
        server.received()[1].body.clone(),
    );
    for key in ["model", "temperature", "stream"] {
        assert_eq!(parent[key], forked[key], "{key}");
    }
    let mut others = tools(&server, 0);
    others.retain(|tool| tool["function"]["name"] != "fork");
    assert_eq!(tools(&server, 1), others);
    assert_eq!(others.len(), 2);
    // Its own steps follow, and the conversation gets its answer only.
    assert!(last(&server, 2).ends_with("a\n"));
    let next = messages(&server, 3);
    assert_eq!(next.len(), begun.len() + 3);
    assert_eq!(next[3]["content"], ANSWER);
    assert!(next[4]["content"].as_str().unwrap().ends_with("a\n"));

    let written = text(folder.path(), "p.md");
    assert!(
        !written.contains("d1") && !written.contains("I look."),
        "{written}"
    );
    assert_eq!(written.matches("<tool_response").count(), 2, "{written}");
    let checked = run(folder.path(), ["check", "--deny", "warnings", "p.md"]);
    assert_eq!(checked.status, 0, "{}", checked.stderr);
    // The steps are kept and shown like those of agents.
    let shown = run(folder.path(), ["view", "--show-hidden", "p.md"]).stdout;
    let line = "assistant · commentary · agent fork · called_by c1 · to read_file · call_id d1";
    assert!(shown.contains(line), "{shown}");
}

#[test]
fn a_fork_of_a_transcript_of_frames_runs_in_sessions_too() {
    let header = "version: 2.2\nmodel: m\ngeneration_settings: {builtin_tools: [fork]}\n";
    let folder = folder(&[("p.ocml", header), ("p.md", PROMPT)]);
    for command in [
        &["run", "--permission", "fork=allow", "p.ocml", "go"][..],
        &["send", "--trust", "--agent", "p.md", "s", "go"],
    ] {
        let server = serve(vec![
            fork("c1"),
            Answer::text(ANSWER),
            Answer::text("Done."),
        ]);
        let ran = say(folder.path(), &server, command);
        assert_eq!(
            (ran.status, ran.stdout.as_str()),
            (0, "Done.\n"),
            "{}",
            ran.stderr
        );
        assert!(last(&server, 1).contains("Count the lines."), "{command:?}");
        let result = last(&server, 2);
        assert!(result.contains("notes.txt has one line."), "{result}");
    }
    let checked = run(folder.path(), ["check", "--deny", "warnings", "p.ocml"]);
    assert_eq!(checked.status, 0, "{}", checked.stderr);
}

#[test]
fn a_fork_shares_the_limits_of_its_conversation() {
    // Each answer of the server uses 18 tokens.
    for (limit, requests, reason) in [
        (&["--max-requests", "2"][..], 2, "max_requests_reached"),
        (&["--max-total-tokens", "36"], 2, "budget_exceeded"),
    ] {
        let server = serve(vec![
            fork("c1"),
            Answer::text("").with_call("d1", "read_file", r#"{"file":"notes.txt"}"#),
            Answer::text(ANSWER),
            Answer::text("Done."),
        ]);
        let folder = prepared(PROMPT);
        let arguments = [&["run", "--trust"], limit, &["p.md", "go"]].concat();
        let ran = say(folder.path(), &server, &arguments);
        assert_eq!(ran.status, 3, "{limit:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(reason), "{}", ran.stderr);
        assert_eq!(server.received().len(), requests, "{limit:?}");
        let written = text(folder.path(), "p.md");
        assert!(
            written.contains("E-MD-AGENT-FAILED") && written.contains(reason),
            "{written}"
        );
    }
    let server = serve(vec![
        fork("c1"),
        Answer::text(ANSWER),
        Answer::text("Done."),
    ]);
    let folder = prepared(PROMPT);
    let ran = say(
        folder.path(),
        &server,
        &["run", "--trust", "--json", "p.md", "go"],
    );
    let end: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(end["requests"], 3, "{end}");
    assert_eq!(
        end["usage"]["input_tokens"].as_u64().unwrap() % 3,
        0,
        "{end}"
    );
}

#[test]
fn the_deadline_of_the_call_ends_the_fork() {
    let call = Answer::text("").with_call(
        "c1",
        "fork",
        r#"{"command":"Count.","arguments":[],"deadline_ms":300}"#,
    );
    let replies = vec![
        Reply::Answer(call),
        Reply::Silent,
        Reply::Answer(Answer::text("Late.")),
    ];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = prepared(PROMPT);
    let ran = say(folder.path(), &server, &["run", "--trust", "p.md", "go"]);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "Late.\n"),
        "{}",
        ran.stderr
    );
    assert!(
        last(&server, 2).contains("E-TOOL-TIMEOUT"),
        "{}",
        last(&server, 2)
    );
}

#[test]
fn a_fork_changes_nothing_without_a_decision_and_never_forks() {
    let server = serve(vec![
        fork("c1"),
        write("d1", "child.txt"),
        fork("d2"),
        Answer::text(ANSWER),
        write("c2", "parent.txt"),
        Answer::text("Done."),
    ]);
    let folder = prepared(PROMPT);
    let words = [
        "run",
        "--trust",
        "--permission",
        "write_file=allow",
        "p.md",
        "go",
    ];
    let ran = say(folder.path(), &server, &words);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let refused = last(&server, 2);
    assert!(refused.contains("tool_not_permitted"), "{refused}");
    assert!(
        refused.contains("each call of a fork that may change something"),
        "{refused}"
    );
    assert!(!folder.path().join("child.txt").exists());
    let nested = last(&server, 3);
    assert!(
        nested.contains("no tool named `fork` is declared"),
        "{nested}"
    );
    // The permission of the conversation itself is not affected.
    assert!(folder.path().join("parent.txt").exists());

    // Fewer permissions stay fewer, and an undeclared tool is not offered.
    let server = serve(vec![
        fork("c1"),
        Answer::text("").with_call("d1", "read_file", r#"{"file":"notes.txt"}"#),
        Answer::text(ANSWER),
        Answer::text("Done."),
    ]);
    let folder = prepared(PROMPT);
    let words = [
        "run",
        "--trust",
        "--permission",
        "read_file=deny",
        "p.md",
        "go",
    ];
    let ran = say(folder.path(), &server, &words);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(
        last(&server, 2).contains("tool_not_permitted"),
        "{}",
        last(&server, 2)
    );
    for (flags, declared) in [
        (
            &["--permission", "fork=deny"][..],
            "<tool name=\"fork\"/>\n",
        ),
        (&[], ""),
    ] {
        let server = serve(vec![fork("c1"), Answer::text("Done.")]);
        let prompt = format!("<config model=\"m\"/>\n<tool name=\"read_file\"/>\n{declared}");
        let folder = prepared(&prompt);
        let arguments = [&["run", "--trust"], flags, &["p.md", "go"]].concat();
        let ran = say(folder.path(), &server, &arguments);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        assert_eq!(server.received().len(), 2, "{declared}");
    }
}

fn at_terminal(folder: &Path, server: &ModelServer) -> Screen {
    let mut command = logue(folder);
    command.env("OPENAI_BASE_URL", server.base_url());
    let allow = [
        "--permission",
        "write_file=allow",
        "--permission",
        "helper=allow",
    ];
    command
        .args(["run", "--trust"])
        .args(allow)
        .args(["p.md", "go"]);
    Screen::start(&mut command)
}

#[test]
fn a_person_decides_about_each_call_of_a_fork_and_of_its_agents() {
    let prompt = format!("{PROMPT}<tool name=\"helper\" agent=\"helper.md\" local/>\n");
    let server = serve(vec![
        fork("c1"),
        write("d1", "one.txt"),
        write("d2", "two.txt"),
        write("d3", "three.txt"),
        Answer::text("").with_call("d4", "helper", r#"{"input":"go"}"#),
        fork("e1"),
        write("e2", "four.txt"),
        Answer::text("helped"),
        Answer::text(ANSWER),
        Answer::text("Done."),
    ]);
    let folder = folder(&[
        ("p.md", &prompt),
        (
            "helper.md",
            "<config model=\"m\"/>\n<tool name=\"fork\"/>\n<tool name=\"write_file\"/>\n",
        ),
    ]);
    let mut screen = at_terminal(folder.path(), &server);
    let asked = "Run write_file? [y/N/e/s/?] ";
    screen.expect(asked);
    screen.press("y\n");
    screen.expect_times(asked, 2);
    assert!(folder.path().join("one.txt").exists());
    // A decision about all calls of a tool is not offered.
    screen.press("a\n");
    screen.expect_times(asked, 3);
    assert!(!folder.path().join("two.txt").exists());
    screen.press("y\n");
    screen.expect_times(asked, 4);
    screen.press("n\n");
    screen.expect("Run helper? [y/N/e/s/?] ");
    screen.press("y\n");
    let (status, text) = screen.end();
    assert_eq!(status, 0, "{text}");
    for (file, is_written) in [("two.txt", true), ("three.txt", false), ("four.txt", false)] {
        assert_eq!(
            folder.path().join(file).exists(),
            is_written,
            "{file}: {text}"
        );
    }
    // An agent that the fork calls neither forks nor changes anything.
    let nested = last(&server, 6);
    assert!(
        nested.contains("no tool named `fork` is declared"),
        "{nested}"
    );
    assert!(
        last(&server, 7).contains("tool_not_permitted"),
        "{}",
        last(&server, 7)
    );
}

#[test]
fn check_knows_the_tool_and_its_arguments() {
    let call = |arguments: &str| {
        format!(
            "<tool name=\"fork\"/>\n<tool_call tool_call_id=\"1\" function_name=\"fork\">{arguments}</tool_call>\n\
             <tool_response tool_call_id=\"1\">x</tool_response>\n"
        )
    };
    for (arguments, status) in [
        (r#"{"command":"a","arguments":[]}"#, 0),
        (r#"{"command":"a"}"#, 8),
        (r#"{"command":"a","arguments":"b"}"#, 8),
    ] {
        let folder = folder(&[("p.md", &call(arguments))]);
        let checked: Ran = run(folder.path(), ["check", "--deny", "warnings", "p.md"]);
        assert_eq!(checked.status, status, "{arguments}: {}", checked.stderr);
    }
}
