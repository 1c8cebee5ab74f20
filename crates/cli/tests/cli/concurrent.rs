//! Two runs of one file.

use std::path::Path;
use std::process::{Child, Stdio};

use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, folder, logue};
use crate::waiting::wait_for_text;

fn start(folder: &Path, server: &ModelServer, message: &str) -> Child {
    logue(folder)
        .args(["run", "prompt.md", message])
        .env("OPENAI_BASE_URL", server.base_url())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn many_runs_of_one_file_take_their_turns() {
    let server = ModelServer::start(
        vec![Reply::Answer(Answer::text("yes"))],
        Delivery::Random(1),
    )
    .unwrap();
    let settings = "[run]\nlock_timeout_seconds = 60\n";
    let folder = folder(&[
        ("prompt.md", "<config model=\"m\"/>\n"),
        ("logue.toml", settings),
    ]);
    let children: Vec<Child> = (0..8)
        .map(|number| start(folder.path(), &server, &format!("message {number}")))
        .collect();
    for child in children {
        let ran = Ran::from(child.wait_with_output().unwrap());
        assert_eq!(
            (ran.status, ran.stdout.as_str()),
            (0, "yes\n"),
            "{}",
            ran.stderr
        );
    }
    let text = std::fs::read_to_string(folder.path().join("prompt.md")).unwrap();
    for number in 0..8 {
        let turn = format!(
            "<user>\nRAW|message {number}|RAW</user>\n<assistant>\nRAW|yes|RAW</assistant>\n"
        );
        assert!(
            text.contains(&turn),
            "turn {number} is missing or interleaved:\n{text}"
        );
    }
    assert_eq!(chatmd::check(&text), []);
}

#[test]
fn a_run_that_waited_too_long_is_refused() {
    let server = ModelServer::start(vec![Reply::Silent], Delivery::Whole).unwrap();
    let folder = folder(&[
        ("prompt.md", "<config model=\"m\"/>\n"),
        ("logue.toml", "[run]\nlock_timeout_seconds = 0\n"),
    ]);
    let mut first = start(folder.path(), &server, "first");
    let path = folder.path().join("prompt.md");
    wait_for_text(&path, "first");
    let before = std::fs::read(&path).unwrap();
    let second = Ran::from(
        start(folder.path(), &server, "second")
            .wait_with_output()
            .unwrap(),
    );
    assert_eq!(second.status, 7, "{}", second.stderr);
    assert!(
        second.stderr.contains("error[transcript_locked]"),
        "{}",
        second.stderr
    );
    assert_eq!(std::fs::read(&path).unwrap(), before);
    first.kill().unwrap();
    first.wait().unwrap();
}
