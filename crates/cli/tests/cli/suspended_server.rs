//! A suspended turn continues with the server and the model that it began with.

use std::path::Path;

use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, folder, logue};

const PROMPT: &str = "<config model=\"m\"/>\n<tool name=\"deploy\" command=\"echo done\"/>\n";
const ASK: [&str; 2] = ["--permission", "deploy=ask"];
const FILE: [&str; 3] = ["run", "p.md", "go"];
const SESSION: [&str; 5] = ["send", "--agent", "p.md", "s", "go"];

fn first_server() -> ModelServer {
    let call = Answer::text("Now.").with_call("c1", "deploy", "{\"arguments\":[]}");
    let replies = [call, Answer::text("so be it")].map(Reply::Answer);
    ModelServer::start(replies.into(), Delivery::Whole).unwrap()
}

fn other_server() -> ModelServer {
    let replies = vec![Reply::Answer(Answer::text("stolen"))];
    ModelServer::start(replies, Delivery::Whole).unwrap()
}

fn ask(folder: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> Ran {
    let mut command = logue(folder);
    command.envs(variables.iter().copied()).args(arguments);
    command.output().unwrap().into()
}

/// The words of the printed command that resumes the turn.
fn resuming(ran: &Ran) -> Vec<String> {
    assert_eq!(ran.status, 6, "{}", ran.stderr);
    let mut lines = ran.stderr.lines();
    let line = lines.find(|line| line.contains("logue signal")).unwrap();
    let words = line.split_whitespace().skip(1);
    words.map(str::to_owned).collect()
}

#[test]
fn a_decision_sends_the_conversation_only_to_the_server_of_the_turn() {
    for start in [&FILE[..], &SESSION] {
        let folder = folder(&[("p.md", PROMPT)]);
        let (first, other) = (first_server(), other_server());
        let url = first.base_url();
        let begun = [start, &ASK, &["--base-url", &url]].concat();
        let id = resuming(&ask(folder.path(), &[], &begun))[1].clone();
        let elsewhere = [("OPENAI_BASE_URL", &*other.base_url())];
        let ran = ask(folder.path(), &elsewhere, &["signal", &id, "--approve"]);
        assert_eq!(
            (ran.status, &*ran.stdout),
            (0, "so be it\n"),
            "{}",
            ran.stderr
        );
        assert_eq!((first.received().len(), other.received().len()), (2, 0));
    }
}

#[test]
fn a_key_of_the_environment_is_not_sent_to_a_recorded_server_unasked() {
    for start in [&FILE[..], &SESSION] {
        let folder = folder(&[("p.md", PROMPT)]);
        let (first, other) = (first_server(), other_server());
        let (url, elsewhere) = (first.base_url(), other.base_url());
        let key = ("OPENAI_API_KEY", "sk-first-key");
        let begun = [start, &ASK, &["--base-url", &url]].concat();
        let printed = resuming(&ask(folder.path(), &[key], &begun));
        let now = [
            ("OPENAI_BASE_URL", &*elsewhere),
            ("OPENAI_API_KEY", "sk-other-key"),
        ];
        let refused = ask(folder.path(), &now, &["signal", &printed[1], "--approve"]);
        assert_eq!((refused.status, &*refused.stdout), (3, ""));
        for word in [&*url, &*elsewhere, "--base-url"] {
            assert!(refused.stderr.contains(word), "{}", refused.stderr);
        }
        assert_eq!((first.received().len(), other.received().len()), (1, 0));
        let printed: Vec<&str> = printed.iter().map(String::as_str).collect();
        let ran = ask(folder.path(), &[key], &printed);
        assert_eq!(
            (ran.status, &*ran.stdout),
            (0, "so be it\n"),
            "{}",
            ran.stderr
        );
        assert_eq!((first.received().len(), other.received().len()), (2, 0));
    }
}

#[test]
fn messages_sent_meanwhile_change_neither_server_nor_model() {
    let folder = folder(&[("p.md", PROMPT)]);
    let (first, other) = (first_server(), other_server());
    let here = [("OPENAI_BASE_URL", &*first.base_url())];
    let begun = [&SESSION[..], &ASK, &["-m", "early"]].concat();
    let id = resuming(&ask(folder.path(), &here, &begun))[1].clone();
    let there = [("OPENAI_BASE_URL", &*other.base_url())];
    let sent = ask(folder.path(), &there, &["send", "-m", "late", "s", "hello"]);
    assert_eq!(
        (sent.status, &*sent.stdout),
        (0, "stolen\n"),
        "{}",
        sent.stderr
    );
    let ran = ask(folder.path(), &there, &["signal", &id, "--approve"]);
    assert_eq!(
        (ran.status, &*ran.stdout),
        (0, "so be it\n"),
        "{}",
        ran.stderr
    );
    assert_eq!((first.received().len(), other.received().len()), (2, 1));
    assert_eq!(first.received()[1].body["model"], "early");
}
