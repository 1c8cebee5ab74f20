//! Prompts that change while their agents are served.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use testkit::{Answer, Delivery, Gate, ModelServer, Random, Received, Reply};

use crate::client::Served;
use crate::program::{folder, logue, run};
use crate::waiting::wait_until;

/// A prompt with an error in line 4.
const BROKEN: &str = "<config model=\"m\"/>\n<system>version two</system>\n\
    <tool name=\"work\" command=\"printf done\"/>\n<user>hidden words\n";

fn prompt(version: &str) -> String {
    format!(
        "<config model=\"m\"/>\n<system>version {version}</system>\n\
         <tool name=\"work\" command=\"printf done\"/>\n"
    )
}

/// Returns the version of the prompt in a request to the model.
fn version(request: &Received) -> &str {
    let system = request.body["messages"][0]["content"].as_str().unwrap();
    system.strip_prefix("version ").unwrap()
}

/// Replaces a file at once.
fn replace(file: &Path, text: &str) {
    let new = file.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, file).unwrap();
}

fn command(folder: &Path, model: &ModelServer) -> Command {
    let mut command = logue(folder);
    command.env("OPENAI_BASE_URL", model.base_url());
    command
}

fn serve(folder: &Path, model: &ModelServer) -> Served {
    let arguments = ["agents", "--permission", "work=allow"];
    Served::start_with(command(folder, model), &arguments)
}

fn agent(served: &Served, name: &str) -> Value {
    let agents = served.get("/v1/agents").json();
    let mut agents = agents["agents"].as_array().unwrap().iter();
    let agent = agents.find(|agent| agent["name"] == name);
    agent.cloned().unwrap_or_default()
}

fn wait_for_state(served: &Served, name: &str, state: &str) {
    wait_until(
        || format!("{name} is not {state}: {}", served.said()),
        || agent(served, name)["state"] == state,
    );
}

fn send(served: &Served, session: &str, agent: &str) -> crate::client::Answered {
    let body = json!({"message": "go", "agent": agent});
    served.post(&format!("/v1/sessions/{session}/send"), &body)
}

/// Sends to new sessions until the model receives a version of the prompt.
fn wait_for_version(served: &Served, model: &ModelServer, agent: &str, expected: &str) {
    let mut number = 0;
    wait_until(
        || format!("version {expected} is not served: {}", served.said()),
        || {
            number += 1;
            let sent = send(served, &format!("probe-{expected}-{number}"), agent);
            assert_eq!(sent.status, 200, "{sent:?}");
            version(model.received().last().unwrap()) == expected
        },
    );
}

fn answering() -> ModelServer {
    let replies = vec![Reply::Answer(Answer::text("answer"))];
    ModelServer::start(replies, Delivery::Whole).unwrap()
}

#[test]
fn a_changed_prompt_is_served_and_a_running_turn_keeps_its_version() {
    let gate = Gate::new();
    let gated = gate.clone();
    let answer = move |request: &Received| {
        let messages = request.body["messages"].as_array().unwrap();
        let is_long = messages.iter().any(|message| message["content"] == "long");
        let is_first = messages.iter().all(|message| message["role"] != "tool");
        if is_long && is_first {
            let answer = Answer::text("working").with_call("c1", "work", "{}");
            let bytes = answer.stream(&mut Random::new(7));
            return Reply::Gated(vec![b": wait\n\n".to_vec(), bytes], gated.clone());
        }
        Reply::Answer(Answer::text("answer"))
    };
    let model = ModelServer::start_by(answer, Delivery::Whole).unwrap();
    let folder = folder(&[("agents/a.md", &prompt("one"))]);
    let served = serve(folder.path(), &model);
    std::thread::scope(|scope| {
        let long =
            scope.spawn(|| served.post("/v1/sessions/long/send", &json!({"message": "long"})));
        wait_until(
            || "the turn did not begin".to_owned(),
            || !model.received().is_empty(),
        );
        replace(&folder.path().join("agents/a.md"), &prompt("two"));
        wait_for_version(&served, &model, "a", "two");
        gate.open();
        let long = long.join().unwrap();
        assert_eq!(long.status, 200, "{long:?}");
    });
    let received = model.received();
    let long = |request: &&Received| request.body.to_string().contains("\"long\"");
    let versions: Vec<&str> = received.iter().filter(long).map(version).collect();
    assert_eq!(versions, ["one", "one"]);
    // Its next turn uses the new version.
    assert_eq!(send(&served, "long", "a").status, 200);
    assert_eq!(version(model.received().last().unwrap()), "two");
}

