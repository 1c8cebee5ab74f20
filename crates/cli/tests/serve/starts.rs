//! Servers that start at the same moment, or while another one ends, on one store.

use std::net::TcpListener;

use serde_json::json;

use crate::client::Served;
use crate::program::{folder, run};

const AGENT: &str = "<config model=\"echo:\"/>\n";
const ROUNDS: usize = 8;

#[test]
fn servers_that_start_at_once_on_a_new_store_all_start() {
    for _ in 0..ROUNDS {
        let folder = folder(&[("agent.md", AGENT)]);
        let start = || Served::start(folder.path(), &["agent.md"]);
        let servers = std::thread::scope(|scope| {
            let started: Vec<_> = (0..3).map(|_| scope.spawn(start)).collect();
            let joined = started.into_iter().map(|one| one.join().unwrap());
            joined.collect::<Vec<_>>()
        });
        for (number, served) in servers.iter().enumerate() {
            let path = format!("/v1/sessions/s{number}/send");
            let sent = served.post(&path, &json!({"message": "go"}));
            assert_eq!(sent.status, 200, "{sent:?}");
        }
        let listed = servers[0].get("/v1/sessions").json();
        assert_eq!(listed["sessions"].as_array().unwrap().len(), servers.len());
    }
}

#[test]
fn a_server_starts_while_another_one_ends() {
    let folder = folder(&[("agent.md", AGENT)]);
    let mut served = Served::start(folder.path(), &["agent.md"]);
    for round in 0..ROUNDS {
        let path = format!("/v1/sessions/s{round}/send");
        let sent = served.post(&path, &json!({"message": "go"}));
        assert_eq!(sent.status, 200, "{sent:?}");
        served = std::thread::scope(|scope| {
            let next = scope.spawn(|| Served::start(folder.path(), &["agent.md"]));
            let ended = served.end();
            assert_eq!(ended.status, Some(143), "{ended:?}");
            next.join().unwrap()
        });
    }
    let listed = served.get("/v1/sessions").json();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), ROUNDS);
}

/// A user corrects everything that a start reports, and starts once more.
#[test]
fn a_start_that_fails_names_every_prompt_and_the_port() {
    const KEY: &str = "<config model=\"gpt-5\"/>\n";
    const PROVIDER: &str = "<!-- x -->\n  <config model=\"nosuch:gpt\"/>\n";
    const NONE: &str = "<system>no model</system>\n";
    const TAG: &str = "<config model=\"echo:\"/>\n<user>open\n";
    let folder = folder(&[
        ("all/key.md", KEY),
        ("all/provider.md", PROVIDER),
        ("all/none.md", NONE),
        ("all/tag.md", TAG),
        ("sound.md", AGENT),
    ]);
    let used = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = used.local_addr().unwrap().to_string();
    let place = |name: &str, place: &str| {
        let file = folder.path().join("all").join(name);
        format!("{}:{place}", file.display())
    };
    let expected = [
        place("key.md", "1:1: no key for https://api.openai.com/v1"),
        place("provider.md", "2:3: no key for https://api.openai.com/v1"),
        place("none.md", "1:1: no model is configured"),
        place("tag.md", "2:1\n"),
        "help: set OPENAI_API_KEY".to_owned(),
        "`nosuch:` is not a provider; there are `openai:`".to_owned(),
        "help: add <config model=".to_owned(),
    ];
    let files = ["all/key.md", "all/provider.md", "all/none.md", "all/tag.md"];
    // Prompts of the command line end it, and a directory without a sound prompt does.
    for prompts in [&[&files[..], &["sound.md"]].concat()[..], &["all"]] {
        let mut command = vec!["serve", "--store", "sqlite:s.db", "--listen", &listen];
        command.extend(prompts);
        let ran = run(folder.path(), command);
        assert_eq!(ran.status, 3, "{}", ran.stderr);
        let taken = format!("error[listen_failed]: cannot listen on {listen}");
        assert!(ran.stderr.starts_with(&taken), "{}", ran.stderr);
        assert!(!ran.stderr.contains("listening on"), "{}", ran.stderr);
        for text in &expected {
            assert!(ran.stderr.contains(text), "{text}: {}", ran.stderr);
        }
    }
}
