//! Settings of a `<config>`: what reaches the model, and what is refused by `check` and `run` alike.

use std::path::Path;

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, folder, logue, run};

fn ask(folder: &Path, server: &ModelServer, arguments: &[&str]) -> Ran {
    let mut command = logue(folder);
    command
        .env("OPENAI_BASE_URL", server.base_url())
        .args(arguments);
    command.output().unwrap().into()
}

fn serve(answers: Vec<Answer>) -> ModelServer {
    let replies = answers.into_iter().map(Reply::Answer).collect();
    ModelServer::start(replies, Delivery::Whole).unwrap()
}

fn prompt(attributes: &str) -> String {
    format!("<config model=\"m\" {attributes}/>\n<tool name=\"read_dir\"/>\n<user>go</user>\n")
}

#[test]
fn a_stop_in_brackets_is_a_text_unless_it_is_json() {
    for (stop, expected) in [
        ("stop=\"[END]\"", json!(["[END]"])),
        ("stop=\" [/INST] \"", json!([" [/INST] "])),
        ("stop='[\"END\", \"[1]\"]'", json!(["END", "[1]"])),
        // The remedy of the error below.
        ("stop='[\"[1]\"]'", json!(["[1]"])),
    ] {
        let folder = folder(&[("p.md", &prompt(stop))]);
        let server = serve(vec![Answer::text("done")]);
        let ran = ask(folder.path(), &server, &["run", "--no-save", "p.md"]);
        assert_eq!(ran.status, 0, "{stop}: {}", ran.stderr);
        assert_eq!(server.received()[0].body["stop"], expected, "{stop}");
    }
    for (stop, remedy) in [
        ("stop=\"[1]\"", "for this one text, write stop='[\"[1]\"]'"),
        ("stop='[\"END\"'", "write a JSON list of texts, such as"),
    ] {
        let folder = folder(&[("p.md", &prompt(stop))]);
        let ran = run(folder.path(), ["check", "p.md"]);
        assert_eq!(ran.status, 8, "{stop}: {}", ran.stderr);
        assert!(ran.stderr.contains(remedy), "{stop}: {}", ran.stderr);
    }
}

#[test]
fn check_refuses_what_a_run_refuses() {
    for (attributes, cause) in [
        (
            "response_schema=\"text.json\"",
            "\"text.json\" is not JSON: ",
        ),
        (
            "response_schema=\"list.json\"",
            "has no `\"type\": \"object\"` at its root",
        ),
        (
            "response_schema=\"\"",
            "invalid `response_schema` \"\": not the path",
        ),
        ("tool_choice=\"\"", "invalid `tool_choice` \"\": not `auto`"),
        ("tool_choice=\"read_dir\"", "did you mean `read_directory`?"),
        ("tool_choice=\"requierd\"", "did you mean `required`?"),
        (
            "top_p=\"-1\"",
            "invalid `top_p` \"-1\": not a number from 0 to 1",
        ),
        ("top_p=\"2\"", "invalid `top_p` \"2\""),
        ("temperature=\"-0.1\"", "invalid `temperature` \"-0.1\""),
        (
            "max_tokens=\"0\"",
            "invalid `max_tokens` \"0\": not a whole number above 0",
        ),
    ] {
        let folder = folder(&[
            ("p.md", &prompt(attributes)),
            ("text.json", "{not json"),
            ("list.json", "{\"type\": \"array\"}"),
        ]);
        let checked = run(folder.path(), ["check", "p.md"]);
        assert_eq!(checked.status, 8, "{attributes}: {}", checked.stderr);
        assert!(
            checked.stderr.contains(cause),
            "{attributes}: {}",
            checked.stderr
        );
        let server = serve(vec![Answer::text("{}")]);
        let ran = ask(folder.path(), &server, &["run", "--no-save", "p.md"]);
        assert_eq!(ran.status, 3, "{attributes}: {}", ran.stderr);
        assert!(server.received().is_empty(), "{attributes}");
    }
    let none = "<config model=\"m\" tool_choice=\"required\"/>\n<user>go</user>\n";
    let imported = "<config model=\"m\" tool_choice=\"read_directory\" top_p=\"1\" \
        response_schema=\"object.json\" temperature=\"0\"/>\n<import src=\"tools.chatmd\"/>\n\
        <user>go</user>\n";
    let folder = folder(&[
        ("none.md", none),
        ("imported.md", imported),
        ("tools.chatmd", "<tool name=\"read_dir\"/>\n"),
        ("object.json", "{\"type\": \"object\"}"),
    ]);
    let checked = run(folder.path(), ["check", "none.md"]);
    assert_eq!(checked.status, 8, "{}", checked.stderr);
    let checked = run(
        folder.path(),
        ["check", "--deny", "warnings", "imported.md"],
    );
    assert_eq!(checked.status, 0, "{}", checked.stderr);
}

