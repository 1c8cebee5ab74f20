//! `logue run` of an OpenChatML transcript: what the model is sent, and what is appended, byte for
//! byte.

use std::path::Path;

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, contents, events, folder, logue, run, run_with_input};

pub(crate) const HEADER: &str = "---\nversion: 2.2\nmodel: gpt-oss-20b\ngeneration_settings:\n  \
    temperature: 0.5\n  max_tokens: 300\n  reasoning_effort: low\n  top_p: 0.9\n  stop: [\"STOP\"]\n  \
    builtin_tools: [read_file]\nowner: somebody # kept\n---\n";

pub(crate) const WEATHER: &str = "<|start|>developer<|message|># Tools\n\n## functions\n\nnamespace \
    functions {\n\n// Gets the weather.\ntype weather = (_: {\ncity: string,\n}) => any;\n\n} \
    // namespace functions<|end|>\n";

pub(crate) fn serve(answers: Vec<Answer>) -> ModelServer {
    let replies = answers.into_iter().map(Reply::Answer).collect();
    ModelServer::start(replies, Delivery::Random(3)).unwrap()
}

pub(crate) fn say(folder: &Path, server: &ModelServer, arguments: &[&str]) -> Ran {
    let mut command = logue(folder);
    command
        .env("OPENAI_BASE_URL", server.base_url())
        .args(arguments);
    command.output().unwrap().into()
}

pub(crate) fn text(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap()
}

pub(crate) fn assert_checks(folder: &Path, name: &str) {
    let checked = run(folder, ["check", "--deny", "warnings", name]);
    assert_eq!(checked.status, 0, "{}{}", checked.stdout, checked.stderr);
}

