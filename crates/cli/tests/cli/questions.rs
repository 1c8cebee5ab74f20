//! `logue ask`: a question without a file, kept as a session.

use std::path::Path;

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, contents, events, folder, logue, run, run_with_input, strict};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";

fn serve(answers: &[&str]) -> ModelServer {
    let replies = answers
        .iter()
        .map(|text| Reply::Answer(Answer::text(*text)));
    ModelServer::start(replies.collect(), Delivery::Whole).unwrap()
}

fn ask(folder: &Path, server: &ModelServer, arguments: &[&str]) -> Ran {
    let mut command = logue(folder);
    command
        .env("OPENAI_BASE_URL", server.base_url())
        .env("OPENAI_API_KEY", "k")
        .args(arguments);
    command.output().unwrap().into()
}

/// The messages of a request.
fn sent(server: &ModelServer, request: usize) -> Value {
    server.received()[request].body["messages"].clone()
}

#[test]
fn a_question_needs_no_file_and_is_continued() {
    let folder = folder(&[]);
    let server = serve(&["blue", "because", "yes", "no"]);
    let ran = ask(
        folder.path(),
        &server,
        &["ask", "-m", "m", "-s", "Be {{brief}}.", "Why", "blue?"],
    );
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "blue\n"),
        "{}",
        ran.stderr
    );
    let system = json!({"role": "system", "content": "Be {{brief}}."});
    let first = json!({"role": "user", "content": "Why blue?"});
    assert_eq!(sent(&server, 0), json!([system, first]));
    let ran = ask(folder.path(), &server, &["ask", "-c", "And why?"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let history = [
        system,
        first,
        json!({"role": "assistant", "content": "blue"}),
        json!({"role": "user", "content": "And why?"}),
    ];
    assert_eq!(sent(&server, 1), json!(history));
    // A new question has no history; the sessions are listed, and `send` continues them too.
    assert_eq!(
        ask(folder.path(), &server, &["ask", "-m", "m", "new"]).status,
        0
    );
    assert_eq!(
        sent(&server, 2),
        json!([{"role": "user", "content": "new"}])
    );
    let listed = run(folder.path(), ["sessions", "list", "--json"]);
    let sessions = events(&listed.stdout);
    assert_eq!(sessions.len(), 2);
    let first = sessions[1]["session_id"].as_str().unwrap();
    assert_eq!(
        ask(folder.path(), &server, &["send", first, "more"]).status,
        0
    );
    assert_eq!(sent(&server, 3).as_array().unwrap().len(), 6);
    assert_eq!(run(folder.path(), ["sessions", "verify"]).status, 0);
    // Nothing is written outside the user's data.
    let files = contents(folder.path());
    let names: Vec<&String> = files.iter().map(|(name, _)| name).collect();
    assert!(names.iter().all(|name| name.starts_with('.')), "{names:?}");
}

#[test]
fn standard_input_and_attachments_follow_the_question() {
    let folder = folder(&[("a.rs", "fn main() {}\n"), ("b/c.md", "a ``` b\n````\n")]);
    std::fs::write(folder.path().join("p.png"), PNG).unwrap();
    let arguments = [
        "ask", "-m", "echo:", "review", "-a", "a.rs", "-a", "**/*.md",
    ];
    let ran = run_with_input(folder.path(), &arguments, "+ added\n");
    let expected = "review\n\na.rs:\n```rs\nfn main() {}\n```\n\nb/c.md:\n`````md\na ``` b\n````\n`````\n\n+ added\n";
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, expected),
        "{}",
        ran.stderr
    );
    let ran = run_with_input(folder.path(), &["ask", "-m", "echo:"], "only piped\n");
    assert_eq!(ran.stdout, "only piped\n", "{}", ran.stderr);
    let ran = run_with_input(folder.path(), &["ask", "-m", "echo:", "-"], "a dash\n");
    assert_eq!(ran.stdout, "a dash\n", "{}", ran.stderr);
    let server = serve(&["a plot"]);
    let ran = ask(
        folder.path(),
        &server,
        &["ask", "-m", "m", "-a", "p.png", "what?"],
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let content = &sent(&server, 0)[0]["content"];
    assert_eq!(content[0], json!({"type": "text", "text": "what?"}));
    let url = content[1]["image_url"]["url"].as_str().unwrap();
    assert!(url.starts_with("data:image/png;base64,iVBOR"), "{url}");
}

