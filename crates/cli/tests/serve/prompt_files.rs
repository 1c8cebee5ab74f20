//! The prompt files of served agents, which built-in tools list and do not read.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::client::Served;
use crate::program::{folder, logue};

const AGENT: &str = "<config model=\"m\"/>\n<import src=\"parts/rules.md\"/>\n\
    <system>SECRET of the agent</system>\n<tool name=\"read_file\"/>\n<tool name=\"search\"/>\n\
    <tool name=\"read_directory\"/>\n<tool name=\"find_and_replace\"/>\n\
    <tool name=\"helper\" agent=\"sub/helper.md\" local/>\n";
const RULES: &str = "<system>SECRET of the rules</system>\n";
const HELPER: &str = "<config model=\"m\"/>\n<developer>SECRET of the helper</developer>\n";
const OTHER: &str = "<config model=\"m\"/>\n<system>SECRET of the other agent</system>\n";

/// The calls that could read a prompt.
fn calls() -> Vec<(&'static str, Value)> {
    let mut calls: Vec<_> = [
        "agent.md",
        "./sub/../agent.md",
        "parts/rules.md",
        "sub/helper.md",
        "other.md",
        "hard.txt",
        "soft.txt",
        "rules-hard.txt",
    ]
    .into_iter()
    .map(|path| ("read_file", json!({ "file": path })))
    .collect();
    calls.push(("search", json!({"pattern": "SECRET"})));
    calls.push(("search", json!({"pattern": "SECRET", "path": "agent.md"})));
    calls.push(("search", json!({"pattern": "SECRET", "path": "hard.txt"})));
    let replace =
        json!({"file": "hard.txt", "search": "no such text", "replace": "x", "all": true});
    calls.push(("find_and_replace", replace));
    calls
}

fn prepare(folder: &Path) {
    fs::hard_link(folder.join("agent.md"), folder.join("hard.txt")).unwrap();
    fs::hard_link(folder.join("parts/rules.md"), folder.join("rules-hard.txt")).unwrap();
    symlink("agent.md", folder.join("soft.txt")).unwrap();
    fs::write(folder.join("plain.txt"), "a note about a SECRE\n").unwrap();
}

fn replies(calls: &[(&str, Value)]) -> Vec<Reply> {
    let answers = calls
        .iter()
        .enumerate()
        .flat_map(|(number, (name, arguments))| {
            let call =
                Answer::text("").with_call(format!("call_{number}"), *name, arguments.to_string());
            [Reply::Answer(call), Reply::Answer(Answer::text("done"))]
        });
    answers.collect()
}

#[test]
fn tools_of_a_server_do_not_read_prompts() {
    let folder = folder(&[
        ("agent.md", AGENT),
        ("parts/rules.md", RULES),
        ("sub/helper.md", HELPER),
        ("other.md", OTHER),
    ]);
    prepare(folder.path());
    let mut all = calls();
    all.push(("read_file", json!({"file": "plain.txt"})));
    all.push(("read_directory", json!({"path": "."})));
    let model = ModelServer::start(replies(&all), Delivery::Whole).unwrap();
    let mut command = logue(folder.path());
    command.env("OPENAI_BASE_URL", model.base_url());
    let rules = ["agent.md", "other.md", "--permission", "*=allow"];
    let served = Served::start_with(command, &rules);
    for (number, (name, arguments)) in all.iter().enumerate() {
        let path = format!("/v1/sessions/s{number}/send");
        let sent = served.post(&path, &json!({"message": "go", "agent": "agent"}));
        assert_eq!(sent.status, 200, "{sent:?}");
        let replies = sent.json();
        let result = replies["replies"][1]["content"].as_str().unwrap();
        assert!(
            !sent.text.contains("SECRET of"),
            "{name} {arguments}: {sent:?}"
        );
        match *name {
            "read_file" if arguments["file"] == "plain.txt" => {
                assert!(result.contains("a note"), "{result}");
            }
            "read_directory" => assert!(result.contains("agent.md"), "{result}"),
            "search" if arguments["path"].is_null() => {}
            "find_and_replace" => assert!(result.contains("tools do not write it"), "{result}"),
            _ => assert!(
                result.contains("is the prompt of a served agent"),
                "{name} {arguments}: {result}"
            ),
        }
    }
    // A new version of the prompt is hidden as well, also before it is served.
    fs::write(folder.path().join("new"), format!("{AGENT}<user>SECRET of")).unwrap();
    fs::rename(folder.path().join("new"), folder.path().join("agent.md")).unwrap();
    fs::hard_link(
        folder.path().join("agent.md"),
        folder.path().join("newer.txt"),
    )
    .unwrap();
    let again = [
        ("read_file", json!({"file": "agent.md"})),
        ("read_file", json!({"file": "newer.txt"})),
    ];
    drop(served);
    let model = ModelServer::start(replies(&again), Delivery::Whole).unwrap();
    fs::write(folder.path().join("agent.md"), AGENT).unwrap();
    let mut command = logue(folder.path());
    command.env("OPENAI_BASE_URL", model.base_url());
    let served = Served::start_with(command, &rules);
    fs::write(
        folder.path().join("agent.md"),
        format!("{AGENT}<user>SECRET of"),
    )
    .unwrap();
    for number in 0..again.len() {
        let path = format!("/v1/sessions/again{number}/send");
        let sent = served.post(&path, &json!({"message": "go", "agent": "agent"}));
        assert_eq!(sent.status, 200, "{sent:?}");
        assert!(!sent.text.contains("SECRET of"), "{sent:?}");
    }
}

#[test]
fn a_prompt_that_its_user_runs_may_be_read() {
    let folder = folder(&[
        ("agent.md", AGENT),
        ("parts/rules.md", RULES),
        ("sub/helper.md", HELPER),
    ]);
    let calls = [("read_file", json!({"file": "agent.md"}))];
    let model = ModelServer::start(replies(&calls), Delivery::Whole).unwrap();
    let mut command = logue(folder.path());
    command.env("OPENAI_BASE_URL", model.base_url());
    let arguments = [
        "run",
        "agent.md",
        "go",
        "-o",
        "t.md",
        "--permission",
        "*=allow",
    ];
    let ran = command.args(arguments).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let request = &model.received()[1].body["messages"];
    let result = request.as_array().unwrap().last().unwrap();
    assert!(
        result.to_string().contains("SECRET of the agent"),
        "{result}"
    );
}
