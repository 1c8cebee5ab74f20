//! The received part of an answer that broke off, in the transcript and in the session.

use std::io::Read as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use testkit::{Answer, Delivery, Gate, ModelServer, Reply, end_of_stream, text_delta};

use crate::program::{Ran, contents, folder, logue, run};
use crate::waiting::{wait_for_text, wait_until};

const PROMPT: &str = "<config model=\"m\"/>\n<tool name=\"read_file\"/>\n";
const PART: &str = "<assistant status=\"interrupted\">\nRAW|One two|RAW</assistant>\n";
const FRAMES: &str = "---\nversion: 2.2\nmodel: m\n---\n";

/// A server that sends two pieces, and the end of the answer after a permit.
fn server(gate: &Gate) -> ModelServer {
    let begun = [text_delta("One "), text_delta("two")].concat();
    let reply = Reply::Gated(vec![begun, end_of_stream()], gate.clone());
    ModelServer::start(vec![reply], Delivery::Whole).unwrap()
}

fn answering(text: &str) -> ModelServer {
    ModelServer::start(vec![Reply::Answer(Answer::text(text))], Delivery::Whole).unwrap()
}

/// A server whose stream breaks off after these bytes.
fn breaking(bytes: Vec<u8>) -> ModelServer {
    ModelServer::start(vec![Reply::Cut(bytes)], Delivery::Whole).unwrap()
}

fn with(folder: &Path, server: &ModelServer, arguments: &[&str]) -> Command {
    let mut command = logue(folder);
    command
        .args(arguments)
        .env("OPENAI_BASE_URL", server.base_url());
    command
}

fn output(folder: &Path, server: &ModelServer, arguments: &[&str]) -> Ran {
    with(folder, server, arguments).output().unwrap().into()
}

/// A run that has printed the pieces.
fn begun(command: &mut Command) -> (Child, ChildStdout) {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut pipe = child.stdout.take().unwrap();
    let mut bytes = [0; 7];
    pipe.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"One two");
    (child, pipe)
}

fn interrupt(child: &Child) {
    let id = i32::try_from(child.id()).unwrap();
    kill(Pid::from_raw(id), Signal::SIGINT).unwrap();
}

/// The messages of the last request, without the tools.
fn sent(server: &ModelServer) -> Value {
    server.received().last().unwrap().body["messages"].clone()
}

fn text_of(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap()
}