#[test]
fn what_cannot_be_asked_is_refused_before_a_session_exists() {
    let folder = folder(&[]);
    std::fs::write(folder.path().join("x.bin"), b"a\0b").unwrap();
    let cases: &[(&[&str], i32, &str)] = &[
        (&["ask", "-m", "echo:"], 2, "no question"),
        (&["ask", "-c", "x"], 3, "no question has been asked yet"),
        (&["ask", "-m", "echo:", "-a", "gone.md", "x"], 3, "gone.md"),
        (
            &["ask", "-m", "echo:", "-a", "*.rs", "x"],
            3,
            "no file fits `*.rs`",
        ),
        (
            &["ask", "-m", "echo:", "-a", "x.bin", "x"],
            3,
            "neither text, a PDF nor a known image",
        ),
        (
            &["ask", "-m", "echo:", "--tool", "read_fil", "x"],
            2,
            "did you mean `read_file`?",
        ),
        (
            &["ask", "x"],
            3,
            "without a model, to try it: logue ask -m echo:",
        ),
    ];
    for (arguments, status, expected) in cases {
        let ran = run(folder.path(), *arguments);
        assert_eq!(ran.status, *status, "{arguments:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(expected),
            "{arguments:?}: {}",
            ran.stderr
        );
    }
    let listed = run(folder.path(), ["sessions", "list", "--json"]);
    assert_eq!(listed.stdout, "");
}

#[test]
fn a_tool_asks_first_and_acts_where_the_question_was_asked() {
    let folder = folder(&[("here/there.txt", ""), ("elsewhere/x.txt", "")]);
    let here = folder.path().join("here");
    let call = Answer::text("").with_call(
        "c1",
        "write_file",
        "{\"path\":\"new.txt\",\"content\":\"x\"}",
    );
    let replies = vec![Reply::Answer(call), Reply::Answer(Answer::text("done"))];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let command = |from: &Path, arguments: &[&str]| -> Ran {
        let mut command = strict(from);
        command
            .env("HOME", folder.path())
            .env("XDG_DATA_HOME", folder.path().join(".data"))
            .env("OPENAI_BASE_URL", server.base_url())
            .args(arguments);
        command.output().unwrap().into()
    };
    let ran = command(
        &here,
        &["ask", "-m", "m", "--tool", "write_file", "--json", "write"],
    );
    assert_eq!(ran.status, 6, "{}{}", ran.stdout, ran.stderr);
    assert!(!here.join("new.txt").exists());
    let reported = events(&ran.stdout);
    let last = reported.last().unwrap();
    let signal = last["signal_id"].as_str().unwrap();
    let elsewhere = folder.path().join("elsewhere");
    let ran = command(&elsewhere, &["signal", signal, "--approve"]);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "done\n"),
        "{}",
        ran.stderr
    );
    assert_eq!(std::fs::read_to_string(here.join("new.txt")).unwrap(), "x");
    assert!(!elsewhere.join("new.txt").exists());
    // A link in its place is another directory.
    std::fs::rename(&here, folder.path().join("moved")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &here).unwrap();
    let ran = command(&elsewhere, &["ask", "-c", "again"]);
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("gone or another one"), "{}", ran.stderr);
    assert_eq!(server.received().len(), 2);
}

