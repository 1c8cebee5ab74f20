//! Where a run reads and writes, and what it tells.

use std::os::unix::fs::PermissionsExt as _;

use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, contents, events, folder, logue, run, run_with_input};

fn server(answers: &[&str]) -> ModelServer {
    let replies = answers
        .iter()
        .map(|text| Reply::Answer(Answer::text(*text)))
        .collect();
    ModelServer::start(replies, Delivery::Random(2)).unwrap()
}

const PROMPT: &str = "<config model=\"m\"/>\n<user>hello</user>\n";

#[test]
fn a_conversation_goes_on_from_its_file() {
    let server = server(&["one", "two"]);
    let folder = folder(&[("prompt.md", PROMPT)]);
    let url = server.base_url();
    let say = |arguments: &[&str]| {
        let command = logue(folder.path())
            .args(arguments)
            .env("OPENAI_BASE_URL", &url)
            .output();
        Ran::from(command.unwrap())
    };
    assert_eq!(say(&["run", "prompt.md"]).stdout, "one\n");
    assert_eq!(say(&["run", "prompt.md", "and", "then?"]).stdout, "two\n");
    let text = std::fs::read_to_string(folder.path().join("prompt.md")).unwrap();
    let expected = format!(
        "{PROMPT}<assistant>\nRAW|one|RAW</assistant>\n<user>\nRAW|and then?|RAW</user>\n\
         <assistant>\nRAW|two|RAW</assistant>\n"
    );
    assert_eq!(text, expected);
    let sent = &server.received()[1].body["messages"];
    let texts: Vec<&str> = sent
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["hello", "one", "and then?"]);
    let complete = say(&["run", "-o", "a talk.md", "prompt.md"]);
    assert_eq!(complete.status, 3);
    let lines = "error[no_user_input]: the conversation is complete: its last message is the assistant's \
                 answer\n  = help: ask with a message: logue run -o 'a talk.md' prompt.md \"…\"\n";
    assert!(complete.stderr.contains(lines), "{}", complete.stderr);
}

#[test]
fn standard_input_is_a_prompt_or_a_message() {
    let server = server(&["fine"]);
    let folder = folder(&[("prompt.md", PROMPT)]);
    let url = server.base_url();
    let ran = run_with_input(folder.path(), &["run", "--base-url", &url, "-"], PROMPT);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "fine\n"),
        "{}",
        ran.stderr
    );
    assert_eq!(contents(folder.path()).len(), 1);
    let ran = run_with_input(
        folder.path(),
        &["run", "--base-url", &url, "prompt.md", "-"],
        "a <b> |RAW & \"c\"\n",
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let sent = &server.received()[1].body["messages"];
    // The newline of the last line is no part of what is said.
    let text = sent[0]["content"].as_str().unwrap();
    assert!(text.ends_with("\n\na <b> |RAW & \"c\""), "{text}");
}

#[test]
fn another_transcript_is_started_and_continued() {
    let server = server(&["one", "two"]);
    let folder = folder(&[("p/prompt.md", PROMPT), ("t/keep", "")]);
    let url = server.base_url();
    for answer in ["one\n", "two\n"] {
        let ran = Ran::from(
            logue(folder.path())
                .args(["run", "-o", "t/talk.md", "p/prompt.md", "next"])
                .env("OPENAI_BASE_URL", &url)
                .output()
                .unwrap(),
        );
        assert_eq!(
            (ran.status, ran.stdout.as_str()),
            (0, answer),
            "{}",
            ran.stderr
        );
    }
    assert_eq!(
        std::fs::read_to_string(folder.path().join("p/prompt.md")).unwrap(),
        PROMPT
    );
    let path = folder.path().join("t/talk.md");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text.starts_with(PROMPT) && text.ends_with("RAW|two|RAW</assistant>\n"),
        "{text}"
    );
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

