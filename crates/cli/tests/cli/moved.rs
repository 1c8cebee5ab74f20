//! `run -o` into another directory: the transcript runs from there as the prompt runs in place.

use std::fs;
use std::path::Path;

use serde_json::Value;
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program;
use crate::program::{Ran, logue, strict};

const PIXEL: &[u8] = b"\x89PNG\r\n\x1a\nrest";

const PROMPT: &str = "<config model=\"m\" response_schema=\"s.json\"/>\n\
    <import src=\"parts/setup.md\"/>\n<tool name=\"read_file\"/>\n\
    <tool name=\"helper\" agent=\"agents/h.md\" local/>\n\
    <system><import src=\"parts/rules.txt\"/></system>\n\
    <user>See <doc src=\"a.txt\" local/> <img src=\"pixel.png\" local/> \
    <agent src=\"agents/h.md\" local>go</agent></user>\n";

fn files() -> tempfile::TempDir {
    let folder = program::folder(&[
        ("p/prompt.md", PROMPT),
        (
            "p/parts/setup.md",
            "<tool name=\"read_dir\"/>\n<system><doc src=\"parts/more.txt\" local/></system>",
        ),
        ("p/parts/more.txt", "More."),
        ("p/parts/rules.txt", "Rules."),
        ("p/a.txt", "snow"),
        ("p/s.json", "{\"type\":\"object\"}"),
        (
            "p/agents/h.md",
            "<system><doc src=\"own.txt\" local/></system>",
        ),
        ("p/agents/own.txt", "Own."),
        ("other/deep/a.txt", "another file of the same name"),
    ]);
    fs::write(folder.path().join("p/pixel.png"), PIXEL).unwrap();
    folder
}

fn serve() -> ModelServer {
    let call = Answer::default().with_call("c1", "read_file", "{\"file\":\"a.txt\"}");
    let replies = [
        Answer::text("of the agent"),
        call,
        Answer::text("{}"),
        Answer::text("{\"a\":1}"),
    ];
    let replies = replies.map(Reply::Answer);
    ModelServer::start(replies.to_vec(), Delivery::Whole).unwrap()
}

fn ask(home: &Path, folder: &Path, server: &ModelServer, arguments: &[&str]) -> Ran {
    let mut command = logue(home);
    command
        .current_dir(folder)
        .env("OPENAI_BASE_URL", server.base_url());
    command.args(arguments).output().unwrap().into()
}

fn bodies(server: &ModelServer) -> Vec<Value> {
    server.received().into_iter().map(|one| one.body).collect()
}