#[test]
fn a_broken_prompt_is_reported_and_its_earlier_version_answers() {
    let model = answering();
    let folder = folder(&[
        ("agents/a.md", &*prompt("one")),
        ("agents/b.md", &*prompt("other")),
    ]);
    let served = serve(folder.path(), &model);
    let file = folder.path().join("agents/a.md");
    assert_eq!(send(&served, "s1", "a").status, 200);
    replace(&file, BROKEN);
    wait_for_state(&served, "a", "outdated");
    assert_eq!(agent(&served, "b")["state"], "ready");
    let shown = agent(&served, "a");
    assert_eq!(shown["error"]["code"], "E-MD-UNCLOSED-TAG", "{shown}");
    assert!(shown["error"].get("report").is_none(), "{shown}");
    assert!(!shown.to_string().contains("hidden words"), "{shown}");

    for session in ["s1", "s2"] {
        assert_eq!(send(&served, session, "a").status, 200);
        assert_eq!(version(model.received().last().unwrap()), "one");
    }
    assert_eq!(send(&served, "s3", "b").status, 200);
    assert_eq!(version(model.received().last().unwrap()), "other");

    // Another error, and then none: each is reported once.
    replace(&file, &format!("\n{BROKEN}"));
    let position = |line: usize| format!("agents/a.md:{line}:1\n");
    wait_until(
        || format!("the second error is not reported: {}", served.said()),
        || served.said().contains(&position(5)),
    );
    replace(&file, &prompt("three"));
    wait_for_state(&served, "a", "ready");
    assert_eq!(send(&served, "s1", "a").status, 200);
    assert_eq!(version(model.received().last().unwrap()), "three");
    let said = served.said();
    for line in [4, 5] {
        assert_eq!(said.matches(&position(line)).count(), 1, "{said}");
    }
}

#[test]
fn the_report_of_a_broken_prompt_requires_the_scope_debug() {
    let model = answering();
    let folder = folder(&[("agents/a.md", &*prompt("one"))]);
    let token = |name: &str, scope: &str| {
        let arguments = ["serve", "token", "create", name, "--scope", scope];
        run(folder.path(), arguments).stdout.trim().to_owned()
    };
    let (reader, debugger) = (token("reader", "read"), token("debugger", "read,debug"));
    let served = serve(folder.path(), &model);
    replace(&folder.path().join("agents/a.md"), BROKEN);
    let error = |token: &str| {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", &*bearer)];
        let agents = served.request("GET", "/v1/agents", &headers, "");
        agents.json()["agents"][0]["error"].clone()
    };
    wait_until(
        || format!("the error is not reported: {}", served.said()),
        || !error(&reader).is_null(),
    );
    assert_eq!(error(&reader)["code"], "E-MD-UNCLOSED-TAG");
    assert_eq!(error(&reader).get("report"), None);
    let report = error(&debugger)["report"].as_str().unwrap().to_owned();
    assert!(report.contains("a.md:4:1"), "{report}");
}

