//! What of a prompt's files reaches the model: order, imported text, agents, notes and line ends.

use std::path::Path;

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, folder, logue, run};

fn serve(answers: &[&str]) -> ModelServer {
    let replies = answers
        .iter()
        .map(|text| Reply::Answer(Answer::text(*text)));
    ModelServer::start(replies.collect(), Delivery::Whole).unwrap()
}

fn ask(folder: &Path, server: &ModelServer, arguments: &[&str]) -> Ran {
    let mut command = logue(folder);
    command
        .env("OPENAI_BASE_URL", server.base_url())
        .env("LOGUE_MODEL", "configured")
        .args(arguments);
    command.output().unwrap().into()
}

/// The roles and texts of a request.
fn sent(server: &ModelServer, request: usize) -> Vec<(String, String)> {
    let body = &server.received()[request].body;
    let messages = body["messages"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    messages
        .map(|message| (text(&message["role"]), text(&message["content"])))
        .collect()
}

const INTERRUPTED: &str = "<config model=\"m\" show_tool_call/>\n<tool name=\"read_file\"/>\n\
    <user>first</user>\n\
    <tool_call tool_call_id=\"c1\" function_name=\"read_file\">RAW|{\"file\":\"a\"}|RAW</tool_call>\n";

#[test]
fn a_message_after_an_interrupted_call_is_sent_after_it() {
    let written = format!("{INTERRUPTED}<user>second</user>\n");
    let folder = folder(&[("prompt.md", &written)]);
    let server = serve(&["one", "two"]);
    let ran = ask(folder.path(), &server, &["run", "prompt.md"]);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "one\n"),
        "{}",
        ran.stderr
    );
    let roles = |request| -> Vec<String> {
        sent(&server, request)
            .into_iter()
            .map(|(role, _)| role)
            .collect()
    };
    assert_eq!(roles(0), ["user", "assistant", "tool", "user"]);
    assert_eq!(sent(&server, 0)[3].1, "second");
    assert!(sent(&server, 0)[2].1.starts_with("E-TOOL-CANCELLED"));
    // The next run sends the same history.
    let ran = ask(folder.path(), &server, &["run", "prompt.md", "third"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(
        roles(1),
        ["user", "assistant", "tool", "user", "assistant", "user"]
    );
    assert_eq!(sent(&server, 1)[..4], sent(&server, 0)[..]);
}

#[test]
fn the_message_of_a_repeated_command_is_sent_once() {
    let written = format!("{INTERRUPTED}<user>\nRAW|second|RAW</user>\n");
    let folder = folder(&[("prompt.md", &written)]);
    let server = serve(&["one"]);
    let ran = ask(folder.path(), &server, &["run", "prompt.md", "second"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let texts: Vec<String> = sent(&server, 0).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts.len(), 4, "{texts:?}");
    assert_eq!(texts[3], "second");
}

#[test]
fn imported_text_is_sent_without_comments_and_with_its_documents() {
    let folder = folder(&[
        (
            "prompt.md",
            "<config model=\"m\"/>\n<system><import src=\"rules.md\"/></system>\n<user>hi</user>\n",
        ),
        (
            "rules.md",
            "Answer a `<user>` or </agent>. <!-- TODO: secret --><doc src=\"facts.txt\" local/>\n",
        ),
        ("facts.txt", "Snow fell."),
    ]);
    let server = serve(&["one"]);
    let ran = ask(folder.path(), &server, &["run", "--no-save", "prompt.md"]);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    assert_eq!(
        sent(&server, 0)[0].1,
        "Answer a `<user>` or </agent>. Snow fell.\n"
    );
    assert_eq!(
        run(folder.path(), ["check", "--deny", "warnings", "prompt.md"]).status,
        0
    );
}

#[test]
fn a_prompt_may_begin_with_the_assistant() {
    let prompt = "<config model=\"m\"/>\n<assistant>Hello, I am X.</assistant>\n<user>hi</user>\n";
    let folder = folder(&[("prompt.md", prompt)]);
    let server = serve(&["one"]);
    let ran = ask(folder.path(), &server, &["run", "--no-save", "prompt.md"]);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "one\n"),
        "{}",
        ran.stderr
    );
    assert_eq!(
        sent(&server, 0)[0],
        ("assistant".to_owned(), "Hello, I am X.".to_owned())
    );
    // The format of Anthropic has no such conversation, which is found before anything is sent.
    let ran = ask(
        folder.path(),
        &server,
        &[
            "run",
            "--no-save",
            "-m",
            "anthropic:m",
            "--base-url",
            &server.base_url(),
            "prompt.md",
        ],
    );
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    assert!(
        ran.stderr
            .contains("requires a user message before any other"),
        "{}",
        ran.stderr
    );
    assert_eq!(server.received().len(), 1);
}