#[test]
fn events_are_one_json_object_a_line() {
    let call = Answer::text("looking")
        .with_reasoning("secret thought")
        .with_call("c1", "read_file", "{\"file\":\"a.txt\"}");
    let replies = vec![
        Reply::Answer(call),
        Reply::Answer(Answer::text("it says x")),
    ];
    let server = ModelServer::start(replies, Delivery::Random(4)).unwrap();
    let prompt = "<config model=\"m\"/>\n<tool name=\"read_file\"/>\n<system>hidden</system>\n<user>q</user>\n";
    let folder = folder(&[("prompt.md", prompt), ("a.txt", "x\n")]);
    let ran = run(
        folder.path(),
        [
            "run",
            "--json",
            "--base-url",
            &server.base_url(),
            "prompt.md",
        ],
    );
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    assert!(!ran.stdout.contains("secret thought") && !ran.stdout.contains("hidden"));
    let events = events(&ran.stdout);
    let kinds: Vec<&str> = events
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .filter(|kind| *kind != "response.delta")
        .collect();
    assert_eq!(
        kinds,
        [
            "turn.started",
            "message.completed",
            "tool.call",
            "tool.result",
            "message.completed",
            "turn.completed"
        ]
    );
    let streamed: String = events
        .iter()
        .filter(|event| event["event"] == "response.delta")
        .map(|event| event["text"].as_str().unwrap())
        .collect();
    assert_eq!(streamed, "lookingit says x");
    assert_eq!(events.last().unwrap()["usage"]["output_tokens"], 14);
}

#[test]
fn a_tool_that_nobody_declared_is_refused_and_the_turn_goes_on() {
    let call = Answer::text("").with_call("c1", "delete_everything", "{}");
    let replies = vec![Reply::Answer(call), Reply::Answer(Answer::text("sorry"))];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("prompt.md", PROMPT)]);
    let ran = run(
        folder.path(),
        ["run", "--base-url", &server.base_url(), "prompt.md"],
    );
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "sorry\n"),
        "{}",
        ran.stderr
    );
    let result = server.received()[1].body["messages"][2]["content"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        result.contains("no tool named `delete_everything` is declared"),
        "{result}"
    );
}

#[test]
fn a_model_that_never_stops_calling_is_stopped() {
    let call = Answer::text("").with_call("c", "read_file", "{\"file\":\"prompt.md\"}");
    let server = ModelServer::start(vec![Reply::Answer(call)], Delivery::Whole).unwrap();
    let prompt = "<config model=\"m\"/>\n<tool name=\"read_file\"/>\n<user>q</user>\n";
    let folder = folder(&[("prompt.md", prompt)]);
    let ran = run(
        folder.path(),
        [
            "run",
            "--max-requests",
            "3",
            "--base-url",
            &server.base_url(),
            "prompt.md",
        ],
    );
    assert_eq!(ran.status, 3);
    assert!(
        ran.stderr.contains("error[max_requests_reached]"),
        "{}",
        ran.stderr
    );
    assert_eq!(server.received().len(), 3);
    assert!(
        !run(folder.path(), ["check", "prompt.md"])
            .stderr
            .contains("error[")
    );
}

#[test]
fn an_edit_made_while_the_run_goes_on_is_kept() {
    let call = Answer::text("").with_call("c", "edit", "{\"arguments\":[]}");
    let replies = vec![Reply::Answer(call), Reply::Answer(Answer::text("done"))];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    // The tool is an editor: it replaces the prompt's file with one that has a line more.
    let script =
        "#!/bin/sh\n{ cat prompt.md; echo '<!-- edited -->'; } > new.md\nmv new.md prompt.md\n";
    let prompt = "<config model=\"m\" show_tool_call/>\n<tool name=\"edit\" command=\"./edit.sh\"/>\n<user>q</user>\n";
    let folder = folder(&[("prompt.md", prompt), ("edit.sh", script)]);
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path().join("edit.sh"), mode).unwrap();
    let ran = run(
        folder.path(),
        ["run", "--base-url", &server.base_url(), "prompt.md"],
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let text = std::fs::read_to_string(folder.path().join("prompt.md")).unwrap();
    assert!(text.contains("<!-- edited -->"), "{text}");
    assert!(text.ends_with("RAW|done|RAW</assistant>\n"), "{text}");
    assert_eq!(chatmd::check(&text), []);
}