#[test]
fn the_sessions_of_a_removed_agent_are_readable_and_continue_when_it_is_back() {
    let replies = vec![
        Reply::Answer(Answer::text("may I?").with_call("c1", "work", "{}")),
        Reply::Answer(Answer::text("finished")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[
        ("agents/a.md", &*prompt("one")),
        ("agents/b.md", &*prompt("other")),
    ]);
    let arguments = ["agents", "--permission", "work=ask"];
    let served = Served::start_with(command(folder.path(), &model), &arguments);
    let sent = send(&served, "s1", "a");
    assert_eq!(sent.status, 202, "{sent:?}");
    let id = sent.json()["signal"]["signal_id"].clone();
    let signal = format!("/v1/signals/{}", id.as_str().unwrap());

    let file = folder.path().join("agents/a.md");
    fs::remove_file(&file).unwrap();
    wait_until(
        || "the agent was not removed".to_owned(),
        || agent(&served, "a").is_null(),
    );
    let check = |served: &Served| {
        let sessions = served.get("/v1/sessions").json();
        assert_eq!(sessions["sessions"][0]["session"], "s1", "{sessions}");
        assert_eq!(sessions["sessions"][0]["agent"], "a", "{sessions}");
        let messages = served.get("/v1/sessions/s1/messages").json();
        assert_eq!(messages["messages"][0]["content"], "go", "{messages}");
        assert_eq!(
            served.get("/v1/signals").json()["signals"][0]["signal_id"],
            id
        );
        let refused = [
            served.post("/v1/sessions/s1/send", &json!({"message": "more"})),
            served.post("/v1/sessions/s1/retry", &json!({})),
            served.post(&signal, &json!({"approval": "approve"})),
        ];
        for refused in refused {
            assert_eq!(refused.status, 409, "{refused:?}");
            assert_eq!(refused.json()["code"], "agent_removed", "{refused:?}");
        }
        let other = send(served, "s2", "a");
        assert_eq!(other.json()["code"], "agent_not_found", "{other:?}");
    };
    check(&served);
    served.kill();
    let served = Served::start_with(command(folder.path(), &model), &arguments);
    check(&served);
    assert_eq!(model.received().len(), 1);

    fs::write(&file, prompt("one")).unwrap();
    wait_for_state(&served, "a", "ready");
    let decided = served.post(&signal, &json!({"approval": "approve"}));
    assert_eq!(decided.status, 200, "{decided:?}");
    assert_eq!(
        decided.json()["replies"]
            .as_array()
            .unwrap()
            .last()
            .unwrap()["content"],
        "finished"
    );
}

#[test]
fn a_new_prompt_is_served_when_all_of_it_is_written() {
    let model = answering();
    let folder = folder(&[("agents/b.md", &*prompt("other"))]);
    let served = serve(folder.path(), &model);
    let file = folder.path().join("agents/a.md");
    let text = format!("{}<user>question</user>\n", prompt("one"));
    let (half, rest) = text.split_at(text.len() - 12);
    fs::write(&file, half).unwrap();
    wait_for_state(&served, "a", "broken");
    let sent = send(&served, "s1", "a");
    assert_eq!(sent.status, 503, "{sent:?}");
    assert_eq!(sent.json()["code"], "agent_broken", "{sent:?}");
    assert_eq!(served.get("/v1/sessions/s1").status, 404);
    assert_eq!(send(&served, "s2", "b").status, 200);

    fs::write(&file, format!("{half}{rest}")).unwrap();
    wait_for_state(&served, "a", "ready");
    assert_eq!(send(&served, "s1", "a").status, 200);
    assert_eq!(version(model.received().last().unwrap()), "one");

    // An empty file is a prompt that is being written, not a removed agent.
    fs::write(&file, "").unwrap();
    wait_for_state(&served, "a", "outdated");
    assert_eq!(send(&served, "s1", "a").status, 200);
    assert_eq!(version(model.received().last().unwrap()), "one");
    fs::write(&file, prompt("two")).unwrap();
    wait_for_state(&served, "a", "ready");
    wait_for_version(&served, &model, "a", "two");
}

#[test]
fn a_server_starts_without_the_broken_prompts_of_a_directory() {
    let model = answering();
    let folder = folder(&[("agents/a.md", BROKEN), ("agents/b.md", &*prompt("other"))]);
    let served = serve(folder.path(), &model);
    assert!(served.said().contains("a.md:4:1"), "{}", served.said());
    assert_eq!(agent(&served, "a")["state"], "broken");
    assert_eq!(send(&served, "s1", "b").status, 200);
    // A prompt that the command names must be valid.
    for paths in [&["agents/a.md", "agents/b.md"][..], &["agents/a.md"]] {
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--store", "sqlite:t.db"];
        let ran = command(folder.path(), &model)
            .args(arguments)
            .args(paths)
            .output()
            .unwrap();
        assert_eq!(ran.status.code(), Some(3));
        let stderr = String::from_utf8(ran.stderr).unwrap();
        assert!(stderr.contains("E-MD-UNCLOSED-TAG"), "{stderr}");
    }
}

/// A byte that is not UTF-8 hides no prompt, and the log of a server has no text of it.
#[test]
fn a_prompt_that_is_not_text_is_broken_and_not_quoted() {
    let model = answering();
    let folder = folder(&[("agents/a.md", ""), ("agents/b.md", &*prompt("other"))]);
    let broken = b"<config model=\"m\"/>\n<system>\nsecret words \xff\n</system>\n";
    let file = folder.path().join("agents/a.md");
    fs::write(&file, broken).unwrap();
    let served = serve(folder.path(), &model);
    assert_eq!(agent(&served, "a")["state"], "broken");
    assert_eq!(send(&served, "s1", "a").status, 503);
    let reported = |count: usize| {
        wait_until(
            || format!("not reported: {}", served.said()),
            || served.said().matches("E-SOURCE-NOT-UTF8").count() == count,
        );
        assert!(!served.said().contains("secret words"), "{}", served.said());
    };
    reported(1);
    assert!(served.said().contains("a.md:3:14"), "{}", served.said());
    replace(&file, &prompt("one"));
    wait_for_state(&served, "a", "ready");
    fs::write(&file, broken).unwrap();
    wait_for_state(&served, "a", "outdated");
    reported(2);
    let served = Served::start_with(
        command(folder.path(), &model),
        &["agents", "--debug-view", "--permission", "work=allow"],
    );
    assert!(served.said().contains("secret words"), "{}", served.said());
}

#[test]
fn the_log_names_no_server_of_a_prompt() {
    let model = answering();
    let failing =
        prompt("one") + "<tool mcp_server=\"stdio:sh -c 'echo secret-words >&2; exit 1'\"/>\n";
    let folder = folder(&[("agents/a.md", &*failing)]);
    let start = |arguments: &[&str]| {
        let arguments = [&["agents", "--permission", "*=allow"], arguments].concat();
        let served = Served::start_with(command(folder.path(), &model), &arguments);
        send(&served, "s1", "a");
        wait_until(
            || format!("not reported: {}", served.said()),
            || served.said().contains("E-MCP-SERVER-FAILED"),
        );
        served.said()
    };
    let said = start(&[]);
    assert!(!said.contains("secret-words"), "{said}");
    let said = start(&["--debug-view"]);
    assert!(said.contains("secret-words"), "{said}");
}
