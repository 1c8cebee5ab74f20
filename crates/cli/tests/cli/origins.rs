//! The recorded origin of a transcript leads to the directory and the text that its user saw only.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{self, Ran, logue};

const PROMPT: &str = "<config model=\"m\"/>\n<tool name=\"read_file\"/>\n\
    <user>See <doc src=\"a.txt\" local/></user>\n";

fn files() -> tempfile::TempDir {
    let folder = program::folder(&[
        ("p/prompt.md", PROMPT),
        ("p/a.txt", "snow"),
        ("p/private.txt", "SECRET beside the prompt"),
        ("secret/prompt.md", PROMPT),
        ("secret/a.txt", "SECRET elsewhere"),
    ]);
    fs::create_dir(folder.path().join("out")).unwrap();
    folder
}

fn answers(count: usize) -> ModelServer {
    let replies = vec![Reply::Answer(Answer::text("ok")); count];
    ModelServer::start(replies, Delivery::Whole).unwrap()
}

fn ask(folder: &Path, server: &ModelServer, arguments: &[&str]) -> Ran {
    let mut command = logue(folder);
    command
        .current_dir(folder)
        .env("OPENAI_BASE_URL", server.base_url());
    command.args(arguments).output().unwrap().into()
}

/// A transcript in `out` that began with the prompt in `p`.
fn begun(server: &ModelServer) -> tempfile::TempDir {
    let folder = files();
    let ran = ask(
        folder.path(),
        server,
        &["run", "-o", "out/t.md", "p/prompt.md"],
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    folder
}

fn sent(server: &ModelServer) -> Vec<String> {
    let received = server.received().into_iter();
    received.map(|one| one.body.to_string()).collect()
}

/// Checks that a run neither sends a request nor keeps the origin, and names the remedy.
fn refused(folder: &Path, server: &ModelServer, reason: &str) {
    let before = server.received().len();
    let ran = ask(folder, server, &["run", "out/t.md", "x"]);
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    let notes = [
        reason,
        "its paths count from its own directory",
        "`logue run -o ",
    ];
    for note in notes {
        assert!(ran.stderr.contains(note), "{}", ran.stderr);
    }
    assert_eq!(server.received().len(), before);
    for command in [
        &["check", "out/t.md"][..],
        &["convert", "--expand", "--to", "openai", "out/t.md"],
        &["run", "--dry-run", "--json", "out/t.md", "x"],
    ] {
        let ran = ask(folder, server, command);
        assert_ne!(ran.status, 0, "{command:?}");
        assert!(!ran.stdout.contains("SECRET"), "{}", ran.stdout);
        assert!(ran.stderr.contains(reason), "{command:?}: {}", ran.stderr);
    }
}

#[test]
fn a_link_in_place_of_the_directory_is_not_followed() {
    let server = answers(1);
    let folder = begun(&server);
    let root = folder.path();
    fs::rename(root.join("p"), root.join("old")).unwrap();
    symlink("secret", root.join("p")).unwrap();
    refused(root, &server, "a link replaced its directory");
}

#[test]
fn a_link_above_the_directory_is_not_followed() {
    let server = answers(1);
    let folder = begun(&server);
    let root = folder.path();
    let deep = root.join("deep");
    fs::create_dir_all(deep.join("sub")).unwrap();
    fs::rename(root.join("p"), deep.join("sub/p")).unwrap();
    let server = answers(1);
    let command = ["run", "-o", "out/t.md", "deep/sub/p/prompt.md", "x"];
    let ran = ask(root, &server, &command);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    fs::rename(deep.join("sub"), root.join("old")).unwrap();
    fs::rename(root.join("secret"), root.join("p")).unwrap();
    symlink("..", deep.join("sub")).unwrap();
    refused(root, &server, "a link replaced its directory");
}

#[test]
fn another_beginning_of_the_transcript_reads_its_own_directory() {
    let server = answers(1);
    let folder = begun(&server);
    let path = folder.path().join("out/t.md");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("a.txt", "private.txt")).unwrap();
    refused(
        folder.path(),
        &server,
        "the beginning of the transcript was changed",
    );
}