fn history(folder: &Path, session: &str) -> Value {
    let shown = run(folder, ["sessions", "show", session, "--json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    shown["messages"].clone()
}

/// The session of the only question.
fn question(folder: &Path) -> String {
    let listed = run(folder, ["sessions", "list", "--json"]);
    let first = listed.stdout.lines().next().unwrap();
    let listed: Value = serde_json::from_str(first).unwrap();
    listed["session_id"].as_str().unwrap().to_owned()
}

#[test]
fn a_signal_keeps_all_text_that_was_shown() {
    let (gate, folder) = (Gate::new(), folder(&[("p.md", PROMPT)]));
    let slow = server(&gate);
    let (mut child, _pipe) = begun(&mut with(folder.path(), &slow, &["run", "p.md", "hello"]));
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let text = text_of(folder.path(), "p.md");
    assert!(text.ends_with(PART), "{text}");

    let checked = run(folder.path(), ["check", "--deny", "warnings", "p.md"]);
    assert_eq!(checked.status, 0, "{}{}", checked.stdout, checked.stderr);
    assert_eq!(run(folder.path(), ["fmt", "p.md"]).status, 0);
    assert!(text_of(folder.path(), "p.md").contains("<assistant status=\"interrupted\">"));
    let viewed = run(folder.path(), ["view", "p.md"]);
    let marked = "assistant · incomplete\nOne two\n";
    assert!(viewed.stdout.contains(marked), "{}", viewed.stdout);

    // The next run sends it as it was.
    let next = answering("three");
    let ran = output(folder.path(), &next, &["run", "p.md", "go on"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let expected = json!([{"role": "user", "content": "hello"},
        {"role": "assistant", "content": "One two"}, {"role": "user", "content": "go on"}]);
    assert_eq!(sent(&next), expected);
}

#[test]
fn a_killed_run_leaves_the_text_in_every_form() {
    let frame = "<|start|>assistant status=interrupted<|channel|>final<|message|>One two<|end|>\n";
    for (name, prompt, part) in [("p.md", PROMPT, PART), ("t.ocml", FRAMES, frame)] {
        let (gate, folder) = (Gate::new(), folder(&[(name, prompt)]));
        let slow = server(&gate);
        let (mut child, _pipe) = begun(&mut with(folder.path(), &slow, &["run", name, "hello"]));
        wait_for_text(&folder.path().join(name), part);
        child.kill().unwrap();
        child.wait().unwrap();
        let text = text_of(folder.path(), name);
        assert!(text.ends_with(part), "{text}");
        let checked = run(folder.path(), ["check", "--deny", "warnings", name]);
        assert_eq!(checked.status, 0, "{}{}", checked.stdout, checked.stderr);
        let viewed = run(folder.path(), ["view", name]);
        assert!(viewed.stdout.contains("incomplete"), "{}", viewed.stdout);

        // The same words are one message, and the model is asked again.
        let next = answering("One two three");
        let ran = output(folder.path(), &next, &["run", name, "hello"]);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        assert_eq!(sent(&next), json!([{"role": "user", "content": "hello"}]));
        let text = text_of(folder.path(), name);
        assert_eq!(text.matches("hello").count(), 1, "{text}");
        // Both answers are in the file, and later runs send the complete one.
        let last = answering("four");
        output(folder.path(), &last, &["run", name, "more"]);
        let expected = json!([{"role": "user", "content": "hello"},
            {"role": "assistant", "content": "One two three"},
            {"role": "user", "content": "more"}]);
        assert_eq!(sent(&last), expected, "{name}");
    }
}

#[test]
fn a_complete_answer_replaces_its_part() {
    let (gate, folder) = (Gate::new(), folder(&[("p.md", PROMPT)]));
    let slow = server(&gate);
    let (mut child, _pipe) = begun(&mut with(folder.path(), &slow, &["run", "p.md", "hello"]));
    wait_for_text(&folder.path().join("p.md"), PART);
    // An editor adds a comment after the part.
    let path = folder.path().join("p.md");
    let edited = format!("{}<!-- edited -->\n", text_of(folder.path(), "p.md"));
    std::fs::write(&path, edited).unwrap();
    gate.open();
    assert!(child.wait().unwrap().success());
    let text = text_of(folder.path(), "p.md");
    let end = "<!-- edited -->\n<assistant>\nRAW|One two|RAW</assistant>\n";
    assert!(text.ends_with(end), "{text}");
    assert!(!text.contains("interrupted"), "{text}");
}

#[test]
fn a_broken_stream_keeps_the_text_and_no_call() {
    let call = json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c",
        "type": "function", "function": {"name": "read_file", "arguments": "{\"fi"}}]}}]});
    let bytes = [
        text_delta("One two"),
        format!("data: {call}\n\n").into_bytes(),
    ]
    .concat();
    let broken = breaking(bytes);
    let folder = folder(&[("p.md", PROMPT)]);
    let ran = output(folder.path(), &broken, &["run", "p.md", "hello"]);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (4, "One two\n"),
        "{}",
        ran.stderr
    );
    // Text was shown, so the request is not repeated within the run.
    assert_eq!(broken.received().len(), 1);
    let text = text_of(folder.path(), "p.md");
    assert!(text.ends_with(PART), "{text}");
    assert!(!text.contains("tool_call "), "{text}");
}

