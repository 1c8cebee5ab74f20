//! The program against a scripted model: every step is a process of its own.

use std::path::Path;
use std::process::Command;
use std::{fs, str};

use testkit::{Answer, Delivery, ModelServer, Reply};

/// Runs the program in `folder` and returns its output.
fn run(folder: &Path, model: &ModelServer, words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_approved-tool"))
        .args(words)
        .current_dir(folder)
        .env("OPENAI_BASE_URL", model.base_url())
        .env_remove("OPENAI_API_KEY")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    str::from_utf8(&output.stdout).unwrap().trim().to_owned()
}

#[test]
fn an_approved_call_has_its_effect_once_and_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let call = Answer::text("").with_call("c1", "deploy", r#"{"service": "web"}"#);
    let replies = [call, Answer::text("The service runs.")].map(Reply::Answer);
    let model = ModelServer::start(replies.into(), Delivery::Whole).unwrap();
    let log = folder.path().join("deployed.log");

    let signal = run(folder.path(), &model, &["deploy", "web"]);
    assert!(!log.exists());

    for _ in 0..2 {
        let answer = run(folder.path(), &model, &["--approve", &signal]);
        assert_eq!(answer, "The service runs.");
        assert_eq!(fs::read_to_string(&log).unwrap(), "web\n");
    }
    assert_eq!(model.received().len(), 2);
}
