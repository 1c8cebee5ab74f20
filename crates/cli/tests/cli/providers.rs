//! Models of each provider by name: the wire that is spoken, the key that goes there, and reasoning
//! that a file gives back to its provider.

use serde_json::{Value, json};
use testkit::{Delivery, ModelServer, Reply};

use crate::program::{Ran, folder, logue};

fn stream(events: &[Value]) -> Reply {
    let lines: Vec<String> = events
        .iter()
        .map(|event| {
            format!(
                "event: {}\ndata: {event}\n\n",
                event["type"].as_str().unwrap()
            )
        })
        .collect();
    Reply::Body("text/event-stream", lines.concat().into_bytes())
}

pub(crate) fn anthropic(blocks: &[Value], reason: &str) -> Reply {
    let mut events = vec![json!({"type": "message_start", "message":
        {"usage": {"input_tokens": 3, "output_tokens": 1}}})];
    for (index, block) in blocks.iter().enumerate() {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(
        json!({"type": "message_delta", "delta": {"stop_reason": reason},
        "usage": {"output_tokens": 9}}),
    );
    events.push(json!({"type": "message_stop"}));
    stream(&events)
}

pub(crate) fn responses(output: &[Value]) -> Reply {
    stream(&[json!({"type": "response.completed", "response":
        {"object": "response", "status": "completed", "output": output}})])
}

fn key_of(server: &ModelServer, header: &str) -> Option<String> {
    let received = server.received();
    let headers = &received.last()?.headers;
    let found = headers.iter().find(|(name, _)| name == header)?;
    Some(found.1.clone())
}

const PROMPT: &str = "<config model=\"anthropic:claude\"/>\n<tool name=\"echo\" command=\"echo\"/>\n\
                      <user>say it</user>\n";

#[test]
fn reasoning_of_anthropic_goes_back_as_it_came_in_the_turn_and_in_the_next_run() {
    let thinking = json!({"type": "thinking", "thinking": "I call \"echo\" & <look>.\n",
        "signature": "EqQBCgIYAhIM1gbcDa9GJw+/=="});
    let hidden = json!({"type": "thinking", "thinking": "", "signature": "EqQBhidden="});
    let redacted = json!({"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix/LafPsn4="});
    let words = json!({"type": "text", "text": "Wait."});
    let call = json!({"type": "tool_use", "id": "toolu_01", "name": "echo",
        "input": {"arguments": ["hi"]}});
    let done = json!({"type": "text", "text": "Done."});
    let first = [thinking, redacted.clone(), words, call];
    let replies = vec![
        anthropic(&first, "tool_use"),
        anthropic(&[hidden.clone(), done.clone()], "end_turn"),
        anthropic(&[json!({"type": "text", "text": "Again."})], "end_turn"),
    ];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("prompt.md", PROMPT)]);
    let run = |arguments: &[&str]| {
        let mut command = logue(folder.path());
        command
            .args(arguments)
            .env("ANTHROPIC_BASE_URL", server.base_url())
            .env("ANTHROPIC_API_KEY", "sk-ant")
            .env("OPENAI_API_KEY", "sk-openai");
        Ran::from(command.output().unwrap())
    };
    let ran = run(&["run", "prompt.md"]);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "Wait.\n\nDone.\n"),
        "{}",
        ran.stderr
    );
    assert_eq!(key_of(&server, "x-api-key").as_deref(), Some("sk-ant"));
    assert_eq!(key_of(&server, "authorization"), None);
    let ran = run(&["run", "prompt.md", "and", "again"]);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "Again.\n"),
        "{}",
        ran.stderr
    );
    let received = server.received();
    assert_eq!(received[0].line, "POST /v1/messages HTTP/1.1");
    assert_eq!(received[0].body["model"], "claude");
    // In the turn, and out of the file.
    for request in &received[1..] {
        assert_eq!(request.body["messages"][1]["content"], json!(first));
    }
    assert_eq!(
        received[2].body["messages"][3]["content"],
        json!([hidden, done])
    );
    let checked = Ran::from(
        logue(folder.path())
            .args(["check", "prompt.md"])
            .output()
            .unwrap(),
    );
    assert_eq!(checked.status, 0, "{}", checked.stdout);
}