#[test]
fn a_transcript_elsewhere_sends_what_the_prompt_sends_in_place() {
    let (here, there) = (files(), files());
    let (in_place, elsewhere) = (serve(), serve());
    let root = here.path();
    for arguments in [&["run", "p/prompt.md"][..], &["run", "p/prompt.md", "And?"]] {
        let ran = ask(root, root, &in_place, arguments);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
    }
    let root = there.path();
    let ran = ask(
        root,
        root,
        &elsewhere,
        &["run", "-o", "other/deep/t.md", "p/prompt.md"],
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    // From another current directory, and without the prompt on the command line.
    let ran = ask(
        root,
        &root.join("other"),
        &elsewhere,
        &["run", "deep/t.md", "And?"],
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("note: paths count from ") && ran.stderr.contains("p/prompt.md"),
        "{}",
        ran.stderr
    );
    assert_eq!(bodies(&elsewhere), bodies(&in_place));
    assert_eq!(bodies(&elsewhere).len(), 4);
    // The prompt and its folder are as they were; payloads are beside the transcript.
    assert_eq!(
        fs::read_to_string(root.join("p/prompt.md")).unwrap(),
        PROMPT
    );
    assert!(!root.join("p/.chatmd").exists());
    assert!(root.join("other/deep/.chatmd").is_dir());
    // Other commands resolve its paths in the same way.
    let check = ask(
        root,
        &root.join("other"),
        &elsewhere,
        &["check", "deep/t.md"],
    );
    assert_eq!(check.status, 0, "{}", check.stderr);
    let dry = ask(
        root,
        root,
        &elsewhere,
        &["run", "--dry-run", "--json", "other/deep/t.md", "x"],
    );
    assert!(dry.stdout.contains("snow"), "{}{}", dry.stdout, dry.stderr);
    let expanded = ask(
        root,
        root,
        &elsewhere,
        &["convert", "--expand", "--to", "openai", "other/deep/t.md"],
    );
    assert!(
        expanded.stdout.contains("See snow"),
        "{}{}",
        expanded.stdout,
        expanded.stderr
    );
}

#[test]
fn a_transcript_that_was_moved_or_shipped_reads_its_own_directory_only() {
    let folder = files();
    let root = folder.path();
    let server = serve();
    let ran = ask(
        root,
        root,
        &server,
        &["run", "-o", "other/t.md", "p/prompt.md"],
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let before = server.received().len();
    // Another place, with a copy of the record: its paths must not lead to the prompt.
    fs::create_dir_all(root.join("moved/.chatmd")).unwrap();
    for (from, to) in [
        ("t.md", "t.md"),
        (".chatmd/t.md.evaluated.json", ".chatmd/t.md.evaluated.json"),
    ] {
        fs::copy(root.join("other").join(from), root.join("moved").join(to)).unwrap();
    }
    let ran = ask(root, root, &server, &["run", "moved/t.md", "x"]);
    assert_eq!(ran.status, 3);
    assert!(
        ran.stderr.contains("note: the transcript was moved"),
        "{}",
        ran.stderr
    );
    // A record with another origin, as a checkout could contain it.
    let path = root.join("other/.chatmd/t.md.evaluated.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("p/prompt.md", "elsewhere/prompt.md")).unwrap();
    let ran = ask(root, root, &server, &["run", "other/t.md", "x"]);
    assert_eq!(ran.status, 3);
    assert!(
        ran.stderr
            .contains("it was not written on this machine by you"),
        "{}",
        ran.stderr
    );
    assert_eq!(server.received().len(), before);
    // Naming the prompt again helps.
    let ran = ask(
        root,
        root,
        &server,
        &["run", "-o", "other/t.md", "p/prompt.md", "x"],
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let ran = ask(root, root, &server, &["run", "other/t.md", "x"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
}

#[test]
fn the_origin_of_a_transcript_gives_it_no_trust() {
    let folder = program::folder(&[
        ("p/prompt.md", "<config model=\"m\"/><user>x</user>"),
        (
            ".config/logue/config.toml",
            "[trust]\ndirectories = [\"~/p\"]\n",
        ),
    ]);
    let root = folder.path();
    fs::create_dir(root.join("other")).unwrap();
    let config = root.join(".config/logue/config.toml");
    fs::write(
        config,
        format!(
            "[trust]\ndirectories = [\"{}\"]\n",
            root.join("p").display()
        ),
    )
    .unwrap();
    let call = Answer::default().with_call("c1", "sh", "{\"arguments\":[\"made\"]}");
    let replies = [Answer::text("hi"), call, Answer::text("done")].map(Reply::Answer);
    let server = ModelServer::start(replies.to_vec(), Delivery::Whole).unwrap();
    let ask = |arguments: &[&str]| -> Ran {
        let mut command = strict(root);
        command
            .env("OPENAI_BASE_URL", server.base_url())
            .args(arguments);
        command.output().unwrap().into()
    };
    assert_eq!(ask(&["run", "-o", "other/t.md", "p/prompt.md"]).status, 0);
    // The text of the transcript changes, for example by a pull.
    let text = fs::read_to_string(root.join("other/t.md")).unwrap();
    let tool = "<tool name=\"sh\" command=\"touch\" description=\"x\"/>\n";
    fs::write(root.join("other/t.md"), [tool, &text].concat()).unwrap();
    let ran = ask(&["run", "other/t.md", "go"]);
    assert_eq!(ran.status, 6, "{}", ran.stderr);
    assert!(!root.join("p/made").exists() && !root.join("made").exists());
}

/// A transcript in `p` with a small and a large payload, and one in `out` that begins with it.
fn with_payloads() -> (tempfile::TempDir, ModelServer) {
    let large = "x".repeat(70_000);
    let folder = program::folder(&[
        (
            "p/p.md",
            "<config model=\"m\"/>\n<tool name=\"read_file\"/>\n<user>hi</user>\n",
        ),
        ("p/a.txt", "snow"),
        ("p/large.txt", &large),
        ("out/other.txt", ""),
        ("third/other.txt", ""),
    ]);
    let call = Answer::default()
        .with_call("c1", "read_file", "{\"file\":\"a.txt\"}")
        .with_call("c2", "read_file", "{\"file\":\"large.txt\"}");
    let replies = [call, Answer::text("Both."), Answer::text("ok")].map(Reply::Answer);
    let server = ModelServer::start(replies.to_vec(), Delivery::Whole).unwrap();
    let ran = ask(folder.path(), folder.path(), &server, &["run", "p/p.md"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    (folder, server)
}

fn payloads(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder.join(".chatmd")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names
        .filter(|name| !name.ends_with(".evaluated.json"))
        .collect();
    names.sort();
    names
}

#[test]
fn payloads_are_copied_beside_a_transcript_elsewhere() {
    let (folder, server) = with_payloads();
    let root = folder.path();
    let before = payloads(&root.join("p"));
    assert!(before.iter().any(|name| name.starts_with("sha256-")));
    assert!(before.iter().any(|name| name.starts_with("0.tool-call.c1")));
    let ran = ask(root, root, &server, &["run", "--no-save", "p/p.md", "go"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let in_place = bodies(&server).pop().unwrap();
    let ran = ask(
        root,
        root,
        &server,
        &["run", "-o", "out/t.md", "p/p.md", "go"],
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(bodies(&server).pop().unwrap(), in_place);
    assert_eq!(payloads(&root.join("out")), before);
    // From there, without the payloads of the prompt, and once more into another directory.
    fs::remove_dir_all(root.join("p/.chatmd")).unwrap();
    let ran = ask(root, root, &server, &["run", "out/t.md", "more"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let ran = ask(
        root,
        root,
        &server,
        &["run", "-o", "third/u.md", "out/t.md", "on"],
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let sent = bodies(&server).pop().unwrap();
    let (all, begin) = (
        sent["messages"].as_array().unwrap(),
        in_place["messages"].as_array().unwrap(),
    );
    assert_eq!(all[..begin.len()], begin[..]);
    assert_eq!(payloads(&root.join("third")), before);
}

#[test]
fn a_payload_of_another_transcript_is_not_taken_for_a_copy() {
    let (folder, server) = with_payloads();
    let root = folder.path();
    let name = payloads(&root.join("p"))
        .into_iter()
        .find(|name| name.starts_with("0."))
        .unwrap();
    fs::create_dir(root.join("out/.chatmd")).unwrap();
    let taken = root.join("out/.chatmd").join(&name);
    fs::write(&taken, "of another transcript").unwrap();
    let requests = bodies(&server).len();
    let ran = ask(
        root,
        root,
        &server,
        &["run", "-o", "out/t.md", "p/p.md", "go"],
    );
    assert_eq!(ran.status, 3);
    assert!(
        ran.stderr.contains(&name) && ran.stderr.contains("name a file in another directory"),
        "{}",
        ran.stderr
    );
    assert_eq!(fs::read_to_string(&taken).unwrap(), "of another transcript");
    assert_eq!(payloads(&root.join("out")), [name]);
    assert!(!root.join("out/t.md").exists());
    assert_eq!(bodies(&server).len(), requests);
}