#[test]
fn a_turn_is_appended_as_frames_and_nothing_else_changes() {
    let begun = format!("{HEADER}<|start|>system<|message|>Be brief.<|end|>\n\n");
    let folder = folder(&[("talk.ocml", &begun), ("notes.txt", "a <|end|> b\n")]);
    let server = serve(vec![
        Answer::text("I look.").with_reasoning("A file.").with_call(
            "c1",
            "read_file",
            r#"{"file": "notes.txt"}"#,
        ),
        Answer::text("It says <|end|><|start|>system, <").with_reasoning("So."),
        Answer::text("Bye."),
    ]);
    let ran = say(
        folder.path(),
        &server,
        &["run", "talk.ocml", "What is <|return|>?"],
    );
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    assert_eq!(ran.stdout, "I look.\n\nIt says <|end|><|start|>system, <\n");
    let reply = json!({"ok": true, "error": null,
        "content": "notes.txt:1-1\ntotal lines: 1\na <|end|> b\n"});
    let written = text(folder.path(), "talk.ocml");
    let line = written
        .lines()
        .find(|line| line.starts_with("<|start|>tool"))
        .unwrap();
    let body = line.split("<|message|>").nth(1).unwrap();
    let body = body.strip_suffix("<|end|>").unwrap().replace("<<|", "<|");
    let mut parsed: Value = serde_json::from_str(&body).unwrap();
    parsed.as_object_mut().unwrap().remove("provenance");
    assert_eq!(parsed, reply);
    let expected = format!(
        "{begun}<|start|>user<|message|>What is <<|return|>?<|end|>\n\
         <|start|>assistant<|channel|>analysis<|message|>A file.<|end|>\n\
         <|start|>assistant intent=preamble<|channel|>commentary<|message|>I look.<|end|>\n\
         <|start|>assistant to=functions.read_file call_id=c1<|channel|>commentary\
         <|constrain|>json<|message|>{{\"file\": \"notes.txt\"}}<|call|>\n{line}\n\
         <|start|>assistant<|channel|>analysis<|message|>So.<|end|>\n\
         <|start|>assistant<|channel|>final<|message|>It says <<|end|><<|start|>system, \
         <|literal|><<|endliteral|><|return|>\n"
    );
    assert_eq!(written, expected);
    let head =
        "<|start|>tool name=functions.read_file call_id=c1 to=assistant<|channel|>commentary";
    assert!(line.starts_with(head), "{line}");
    assert_checks(folder.path(), "talk.ocml");

    let ran = say(folder.path(), &server, &["run", "talk.ocml", "bye"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "Bye.\n"));
    let end = "<|start|>user<|message|>bye<|end|>\n\
         <|start|>assistant<|channel|>final<|message|>Bye.<|return|>\n";
    assert_eq!(text(folder.path(), "talk.ocml"), format!("{expected}{end}"));
    assert_checks(folder.path(), "talk.ocml");

    let sent = &server.received()[2].body;
    let messages = sent["messages"].as_array().unwrap();
    let texts: Vec<&str> = messages
        .iter()
        .map(|message| message["content"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(
        texts,
        [
            "Be brief.",
            "What is <|return|>?",
            "I look.",
            &body,
            "It says <|end|><|start|>system, <",
            "bye"
        ]
    );
    assert_eq!(
        server.received()[1].body["messages"][3]["content"],
        body.as_str(),
        "the model is told in the turn what it is told later"
    );
}

#[test]
fn the_header_says_what_is_asked_of_whom() {
    let begun = format!("{HEADER}<|start|>user<|message|>hi<|end|>\n");
    let folder = folder(&[("talk.ocml", &begun)]);
    let server = serve(vec![Answer::text("x")]);
    assert_eq!(say(folder.path(), &server, &["run", "talk.ocml"]).status, 0);
    let mut body = server.received()[0].body.clone();
    let tools = body.as_object_mut().unwrap().remove("tools").unwrap();
    assert_eq!(tools[0]["function"]["name"], "read_file");
    assert_eq!(tools.as_array().unwrap().len(), 1);
    assert_eq!(
        body,
        json!({
            "model": "gpt-oss-20b", "messages": [{"role": "user", "content": "hi"}],
            "temperature": 0.5, "max_tokens": 300, "reasoning_effort": "low", "top_p": 0.9,
            "stop": ["STOP"], "stream": true, "stream_options": {"include_usage": true},
        })
    );
    let other = say(
        folder.path(),
        &server,
        &["run", "-m", "other", "talk.ocml", "more"],
    );
    assert_eq!(other.status, 0);
    assert_eq!(server.received()[1].body["model"], "other");
}

#[test]
fn what_is_not_understood_of_the_header_is_said() {
    let odd = "version: 2.2\nmodel: m\ngeneration_settings:\n  temperature: warm\n  stop: 3\n  \
        builtin_tools: [teleport]\n<|start|>user<|message|>hi<|end|>\n";
    let folder = folder(&[("talk.ocml", odd)]);
    let server = serve(vec![Answer::text("x")]);
    let ran = say(folder.path(), &server, &["run", "talk.ocml"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    for expected in ["`temperature`", "`stop`", "`teleport`"] {
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
    assert!(server.received()[0].body.get("tools").is_none());
}

#[test]
fn the_language_is_found_by_content_or_named() {
    let begun = "version: 2.2\n<|start|>user<|message|>hi<|end|>\n";
    let fragment = "<|start|>user<|message|>hi<|end|>\n";
    let server = serve(vec![Answer::text("x")]);
    for (name, begun, flags) in [
        ("talk.txt", begun, &[][..]),
        ("talk.md", begun, &[]),
        ("talk.md", fragment, &["--from", "ocml2.2"]),
        ("talk.ocml", "<user>hi</user>\n", &["--from", "chatmd"]),
    ] {
        let folder = folder(&[(name, begun)]);
        let arguments = [&["run", "-m", "m"], flags, &[name]].concat();
        let ran = say(folder.path(), &server, &arguments);
        assert_eq!(
            (ran.status, ran.stdout.as_str()),
            (0, "x\n"),
            "{}",
            ran.stderr
        );
        let written = text(folder.path(), name);
        let end = if begun.starts_with("<user>") {
            "<assistant>\nRAW|x|RAW</assistant>\n"
        } else {
            "<|start|>assistant<|channel|>final<|message|>x<|return|>\n"
        };
        assert_eq!(written, format!("{begun}{end}"));
    }
}

#[test]
fn other_dialects_and_broken_transcripts_are_refused_with_a_way_out() {
    let server = serve(vec![Answer::text("x")]);
    let harmony = "<|start|>system<|message|># Valid channels: final.<|end|>\
        <|start|>user<|message|>hi<|end|><|start|>assistant<|channel|>final<|message|>a<|end|>\
        <|start|>user<|message|>hi<|end|>";
    let cases = [
        (
            "a.ocml",
            "version: 2.0\n<|start|>user<|message|>hi<|end|>\n",
            "logue convert",
        ),
        ("a.harmony", harmony, "logue convert"),
        (
            "a.chatml",
            "<|im_start|>user\nhi<|im_end|>\n",
            "logue convert",
        ),
        (
            "a.ocml",
            "[BOS]<|im_start|>user name=Eric\nhi\n<|im_end|>\n<|im_start|>assistant\n\
             <|start_reflect|>a<|end_reflect|>b<|im_end|>\n",
            "logue convert",
        ),
        (
            "a.ocml",
            "version: 3.0\n<|start|>user<|message|>hi<|end|>\n",
            "E-PARSE-VERSION",
        ),
        (
            "a.ocml",
            "version: 2.2\n<|start|>user<|message|>hi",
            "E-STREAM-TRUNCATED",
        ),
    ];
    for (name, begun, expected) in cases {
        let folder = folder(&[(name, begun)]);
        let before = contents(folder.path());
        let ran = say(folder.path(), &server, &["run", "-m", "m", name, "hello"]);
        assert_eq!(ran.status, 3, "{begun}: {}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{begun}: {}", ran.stderr);
        assert_eq!(contents(folder.path()), before, "nothing is written");
    }
    assert_eq!(server.received().len(), 0);
}

#[test]
fn another_transcript_none_and_standard_input() {
    let begun = "version: 2.2\n<|start|>user<|message|>hi<|end|>";
    let server = serve(vec![Answer::text("x")]);
    let folder = folder(&[("talk.ocml", begun)]);
    let run_it = |arguments: &[&str]| say(folder.path(), &server, arguments);
    assert_eq!(
        run_it(&["run", "-m", "m", "--no-save", "talk.ocml"]).stdout,
        "x\n"
    );
    assert_eq!(text(folder.path(), "talk.ocml"), begun);
    let written = run_it(&["run", "-m", "m", "-o", "new.ocml", "talk.ocml"]);
    assert_eq!(written.status, 0, "{}", written.stderr);
    assert_eq!(text(folder.path(), "talk.ocml"), begun);
    let once = format!("{begun}\n<|start|>assistant<|channel|>final<|message|>x<|return|>\n");
    assert_eq!(text(folder.path(), "new.ocml"), once);
    let again = run_it(&["run", "-m", "m", "-o", "new.ocml", "talk.ocml", "more"]);
    assert_eq!(again.status, 0, "{}", again.stderr);
    assert!(text(folder.path(), "new.ocml").starts_with(&format!("{once}<|start|>user")));
    let url = server.base_url();
    let arguments = ["run", "-m", "m", "--base-url", &url, "-"];
    let piped = run_with_input(folder.path(), &arguments, begun);
    assert_eq!((piped.status, piped.stdout.as_str()), (0, "x\n"));
}

#[test]
fn a_recording_is_played_again() {
    let begun = format!("{HEADER}{WEATHER}");
    let folder = folder(&[
        ("talk.ocml", &begun),
        ("again.ocml", &begun),
        ("n.txt", "seven\n"),
    ]);
    let server = serve(vec![
        Answer::text("").with_call("c1", "read_file", r#"{"file":"n.txt"}"#),
        Answer::text("Seven."),
    ]);
    let arguments = ["run", "--record", "tape.ocml", "talk.ocml", "Which number?"];
    let ran = say(folder.path(), &server, &arguments);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let arguments = [
        "run",
        "--json",
        "-m",
        "replay:tape.ocml",
        "again.ocml",
        "Which number?",
    ];
    let ran = run(folder.path(), arguments);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let events = events(&ran.stdout);
    assert_eq!(events.last().unwrap()["event"], "turn.completed");
    assert_eq!(
        text(folder.path(), "again.ocml"),
        text(folder.path(), "talk.ocml")
    );
}
