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