#[test]
fn reasoning_items_of_responses_go_back_as_they_came() {
    let summary = |text: &str| json!({"type": "summary_text", "text": text});
    let first = json!({"type": "reasoning", "id": "rs_1",
        "summary": [summary("**One**\n\nlook"), summary("two")], "encrypted_content": "gAAAA+/1=="});
    let call = json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "echo",
        "arguments": "{\"arguments\": [\"hi\"]}"});
    let second = json!({"type": "reasoning", "id": "rs_2", "summary": [],
        "encrypted_content": "gAAAA2"});
    let answer = |text: &str| {
        json!({"type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": text}]})
    };
    let replies = vec![
        responses(&[first.clone(), call]),
        responses(&[second.clone(), answer("Done.")]),
        responses(&[answer("Again.")]),
    ];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let settings = format!(
        "[model]\nbase_url = \"{}\"\nserver = \"openai\"\n",
        server.base_url()
    );
    let folder = folder(&[("prompt.md", PROMPT), ("logue.toml", &settings)]);
    let run = |arguments: &[&str]| {
        let mut command = logue(folder.path());
        command
            .args(["run", "-m", "responses:gpt-5"])
            .args(arguments);
        Ran::from(command.env("LOGUE_API_KEY", "sk-1").output().unwrap())
    };
    let ran = run(&["prompt.md"]);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "Done.\n"),
        "{}",
        ran.stderr
    );
    assert_eq!(
        key_of(&server, "authorization").as_deref(),
        Some("Bearer sk-1")
    );
    let ran = run(&["prompt.md", "more"]);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "Again.\n"),
        "{}",
        ran.stderr
    );
    let received = server.received();
    assert_eq!(received[0].line, "POST /v1/responses HTTP/1.1");
    for request in &received[1..] {
        assert_eq!(request.body["input"][1], first);
        assert_eq!(
            request.body["input"][2]["arguments"],
            "{\"arguments\": [\"hi\"]}"
        );
    }
    assert_eq!(received[2].body["input"][4], second);
    assert_eq!(
        received[2].body["include"],
        json!(["reasoning.encrypted_content"])
    );
}

#[test]
fn a_key_never_goes_to_the_server_of_another_provider() {
    let reply = anthropic(&[json!({"type": "text", "text": "ok"})], "end_turn");
    let server = ModelServer::start(vec![reply], Delivery::Whole).unwrap();
    let url = server.base_url();
    let openai = [
        ("OPENAI_API_KEY", "sk-openai"),
        ("LOGUE_API_KEY", "sk-logue"),
        ("OPENAI_BASE_URL", "http://127.0.0.1:9/v1"),
    ];
    let ran = |settings: &str, arguments: &[&str], variables: &[(&str, &str)]| {
        let folder = folder(&[("prompt.md", PROMPT), ("logue.toml", settings)]);
        let mut command = logue(folder.path());
        command
            .args(["run", "--no-save", "prompt.md"])
            .args(arguments);
        command.envs(openai).envs(variables.iter().copied());
        let ran = Ran::from(command.output().unwrap());
        (
            ran,
            key_of(&server, "x-api-key"),
            key_of(&server, "authorization"),
        )
    };
    let table = |more: &str| format!("[model.anthropic]\nbase_url = \"{url}\"\n{more}");
    // A server without a key gets none; what a project names gets only what is for Logue.
    let (first, key, bearer) = ran("", &[], &[("ANTHROPIC_BASE_URL", &url)]);
    assert_eq!(
        (first.status, key, bearer),
        (0, None, None),
        "{}",
        first.stderr
    );
    let (second, key, bearer) = ran(&table(""), &[], &[("ANTHROPIC_API_KEY", "sk-ant")]);
    assert_eq!(
        (second.status, key, bearer),
        (0, None, None),
        "{}",
        second.stderr
    );
    let of_team = table("api_key_env = \"LOGUE_CLAUDE\"\n");
    let (third, key, bearer) = ran(&of_team, &[], &[("LOGUE_CLAUDE", "team")]);
    assert_eq!(
        (third.status, key.as_deref(), bearer),
        (0, Some("team"), None),
        "{}",
        third.stderr
    );
    let stolen = table("api_key_env = \"ANTHROPIC_API_KEY\"\n");
    let (fourth, ..) = ran(&stolen, &[], &[("ANTHROPIC_API_KEY", "sk-ant")]);
    assert_eq!(fourth.status, 3, "{}", fourth.stderr);
    // The flags are for the provider that -m names.
    let before = server.received().len();
    let (fifth, ..) = ran("", &["--api-key", "k", "--base-url", &url], &[]);
    assert_eq!(fifth.status, 3);
    assert!(
        fifth.stderr.contains("-m anthropic:claude"),
        "{}",
        fifth.stderr
    );
    assert_eq!(server.received().len(), before);
    let flags = [
        "-m",
        "anthropic:claude",
        "--api-key",
        "k",
        "--base-url",
        &url,
    ];
    let (sixth, key, bearer) = ran("", &flags, &[]);
    assert_eq!(
        (sixth.status, key.as_deref(), bearer),
        (0, Some("k"), None),
        "{}",
        sixth.stderr
    );
}