/// Returns the tool choice of each request.
fn choices(server: &ModelServer) -> Vec<Value> {
    let received = server.received();
    let bodies = received.iter().map(|received| &received.body);
    bodies
        .map(|body| body.get("tool_choice").cloned().unwrap_or_default())
        .collect()
}

#[test]
fn a_tool_is_required_once() {
    let named = json!({"type": "function", "function": {"name": "read_directory"}});
    for (choice, sent) in [("required", json!("required")), ("read_directory", named)] {
        let attributes = format!("tool_choice=\"{choice}\" response_schema=\"a.json\"");
        let folder = folder(&[
            ("p.md", &prompt(&attributes)),
            ("a.json", "{\"type\": \"object\"}"),
        ]);
        let server = serve(vec![
            // This model ignores the choice and the schema.
            Answer::text("no"),
            Answer::text("").with_call("c1", "read_directory", "{\"path\": \".\"}"),
            Answer::text("{}"),
        ]);
        let ran = ask(folder.path(), &server, &["run", "--no-save", "p.md"]);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let free = |choice: &Value| choice.is_null() || choice == "auto";
        let choices = choices(&server);
        assert_eq!(choices.len(), 3);
        assert_eq!(choices[0], sent);
        assert!(choices[1..].iter().all(free), "{choices:?}");
    }
}

#[test]
fn a_turn_that_continues_with_results_is_free_to_answer() {
    let text =
        "<config model=\"m\" tool_choice=\"required\"/>\n<tool name=\"say\" command=\"echo\"/>\n";
    let folder = folder(&[("p.md", text)]);
    let server = serve(vec![
        Answer::text("").with_call("c1", "say", "{\"arguments\": [\"a\"]}"),
        Answer::text("done"),
    ]);
    let asked = ["run", "--permission", "say=ask", "p.md", "go"];
    let ran = ask(folder.path(), &server, &asked);
    assert_eq!(ran.status, 6, "{}", ran.stderr);
    let line = ran
        .stderr
        .lines()
        .find(|line| line.contains("logue signal"));
    let signal = line.unwrap().split_whitespace().nth(2).unwrap();
    let ran = ask(folder.path(), &server, &["signal", signal, "--approve"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let choices = choices(&server);
    assert_eq!(choices[0], "required");
    assert_ne!(choices[1], "required", "{choices:?}");
}

#[test]
fn a_transcript_that_ends_with_a_result_is_free_to_answer() {
    let called = "<user>go</user>\n<tool_call tool_call_id=\"c1\" function_name=\"read_directory\">\
        {\"path\": \".\"}</tool_call>\n<tool_response tool_call_id=\"c1\">p.md</tool_response>\n";
    let text = prompt("tool_choice=\"required\"").replace("<user>go</user>\n", called);
    let folder = folder(&[("p.md", &text)]);
    let server = serve(vec![Answer::text("done")]);
    let ran = ask(folder.path(), &server, &["run", "--no-save", "p.md"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_ne!(choices(&server)[0], "required");
    let again = ["run", "--no-save", "p.md", "and again"];
    let ran = ask(folder.path(), &server, &again);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(choices(&server)[1], "required");
}