#[test]
fn a_saved_question_is_a_prompt_that_asks_the_same() {
    let folder = folder(&[("a.txt", "</user> {{x}} |RAW\n")]);
    let server = serve(&["one", "two", "three"]);
    let arguments = [
        "ask",
        "-m",
        "m",
        "-s",
        "Be <b>.",
        "--tool",
        "read_file",
        "-a",
        "a.txt",
        "--save",
        "q.md",
        "go",
    ];
    let ran = ask(folder.path(), &server, &arguments);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(run(folder.path(), ["check", "q.md"]).status, 0);
    let ran = ask(folder.path(), &server, &["run", "--no-save", "q.md"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let received = server.received();
    assert_eq!(received[0].body, received[1].body);
    // A file is not overwritten, and then nothing is asked.
    let before = std::fs::read(folder.path().join("q.md")).unwrap();
    assert_eq!(ask(folder.path(), &server, &arguments).status, 3);
    assert_eq!(std::fs::read(folder.path().join("q.md")).unwrap(), before);
    assert_eq!(server.received().len(), 2);
}

#[test]
fn a_saved_question_keeps_its_images() {
    let image = |bytes: &[u8]| Reply::Body("image/png", bytes.to_vec());
    let pages = ModelServer::start(vec![image(PNG)], Delivery::Whole).unwrap();
    let address = pages.base_url().replace("/v1", "/plot");
    let cases: &[(&[&str], &str, &str)] = &[
        // An image below the file is named, and others are in the file.
        (&["-a", "p.png", "what?"], "q.md", "src=\"p.png\" local"),
        (&["-a", "p.png"], "q.md", "<user><img"),
        (&["-a", "p.png", "what?"], "sub/q.md", "data:image/png"),
        (
            &["-a", "p.png", "-a", "sub/q.png", "what?"],
            "q.md",
            "sub/q.png",
        ),
        (&["-a", &address, "what?"], "q.md", "data:image/png"),
    ];
    for (arguments, file, expected) in cases {
        let folder = folder(&[("sub/x", "")]);
        for name in ["p.png", "sub/q.png"] {
            std::fs::write(folder.path().join(name), PNG).unwrap();
        }
        let server = serve(&["one", "two"]);
        let saving = ["ask", "-m", "m", "-s", "Be brief.", "--save", file];
        let ran = ask(folder.path(), &server, &[&saving, *arguments].concat());
        assert_eq!(ran.status, 0, "{arguments:?}: {}", ran.stderr);
        let saved = std::fs::read_to_string(folder.path().join(file)).unwrap();
        assert!(saved.contains(expected), "{arguments:?}: {saved}");
        let ran = ask(folder.path(), &server, &["run", "--no-save", file]);
        assert_eq!(ran.status, 0, "{arguments:?}: {}", ran.stderr);
        let received = server.received();
        assert_eq!(received[0].body, received[1].body, "{arguments:?}");
    }
}

#[test]
fn a_continued_question_saves_the_conversation_so_far() {
    let folder = folder(&[]);
    std::fs::write(folder.path().join("p.png"), PNG).unwrap();
    let call = Answer::text("Let me see.").with_call("c1", "read_dir", "{\"path\":\".\"}");
    let replies = vec![
        Reply::Answer(call),
        Reply::Answer(Answer::text("An </user> |RAW image.")),
        Reply::Answer(Answer::text("Because.")),
        Reply::Answer(Answer::text("Because.")),
    ];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let first = [
        "ask",
        "-m",
        "m",
        "-s",
        "Be {{brief}}.",
        "--tool",
        "read_dir",
        "-a",
        "p.png",
        "what?",
    ];
    let ran = ask(folder.path(), &server, &first);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let ran = ask(
        folder.path(),
        &server,
        &["ask", "-c", "--save", "q.md", "why?"],
    );
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    let ran = ask(folder.path(), &server, &["run", "--no-save", "q.md"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let received = server.received();
    assert_eq!(received.len(), 4);
    assert_eq!(received[2].body, received[3].body);
}

#[test]
fn instructions_are_redacted_before_they_are_stored() {
    let folder = folder(&[("logue.toml", "[redact]\npatterns = [\"k-[0-9]+\"]\n")]);
    let ran = run(
        folder.path(),
        [
            "ask",
            "-m",
            "echo:",
            "-s",
            "The key is k-123",
            "about k-456",
        ],
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let store = folder.path().join(".data");
    let mut waiting = vec![store];
    while let Some(next) = waiting.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).unwrap();
            for secret in ["k-123", "k-456"] {
                let is_there = bytes
                    .windows(secret.len())
                    .any(|part| part == secret.as_bytes());
                assert!(!is_there, "{}: {secret}", path.display());
            }
        }
    }
}
