//! Text of an answer reaches a pipe as it arrives.

use std::io::Read as _;
use std::process::{Child, ChildStdout, Stdio};

use testkit::{Answer, Delivery, Gate, ModelServer, Reply, end_of_stream, text_delta};

use crate::program::{Ran, folder, logue, run};

const PROMPT: &str = "<config model=\"m\"/>\n<tool name=\"read_file\"/>\n<user>q</user>\n";

/// Reads exactly as many bytes as the text has.
fn expect(pipe: &mut ChildStdout, text: &str) {
    let mut bytes = vec![0; text.len()];
    pipe.read_exact(&mut bytes).unwrap();
    assert_eq!(String::from_utf8_lossy(&bytes), text);
}

fn rest(child: Child, mut pipe: ChildStdout) -> (i32, String) {
    let mut text = String::new();
    pipe.read_to_string(&mut text).unwrap();
    let ran = Ran::from(child.wait_with_output().unwrap());
    (ran.status, text)
}

#[test]
fn a_pipe_receives_text_before_the_answer_is_complete() {
    for command in [&["run", "p.md"][..], &["ask", "-m", "m", "q"][..]] {
        let gate = Gate::new();
        let pieces = vec![
            text_delta("\n"),
            text_delta("One, "),
            text_delta("two"),
            end_of_stream(),
        ];
        let reply = Reply::Gated(pieces, gate.clone());
        let server = ModelServer::start(vec![reply], Delivery::Whole).unwrap();
        let folder = folder(&[("p.md", PROMPT)]);
        let mut child = logue(folder.path())
            .args(command)
            .env("OPENAI_BASE_URL", server.base_url())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pipe = child.stdout.take().unwrap();
        // The server sends a piece only after the one before it was read here.
        gate.open();
        expect(&mut pipe, "\nOne, ");
        gate.open();
        expect(&mut pipe, "two");
        gate.open();
        assert_eq!(rest(child, pipe), (0, "\n".to_owned()), "{command:?}");
    }
}

#[test]
fn a_blank_line_separates_text_before_a_call_from_the_answer() {
    let path = "{\"file\":\"p.md\"}";
    let replies = vec![
        Reply::Answer(Answer::text("Let me look.").with_call("c", "read_file", path)),
        // White space before a call is not printed.
        Reply::Answer(Answer::text("\n\n").with_call("d", "read_file", path)),
        Reply::Answer(Answer::text("Once more.\n").with_call("e", "read_file", path)),
        Reply::Answer(Answer::text("There it is.")),
    ];
    let server = ModelServer::start(replies, Delivery::Random(1)).unwrap();
    let folder = folder(&[("p.md", PROMPT)]);
    let url = server.base_url();
    let ran = run(
        folder.path(),
        ["run", "--no-save", "--base-url", &url, "p.md"],
    );
    let expected = "Let me look.\n\nOnce more.\n\nThere it is.\n";
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, expected),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_pipe_receives_only_the_validated_answer_of_a_schema() {
    let path = "{\"file\":\"p.md\"}";
    let replies = vec![
        Reply::Answer(Answer::text("Let me look.").with_call("c", "read_file", path)),
        Reply::Answer(Answer::text("not JSON")),
        Reply::Answer(Answer::text("```json\n{\"n\":1}\n```")),
    ];
    let server = ModelServer::start(replies, Delivery::Random(2)).unwrap();
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}"#;
    let folder = folder(&[("p.md", PROMPT), ("s.json", schema)]);
    let url = server.base_url();
    let arguments = [
        "run",
        "--no-save",
        "--schema",
        "s.json",
        "--base-url",
        &url,
        "p.md",
    ];
    let ran = run(folder.path(), arguments);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "{\"n\":1}\n"),
        "{}",
        ran.stderr
    );
}