#[test]
fn the_line_ends_of_a_file_stay() {
    let prompt = "<config model=\"m\"/>\r\n<user>hi\r\nyou</user>\r\n";
    let folder = folder(&[("prompt.md", prompt)]);
    let server = serve(&["one\nline"]);
    let ran = ask(folder.path(), &server, &["run", "prompt.md", "more\nof it"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let text = || std::fs::read_to_string(folder.path().join("prompt.md")).unwrap();
    let expected = format!(
        "{prompt}<user>\r\nRAW|more\nof it|RAW</user>\r\n\
         <assistant>\r\nRAW|one\nline|RAW</assistant>\r\n"
    );
    assert_eq!(text(), expected);
    let ran = run(folder.path(), ["fmt", "prompt.md"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let formatted = expected.replace("/>\r\n<user>", "/>\r\n\r\n<user>");
    assert_eq!(text(), formatted);
    let ran = ask(folder.path(), &server, &["run", "prompt.md", "x"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(
        sent(&server, 1)[..2],
        [
            ("user".to_owned(), "hi\r\nyou\n\nmore\nof it".to_owned()),
            ("assistant".to_owned(), "one\nline".to_owned()),
        ]
    );
}

#[test]
fn the_description_of_a_built_in_is_appended_to_its_own() {
    let long = "é".repeat(2000);
    let prompt = format!(
        "<config model=\"m\"/>\n<tool name=\"read_file\" description=\"Look in notes first.\"/>\n\
         <tool name=\"search\" description=\"{long}\"/>\n<tool name=\"read_dir\"/>\n<user>hi</user>\n"
    );
    let folder = folder(&[("prompt.md", &prompt)]);
    let server = serve(&["one"]);
    let ran = ask(folder.path(), &server, &["run", "--no-save", "prompt.md"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let tools = server.received()[0].body["tools"].clone();
    let description = |at: usize| {
        tools[at]["function"]["description"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert!(description(0).ends_with("\n\nNote from the prompt: Look in notes first."));
    assert!(description(0).len() > 60, "{}", description(0));
    assert!(description(1).ends_with(&format!(": {}", "é".repeat(1024))));
    assert!(!description(2).contains("Note from"));
}

#[test]
fn agents_have_the_model_and_the_settings_of_their_caller() {
    let folder = folder(&[
        (
            "prompt.md",
            "<config model=\"big\" temperature=\"0.5\" max_tokens=\"70\"/>\n\
             <tool name=\"helper\" agent=\"agents/own.md\" local/>\n\
             <user><agent src=\"agents/plain.md\" local>a</agent> \
             <agent src=\"agents/own.md\" local>b</agent></user>\n",
        ),
        (
            "agents/plain.md",
            "<config max_tokens=\"9\"/><system>plain</system>",
        ),
        (
            "agents/own.md",
            "<config model=\"small\"/><system>own</system>\
             <user><agent src=\"inner.md\" local>c</agent></user>",
        ),
        ("agents/inner.md", "<system>inner</system>"),
    ]);
    let settings = |server: &ModelServer, name: &str| -> Value {
        let received = server.received();
        let request = received
            .iter()
            .find(|request| request.body["messages"][0]["content"] == name)
            .unwrap();
        json!([
            request.body["model"],
            request.body["temperature"],
            request.body["max_tokens"]
        ])
    };
    let server = serve(&["x"]);
    let ran = ask(
        folder.path(),
        &server,
        &["run", "--no-save", "--no-cache", "prompt.md"],
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(settings(&server, "plain"), json!(["big", 0.5, 9]));
    assert_eq!(settings(&server, "own"), json!(["small", null, null]));
    assert_eq!(settings(&server, "inner"), json!(["small", null, null]));
    // A model of the command line is that of the caller.
    let server = serve(&["x"]);
    let command = ["run", "--no-save", "--no-cache", "-m", "flag", "prompt.md"];
    let ran = ask(folder.path(), &server, &command);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(settings(&server, "plain"), json!(["flag", 0.5, 9]));
    assert_eq!(settings(&server, "inner"), json!(["small", null, null]));
}

#[test]
fn an_agent_as_a_tool_has_the_model_of_its_caller() {
    let folder = folder(&[
        (
            "prompt.md",
            "<config model=\"big\" temperature=\"0.5\"/>\n\
             <tool name=\"helper\" agent=\"agent.md\" local/>\n<user>go</user>\n",
        ),
        ("agent.md", "<system>agent</system>"),
    ]);
    let call = Answer::text("").with_call("c", "helper", r#"{"input":"x"}"#);
    let replies = [call, Answer::text("helped"), Answer::text("done")].map(Reply::Answer);
    let server = ModelServer::start(replies.to_vec(), Delivery::Whole).unwrap();
    let ran = ask(folder.path(), &server, &["run", "--no-save", "prompt.md"]);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "done\n"),
        "{}",
        ran.stderr
    );
    let agent = &server.received()[1].body;
    assert_eq!(agent["messages"][0]["content"], "agent");
    assert_eq!(
        (&agent["model"], &agent["temperature"]),
        (&json!("big"), &json!(0.5))
    );
}

#[test]
fn check_looks_into_agents_once_each() {
    let folder = folder(&[
        (
            "prompt.md",
            "<tool name=\"helper\" agent=\"agents/a.md\" local/>\n\
             <user><agent src=\"agents/b.md\" local>x</agent></user>\n",
        ),
        (
            "agents/a.md",
            "<tool name=\"back\" agent=\"../prompt.md\" local/>\n\
             <tool name=\"b\" agent=\"b.md\" local/>\n<user><doc src=\"../shared.txt\" local/></user>\n",
        ),
        (
            "agents/b.md",
            "<config temperature=\"hot\"/>\n<user>b</user>\n",
        ),
        ("shared.txt", "shared"),
    ]);
    let ran = run(folder.path(), ["check", "prompt.md"]);
    assert_eq!(ran.status, 8);
    assert!(ran.stderr.contains("agents/b.md:1:"), "{}", ran.stderr);
    assert!(
        ran.stderr
            .ends_with("3 files checked: 1 error, 0 warnings\n"),
        "{}",
        ran.stderr
    );
    // An agent among the named files is not checked twice.
    let ran = run(folder.path(), ["check", "prompt.md", "agents/b.md"]);
    assert!(
        ran.stderr
            .ends_with("3 files checked: 1 error, 0 warnings\n"),
        "{}",
        ran.stderr
    );
    let ran = run(folder.path(), ["check", "--no-file-checks", "prompt.md"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
}