#[test]
fn added_elements_must_not_name_files_of_the_origin() {
    for added in [
        "<user>See <doc src=\"private.txt\" local/></user>\n",
        "<user><img src=\"private.png\" local/></user>\n",
        "<user><agent src=\"private.md\" local>x</agent></user>\n",
        "<import src=\"private.md\"/>\n",
        "<config response_schema=\"private.json\"/>\n",
        "<tool name=\"read_dir\"/>\n",
    ] {
        let server = answers(1);
        let folder = begun(&server);
        let path = folder.path().join("out/t.md");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, [&text, added].concat()).unwrap();
        refused(folder.path(), &server, "added later, names a file");
    }
}

#[test]
fn an_added_message_of_text_keeps_the_origin() {
    let server = answers(3);
    let folder = begun(&server);
    let root = folder.path();
    let path = root.join("out/t.md");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, [&text, "<user>And?</user>\n"].concat()).unwrap();
    let ran = ask(root, &server, &["run", "out/t.md"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let ran = ask(root, &server, &["run", "out/t.md", "more"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let bodies = sent(&server);
    assert!(
        bodies.iter().all(|body| body.contains("snow")),
        "{bodies:?}"
    );
}

#[test]
fn the_origin_ends_with_its_prompt_and_can_be_set_again() {
    let server = answers(3);
    let folder = begun(&server);
    let root = folder.path();
    let prompt = root.join("p/prompt.md");
    fs::remove_file(&prompt).unwrap();
    refused(root, &server, "is not where it was");
    fs::write(&prompt, PROMPT).unwrap();
    // An added reference counts once the user names the prompt again.
    let path = root.join("out/t.md");
    let text = fs::read_to_string(&path).unwrap();
    let added = "<user>See <doc src=\"private.txt\" local/></user>\n";
    fs::write(&path, [&text, added].concat()).unwrap();
    let ran = ask(root, &server, &["run", "-o", "out/t.md", "p/prompt.md"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let ran = ask(root, &server, &["run", "out/t.md", "x"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(sent(&server)[2].contains("SECRET beside the prompt"));
}

#[test]
fn a_decision_does_not_follow_a_link_either() {
    let call = Answer::text("").with_call("c1", "say", "{\"arguments\":[]}");
    let replies = [call, Answer::text("done")].map(Reply::Answer);
    let server = ModelServer::start(replies.to_vec(), Delivery::Whole).unwrap();
    let folder = files();
    let root = folder.path();
    let tool = "<tool name=\"say\" command=\"cat a.txt\"/>\n";
    for directory in ["p", "secret"] {
        let path = root.join(directory).join("prompt.md");
        fs::write(path, PROMPT.replace("<user>", &format!("{tool}<user>"))).unwrap();
    }
    let command = [
        "run",
        "--permission",
        "say=ask",
        "-o",
        "out/t.md",
        "p/prompt.md",
    ];
    let ran = ask(root, &server, &command);
    assert_eq!(ran.status, 6, "{}", ran.stderr);
    let line = ran.stderr.lines().find(|it| it.contains("logue signal"));
    let signal = line.unwrap().split_whitespace().nth(2).unwrap().to_owned();
    fs::rename(root.join("p"), root.join("old")).unwrap();
    symlink("secret", root.join("p")).unwrap();
    let ran = ask(root, &server, &["signal", &signal, "--approve"]);
    assert_ne!(ran.status, 0);
    assert!(
        ran.stderr.contains("a link replaced its directory"),
        "{}",
        ran.stderr
    );
    assert_eq!(server.received().len(), 1);
}

#[test]
fn a_session_with_a_transcript_as_its_agent_honours_the_origin() {
    let server = answers(3);
    let folder = begun(&server);
    let root = folder.path();
    let send = ["send", "--agent", "out/t.md", "s", "hello"];
    let ran = ask(root, &server, &send);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(sent(&server)[1].contains("snow"));
    fs::rename(root.join("p"), root.join("old")).unwrap();
    symlink("secret", root.join("p")).unwrap();
    let ran = ask(root, &server, &["send", "s", "again"]);
    assert_ne!(ran.status, 0);
    assert_eq!(server.received().len(), 2);
}

#[test]
fn a_preview_with_another_transcript_writes_nothing() {
    let server = answers(2);
    let folder = begun(&server);
    let root = folder.path();
    let before = program::contents(root);
    for (output, message) in [("out/new.md", "first"), ("out/t.md", "second")] {
        let shown = ask(
            root,
            &server,
            &[
                "run",
                "--dry-run",
                "--json",
                "-o",
                output,
                "p/prompt.md",
                message,
            ],
        );
        assert_eq!(shown.status, 0, "{}", shown.stderr);
        assert_eq!(program::contents(root), before, "{output}");
        assert_eq!(
            server.received().len(),
            if message == "first" { 1 } else { 2 }
        );
        let ran = ask(
            root,
            &server,
            &["run", "-o", output, "p/prompt.md", message],
        );
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let body: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
        assert_eq!(body, server.received().pop().unwrap().body);
        if message == "first" {
            fs::remove_file(root.join("out/new.md")).unwrap();
            fs::remove_file(root.join("out/.chatmd/new.md.evaluated.json")).unwrap();
        }
    }
}

#[test]
fn a_transcript_of_another_prompt_is_refused() {
    let server = answers(1);
    let folder = begun(&server);
    let root = folder.path();
    fs::write(root.join("p/other.md"), "<user>Other</user>\n").unwrap();
    let before = program::contents(root);
    let ran = ask(root, &server, &["run", "-o", "out/t.md", "p/other.md", "x"]);
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    for part in [
        "`out/t.md` does not begin with the text of `p/other.md`",
        "`logue run out/t.md`",
    ] {
        assert!(ran.stderr.contains(part), "{}", ran.stderr);
    }
    assert_eq!(program::contents(root), before);
    assert_eq!(server.received().len(), 1);
}

#[test]
fn frames_keep_the_line_ends_of_their_transcript() {
    let text = "version: 2.2\r\nmodel: m\r\n\r\n<|start|>user<|message|>Hello<|end|>\r\n";
    for text in [text.to_owned(), text.replace("\r\n", "\n")] {
        let folder = program::folder(&[("t.ocml", &text)]);
        let ran = ask(folder.path(), &answers(1), &["run", "t.ocml"]);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let after = fs::read_to_string(folder.path().join("t.ocml")).unwrap();
        let added = after.strip_prefix(&text).unwrap();
        assert!(
            added.ends_with("|>\n") || added.ends_with("|>\r\n"),
            "{added:?}"
        );
        let crlf = after.matches("\r\n").count();
        let is_crlf = text.contains('\r');
        let expected = if is_crlf {
            after.matches('\n').count()
        } else {
            0
        };
        assert_eq!(crlf, expected, "{after:?}");
    }
}

#[test]
fn a_decision_at_another_address_sends_the_recorded_answer_of_an_agent() {
    let folder = program::folder(&[
        (
            "p.md",
            "<config model=\"m\"/>\n<tool name=\"say\" command=\"echo hi\"/>\n\
             <user>hi <agent src=\"ag.md\" local>q</agent></user>\n",
        ),
        ("ag.md", "<system>agent</system>"),
    ]);
    let root = folder.path();
    let call = Answer::text("").with_call("c1", "say", "{\"arguments\":[]}");
    let replies = [Answer::text("of the agent"), call].map(Reply::Answer);
    let first = ModelServer::start(replies.to_vec(), Delivery::Whole).unwrap();
    let ran = ask(root, &first, &["run", "--permission", "say=ask", "p.md"]);
    assert_eq!(ran.status, 6, "{}", ran.stderr);
    let line = ran.stderr.lines().find(|it| it.contains("logue signal"));
    let signal = line.unwrap().split_whitespace().nth(2).unwrap().to_owned();
    let second = answers(1);
    let address = second.base_url();
    let command = ["signal", &signal, "--approve", "--base-url", &address];
    let ran = ask(root, &second, &command);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let bodies = sent(&second);
    assert_eq!(bodies.len(), 1, "the agent is not asked");
    assert!(bodies[0].contains("hi of the agent"), "{bodies:?}");
}