#[test]
fn a_part_contains_no_beginning_of_a_secret() {
    let broken = breaking(text_delta("the key is sk-abcdef"));
    let settings = "[redact]\npatterns = [\"sk-[a-z]{12}\"]\n";
    let folder = folder(&[("p.md", PROMPT), ("logue.toml", settings)]);
    output(folder.path(), &broken, &["run", "p.md", "hello"]);
    let text = text_of(folder.path(), "p.md");
    let part = "<assistant status=\"interrupted\">\nRAW|the key is |RAW</assistant>\n";
    assert!(text.ends_with(part), "{text}");
}

#[test]
fn a_question_that_was_killed_is_kept_and_asked_again() {
    let (gate, folder) = (Gate::new(), folder(&[]));
    let slow = server(&gate);
    let (mut child, _pipe) = begun(&mut with(
        folder.path(),
        &slow,
        &["ask", "-m", "m", "hello"],
    ));
    let data = folder.path().join(".data");
    wait_until(
        || "the part was not stored".to_owned(),
        || {
            let files = contents(&data);
            files
                .iter()
                .any(|(_, bytes)| bytes.windows(7).any(|part| part == b"One two"))
        },
    );
    child.kill().unwrap();
    child.wait().unwrap();
    let session = question(folder.path());
    let next = answering("three");
    let ran = output(folder.path(), &next, &["sessions", "recover", &session]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(sent(&next), json!([{"role": "user", "content": "hello"}]));
    let expected = json!([{"role": "user", "content": "hello"},
        {"role": "assistant", "content": "three"}]);
    assert_eq!(history(folder.path(), &session), expected);
}

/// A question whose answer was interrupted after "One two".
fn interrupted_question(folder: &Path, end: impl Fn(&mut Child)) {
    let gate = Gate::new();
    let slow = server(&gate);
    let (mut child, _pipe) = begun(&mut with(folder, &slow, &["ask", "-m", "m", "hello"]));
    let data = folder.join(".data");
    wait_until(
        || "the part was not stored".to_owned(),
        || {
            let files = contents(&data);
            files
                .iter()
                .any(|(_, bytes)| bytes.windows(7).any(|part| part == b"One two"))
        },
    );
    end(&mut child);
    child.wait().unwrap();
}

#[test]
fn a_new_question_follows_the_part_of_an_interrupted_answer() {
    type Interruption = fn(&Path);
    let ends: [(&str, Interruption); 3] = [
        ("signal", |folder| {
            interrupted_question(folder, |child| interrupt(child));
        }),
        ("kill", |folder| {
            interrupted_question(folder, |child| child.kill().unwrap());
        }),
        ("broken stream", |folder| {
            let broken = breaking(text_delta("One two"));
            let ran = output(folder, &broken, &["ask", "-m", "m", "hello"]);
            assert_eq!(ran.status, 4, "{}", ran.stderr);
        }),
    ];
    for (end, interrupted) in ends {
        let folder = folder(&[]);
        interrupted(folder.path());
        let next = answering("three");
        let ran = output(folder.path(), &next, &["ask", "-c", "and now?"]);
        assert_eq!(
            (ran.status, ran.stdout.as_str()),
            (0, "three\n"),
            "{end}: {}",
            ran.stderr
        );
        assert_eq!(next.received().len(), 1, "{end}: hello is not asked again");
        let expected = json!([{"role": "user", "content": "hello"},
            {"role": "assistant", "content": "One two"}, {"role": "user", "content": "and now?"}]);
        assert_eq!(sent(&next), expected, "{end}");
        let expected = json!([{"role": "user", "content": "hello"},
            {"role": "assistant", "content": "One two", "status": "interrupted"},
            {"role": "user", "content": "and now?"},
            {"role": "assistant", "content": "three"}]);
        assert_eq!(
            history(folder.path(), &question(folder.path())),
            expected,
            "{end}"
        );
        let session = question(folder.path());
        let shown = run(folder.path(), ["sessions", "show", &session]);
        let marked = "assistant · incomplete\n";
        assert!(shown.stdout.contains(marked), "{end}: {}", shown.stdout);
    }
}

#[test]
fn a_flag_continues_the_interrupted_answer_first() {
    let folder = folder(&[]);
    interrupted_question(folder.path(), |child| child.kill().unwrap());
    let replies = ["One two three", "four"].map(|text| Reply::Answer(Answer::text(text)));
    let next = ModelServer::start(replies.into(), Delivery::Whole).unwrap();
    let arguments = ["ask", "-c", "--on-crash", "continue", "and now?"];
    let ran = output(folder.path(), &next, &arguments);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let first = &next.received()[0].body["messages"];
    assert_eq!(first, &json!([{"role": "user", "content": "hello"}]));
    assert_eq!(next.received().len(), 2);
}

#[test]
fn the_answer_of_a_recovered_turn_replaces_its_part() {
    let (gate, folder) = (Gate::new(), folder(&[("p.md", PROMPT)]));
    let slow = server(&gate);
    let first = ["send", "--agent", "p.md", "s", "hello"];
    let (mut child, _pipe) = begun(&mut with(folder.path(), &slow, &first));
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let next = answering("three");
    let ran = output(folder.path(), &next, &["send", "s", "go on"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    // The turn was recovered before the new message, and its answer replaces the part.
    let answer = json!({"role": "assistant", "content": "three"});
    let history = history(folder.path(), "s");
    assert_eq!(history[1], answer, "{history}");
    let sent = sent(&next);
    assert_eq!(sent[1], answer, "{sent}");
}

#[test]
fn a_failed_turn_of_a_session_keeps_the_text_and_continues() {
    let folder = folder(&[("p.md", PROMPT)]);
    let broken = breaking(text_delta("One two"));
    let first = ["send", "--agent", "p.md", "s", "hello"];
    let ran = output(folder.path(), &broken, &first);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (4, "One two\n"),
        "{}",
        ran.stderr
    );
    let next = answering("three");
    let ran = output(folder.path(), &next, &["send", "s", "hello"]);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "three\n"),
        "{}",
        ran.stderr
    );
    assert_eq!(sent(&next), json!([{"role": "user", "content": "hello"}]));
    // The answer replaces the part.
    let expected = json!([{"role": "user", "content": "hello"},
        {"role": "assistant", "content": "three"}]);
    assert_eq!(history(folder.path(), "s"), expected);
}