#[test]
fn readers_that_go_away_end_nothing() {
    let server = server(&["a long answer of many words that nobody waits for"]);
    let folder = folder(&[("prompt.md", PROMPT), ("bad.md", "<user>")]);
    let url = server.base_url();
    // Both streams lead nowhere: every write fails, and none may end the program before its work.
    let status = |arguments: &[&str]| {
        let (reader, out) = std::io::pipe().unwrap();
        drop(reader);
        let err = out.try_clone().unwrap();
        let mut command = logue(folder.path());
        command
            .args(arguments)
            .env("OPENAI_BASE_URL", &url)
            .stdout(out)
            .stderr(err);
        command.status().unwrap().code()
    };
    assert_eq!(status(&["run", "prompt.md"]), Some(0));
    assert_eq!(status(&["check", "bad.md"]), Some(8));
    assert_eq!(status(&["check", "--json", "bad.md"]), Some(8));
    assert_eq!(status(&["view", "prompt.md"]), Some(0));
    assert_eq!(status(&["completions", "bash"]), Some(0));
    assert_eq!(status(&["--help"]), Some(0));
    let text = std::fs::read_to_string(folder.path().join("prompt.md")).unwrap();
    assert!(
        text.ends_with("nobody waits for|RAW</assistant>\n"),
        "{text}"
    );
}

#[test]
fn output_that_cannot_be_written_is_told_once_the_turn_is_safe() {
    let server = server(&["answer"]);
    let folder = folder(&[("prompt.md", PROMPT)]);
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let child = logue(folder.path())
        .args(["run", "--base-url", &server.base_url(), "prompt.md"])
        .stdout(full)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("error[stdout_write_failed]"),
        "{}",
        ran.stderr
    );
    let text = std::fs::read_to_string(folder.path().join("prompt.md")).unwrap();
    assert!(text.ends_with("RAW|answer|RAW</assistant>\n"), "{text}");
}

#[test]
fn the_echo_model_repeats() {
    let folder = folder(&[("prompt.md", "<config model=\"echo:\"/>\n")]);
    let ran = run(folder.path(), ["run", "prompt.md", "hello", "there"]);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "hello there\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn the_same_words_after_a_failure_are_said_once() {
    let replies = vec![
        Reply::Status(500, Vec::new(), String::new()),
        Reply::Answer(Answer::text("hi")),
    ];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("prompt.md", "<config model=\"m\"/>\n")]);
    for status in [4, 0] {
        let ran = run(
            folder.path(),
            [
                "run",
                "--retries=0",
                "--base-url",
                &server.base_url(),
                "prompt.md",
                "hello",
            ],
        );
        assert_eq!(ran.status, status, "{}", ran.stderr);
    }
    let text = std::fs::read_to_string(folder.path().join("prompt.md")).unwrap();
    assert_eq!(text.matches("hello").count(), 1, "{text}");
}

#[test]
fn a_cut_answer_is_told() {
    let body =
        "data: {\"choices\":[{\"delta\":{\"content\":\"half\"},\"finish_reason\":\"length\"}]}\n\n";
    let reply = Reply::Status(200, Vec::new(), body.to_owned());
    let server = ModelServer::start(vec![reply], Delivery::Whole).unwrap();
    let folder = folder(&[("prompt.md", PROMPT)]);
    for json in [false, true] {
        let mut command = logue(folder.path());
        command.args([
            "run",
            "--no-save",
            "--base-url",
            &server.base_url(),
            "prompt.md",
        ]);
        if json {
            command.arg("--json");
        }
        let ran = Ran::from(command.output().unwrap());
        assert_eq!(ran.status, 0);
        assert!(
            ran.stderr.contains("the answer is incomplete"),
            "{}",
            ran.stderr
        );
        assert_eq!(
            ran.stdout.contains("\"cut\":\"length\""),
            json,
            "{}",
            ran.stdout
        );
    }
}