#[test]
fn settings_choose_the_kind_of_server_and_whether_it_streams() {
    let whole = json!({"object": "chat.completion", "choices": [{"message":
        {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]});
    let reply = Reply::Body("application/json", whole.to_string().into_bytes());
    let server = ModelServer::start(vec![reply], Delivery::Whole).unwrap();
    let prompt =
        "<config model=\"m\" max_tokens=\"9\"/>\n<developer>d</developer>\n<user>u</user>\n";
    let ran = |keys: &str| {
        let settings = format!("[model]\nbase_url = \"{}\"\n{keys}", server.base_url());
        let folder = folder(&[("prompt.md", prompt), ("logue.toml", &settings)]);
        let mut command = logue(folder.path());
        Ran::from(
            command
                .args(["run", "--no-save", "prompt.md"])
                .output()
                .unwrap(),
        )
    };
    assert_eq!(ran("server = \"openai\"\nstream = false\n").stdout, "hi\n");
    let body = server.received()[0].body.clone();
    assert_eq!(
        (&body["stream"], &body["max_completion_tokens"]),
        (&json!(false), &json!(9))
    );
    assert_eq!(body["messages"][0]["role"], "developer");
    assert_eq!(ran("server = \"llama.cpp\"\n").stdout, "hi\n");
    let body = server.received()[1].body.clone();
    assert_eq!(
        (&body["stream"], &body["max_tokens"]),
        (&json!(true), &json!(9))
    );
    assert_eq!(body["messages"][0]["role"], "system");
    let wrong = ran("server = \"gpt\"\n");
    assert_eq!(wrong.status, 3);
    assert!(
        wrong.stderr.contains("E-CONFIG-INVALID") && wrong.stderr.contains("vllm"),
        "{}",
        wrong.stderr
    );
}

#[test]
fn a_recording_of_any_provider_plays_without_it() {
    let thinking = json!({"type": "thinking", "thinking": "Hm.", "signature": "sig"});
    let redacted = json!({"type": "redacted_thinking", "data": "hidden"});
    let call = json!({"type": "tool_use", "id": "toolu_01", "name": "echo",
        "input": {"arguments": ["hi"]}});
    let replies = vec![
        anthropic(&[thinking, redacted, call], "tool_use"),
        anthropic(&[json!({"type": "text", "text": "Done."})], "end_turn"),
    ];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("prompt.md", PROMPT)]);
    let run = |arguments: &[&str]| {
        let mut command = logue(folder.path());
        command
            .args(["run", "--no-save", "prompt.md"])
            .args(arguments);
        Ran::from(
            command
                .env("ANTHROPIC_BASE_URL", server.base_url())
                .output()
                .unwrap(),
        )
    };
    let live = run(&["--record", "session.ocml"]);
    assert_eq!(
        (live.status, live.stdout.as_str()),
        (0, "Done.\n"),
        "{}",
        live.stderr
    );
    let played = run(&["-m", "replay:session.ocml"]);
    assert_eq!(
        (played.status, played.stdout.as_str()),
        (0, "Done.\n"),
        "{}",
        played.stderr
    );
    let recorded = std::fs::read_to_string(folder.path().join("session.ocml")).unwrap();
    assert!(
        recorded.contains("Hm.") && !recorded.contains("sig"),
        "{recorded}"
    );
}

#[test]
fn requests_to_models_use_the_proxy_of_the_environment() {
    let reply = anthropic(&[json!({"type": "text", "text": "Hi."})], "end_turn");
    let proxy = ModelServer::start(vec![reply], Delivery::Whole).unwrap();
    let folder = folder(&[("prompt.md", "<user>hi</user>\n")]);
    let ran: Ran = logue(folder.path())
        .args(["run", "--no-save", "-m", "anthropic:m", "prompt.md"])
        .args(["--base-url", "http://model.test"])
        .env("HTTP_PROXY", proxy.base_url())
        .output()
        .unwrap()
        .into();
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let received = proxy.received();
    let line = &received.first().unwrap().line;
    assert!(
        line.starts_with("POST http://model.test/v1/messages "),
        "{line}"
    );
}