#[test]
fn conversions_keep_the_mark_or_list_it() {
    let prompt =
        format!("<user>\nRAW|hello|RAW</user>\n{PART}<assistant>\nRAW|Hi.|RAW</assistant>\n");
    let folder = folder(&[("p.md", &prompt)]);
    for form in ["ocml2.2", "json"] {
        let there = run(folder.path(), ["convert", "p.md", "--to", form, "-o", form]);
        assert_eq!((there.status, there.stderr.as_str()), (0, ""), "{form}");
        let back = run(
            folder.path(),
            ["convert", form, "--from", form, "--to", "chatmd"],
        );
        assert!(
            back.stdout.ends_with(&prompt),
            "{form}: {}{}",
            back.stdout,
            back.stderr
        );
    }
    let others = [
        "ocml2.0",
        "ocml0.1",
        "chatml",
        "harmony",
        "openai",
        "sharegpt",
        "anthropic",
        "responses",
    ];
    for form in others {
        let strict = ["convert", "p.md", "--strict=structure", "--to", form];
        let there = run(folder.path(), strict);
        assert_eq!(
            (there.status, there.stdout.as_str()),
            (8, ""),
            "{form}: {}",
            there.stderr
        );
        let listed = ["interrupted", "attribute"];
        let is_listed = listed.iter().any(|word| there.stderr.contains(word));
        assert!(is_listed, "{form}: {}", there.stderr);
    }
}
