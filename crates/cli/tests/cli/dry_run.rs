//! `logue run --dry-run`: the request that would be sent, and nothing else.

use std::path::Path;

use serde_json::Value;
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, contents, folder, logue};

const PROMPT: &str = "<config model=\"m\" temperature=\"0.5\"/>\n<tool name=\"read_dir\"/>\n\
    <system>Be brief. <import src=\"rules.md\"/></system>\n<user>Sum up <doc src=\"a.txt\" local/></user>\n";

fn ask(folder: &Path, server: &ModelServer, arguments: &[&str]) -> Ran {
    let mut command = logue(folder);
    command
        .env("OPENAI_BASE_URL", server.base_url())
        .args(arguments);
    command.output().unwrap().into()
}

fn serve() -> ModelServer {
    let reply = Reply::Answer(Answer::text("x"));
    ModelServer::start(vec![reply], Delivery::Whole).unwrap()
}

fn files() -> tempfile::TempDir {
    folder(&[
        ("prompt.md", PROMPT),
        ("rules.md", "Use <b>. <!-- no -->"),
        ("a.txt", "snow"),
    ])
}

#[test]
fn the_body_of_a_dry_run_is_the_one_of_the_run() {
    let folder = files();
    let server = serve();
    let before = contents(folder.path());
    let dry = [
        "run",
        "--dry-run",
        "--json",
        "prompt.md",
        "And é \u{7}\u{202e}?",
    ];
    let ran = ask(folder.path(), &server, &dry);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    assert!(server.received().is_empty());
    assert_eq!(contents(folder.path()), before);
    let body: Value = serde_json::from_str(&ran.stdout).unwrap();
    let ran = ask(
        folder.path(),
        &server,
        &["run", "prompt.md", "And é \u{7}\u{202e}?"],
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(server.received()[0].body, body);
    assert_eq!(body["messages"][0]["content"], "Be brief. Use <b>. ");
}

#[test]
fn the_body_for_each_format_is_the_one_that_is_sent() {
    let folder = files();
    let prompt = PROMPT.replace(" temperature=\"0.5\"", "");
    std::fs::write(folder.path().join("prompt.md"), prompt).unwrap();
    for model in ["responses:m", "anthropic:m", "harmony:m"] {
        let server = serve();
        let url = server.base_url();
        let model = ["-m", model, "--base-url", &url, "prompt.md"];
        let dry = [&["run", "--dry-run", "--json"], &model[..]].concat();
        let ran = ask(folder.path(), &server, &dry);
        assert_eq!(ran.status, 0, "{model:?}: {}", ran.stderr);
        assert!(server.received().is_empty(), "{model:?}");
        let body: Value = serde_json::from_str(&ran.stdout).unwrap();
        // The scripted answer is of another format, so the run fails after its request.
        ask(
            folder.path(),
            &server,
            &[&["run", "--no-save"], &model[..]].concat(),
        );
        assert_eq!(server.received()[0].body, body, "{model:?}");
    }
}

#[test]
fn a_dry_run_shows_messages_settings_and_tokens() {
    let folder = files();
    let server = serve();
    let ran = ask(folder.path(), &server, &["run", "--dry-run", "prompt.md"]);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    let tools = ran.stdout.lines().nth(2).unwrap_or_default();
    assert!(
        tools.starts_with("tools (") && tools.ends_with("): read_directory"),
        "{tools}"
    );
    for expected in [
        "model: m\nsettings: temperature 0.5\n",
        "\nsystem (8 tokens):\nBe brief. Use <b>. \n",
        "\nuser (3 tokens):\nSum up snow\n",
        "in the vocabulary o200k; nothing was sent\n",
    ] {
        assert!(ran.stdout.contains(expected), "{expected}{}", ran.stdout);
    }
    assert!(server.received().is_empty());
    let echo = ["run", "--dry-run", "-m", "echo:", "prompt.md"];
    assert_eq!(ask(folder.path(), &server, &echo).status, 0);
    let harmony = ["run", "--dry-run", "-m", "harmony:m", "prompt.md"];
    let ran = ask(folder.path(), &server, &harmony);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    for expected in [
        "tokens) <|start|>system<|message|>You are",
        "tokens) <|start|>developer<|message|># Instructions",
        " tokens) <|start|>user<|message|>Sum up snow<|end|>",
        "as rendered; nothing was sent\n",
    ] {
        assert!(ran.stdout.contains(expected), "{expected}{}", ran.stdout);
    }
    let json = ["run", "--dry-run", "--json", "-m", "echo:", "prompt.md"];
    assert_eq!(ask(folder.path(), &server, &json).status, 2);
}

#[test]
fn a_dry_run_asks_neither_agents_nor_rewriters() {
    let folder = folder(&[
        (
            "prompt.md",
            "<!-- META_REFINE -->\n<config model=\"m\"/>\n\
             <user><agent src=\"a.md\" local>x</agent></user>\n",
        ),
        ("a.md", "<system>s</system>"),
    ]);
    let server = serve();
    let ran = ask(folder.path(), &server, &["run", "--dry-run", "prompt.md"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(
        ran.stdout.contains("[the answer of the agent a.md]\n"),
        "{}",
        ran.stdout
    );
    assert_eq!(ran.stderr.matches("note: ").count(), 2, "{}", ran.stderr);
    assert!(server.received().is_empty());
}
