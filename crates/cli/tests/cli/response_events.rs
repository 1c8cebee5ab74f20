//! `logue run --json=responses`: the events of a response for clients, and the cancelled ones.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use testkit::{Answer, Completion, Delivery, ModelServer, Reply, Wire};

use crate::program::{Ran, events, folder, logue, run};
use crate::waiting::wait_for_file;

fn start(folder: &Path, server: &ModelServer, arguments: &[&str]) -> Child {
    let mut command = logue(folder);
    command
        .env("OPENAI_BASE_URL", server.base_url())
        .args(["run", "--json=responses", "p.md"])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn ask(folder: &Path, server: &ModelServer, arguments: &[&str]) -> Ran {
    let child = start(folder, server, arguments);
    child.wait_with_output().unwrap().into()
}

fn interrupt(child: &Child) {
    let id = Pid::from_raw(i32::try_from(child.id()).unwrap());
    kill(id, Signal::SIGINT).unwrap();
}

fn types(events: &[Value]) -> Vec<&str> {
    let types = events.iter().map(|event| event["type"].as_str().unwrap());
    types.collect()
}

#[test]
fn a_call_and_an_answer_are_response_events() {
    let folder = folder(&[(
        "p.md",
        "<config model=\"m\"/>\n<tool name=\"echo\" command=\"echo\"/>\n<user>hi</user>\n",
    )]);
    let first = Answer::text("I try.")
        .with_reasoning("secret thought")
        .with_call("c1", "echo", "{\"arguments\":[\"x\"]}");
    let replies = vec![
        Reply::Answer(first),
        Reply::Answer(Answer::text("One.\n\nTwo.")),
    ];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let ran = ask(folder.path(), &server, &[]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(!ran.stdout.contains("secret thought"), "{}", ran.stdout);
    let events = events(&ran.stdout);
    let mut seen = types(&events);
    seen.dedup();
    assert_eq!(
        seen,
        [
            "response.reasoning_text.done",
            "response.delta",
            "response.done",
            "response.tool_call.delta",
            "response.tool_call.done",
            "response.delta",
            "response.delta.flush",
            "response.delta",
            "response.done",
        ]
    );
    let call = events
        .iter()
        .find(|it| it["type"] == "response.tool_call.done");
    let call = call.unwrap();
    assert_eq!(
        (&call["call_id"], &call["recipient"]),
        (&json!("c1"), &json!("functions.echo"))
    );
    let text: String = events
        .iter()
        .filter(|it| it["type"] == "response.delta")
        .map(|it| it["delta"].as_str().unwrap())
        .collect();
    assert_eq!(text, "I try.One.\n\nTwo.");
    let ids: std::collections::BTreeSet<_> = events
        .iter()
        .map(|it| it["message_id"].to_string())
        .collect();
    assert_eq!(ids.len(), 4, "{events:?}");
}

#[test]
fn a_call_that_exceeds_its_deadline_is_cancelled() {
    let folder = folder(&[(
        "p.md",
        "<config model=\"m\"/>\n<tool name=\"sleep\" command=\"sleep\"/>\n<user>hi</user>\n",
    )]);
    let call = "{\"arguments\":[\"60\"], \"deadline_ms\": 50}";
    let replies = vec![
        Reply::Answer(Answer::text("").with_call("c1", "sleep", call)),
        Reply::Answer(Answer::text("late")),
    ];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let ran = ask(folder.path(), &server, &[]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let events = events(&ran.stdout);
    assert_eq!(
        types(&events),
        [
            "response.tool_call.delta",
            "response.tool_call.done",
            "tool.cancel",
            "response.delta",
            "response.done",
        ]
    );
    assert_eq!(
        events[2],
        json!({"type": "tool.cancel", "call_id": "c1", "reason": "E-TOOL-TIMEOUT"})
    );
}

#[test]
fn an_interrupt_cancels_the_running_call_and_the_response() {
    let folder = folder(&[
        (
            "p.md",
            "<config model=\"m\"/>\n<tool name=\"slow\" command=\"sh slow.sh\"/>\n<user>hi</user>\n",
        ),
        ("slow.sh", "touch begun\nsleep 60\n"),
    ]);
    let call = Answer::text("").with_call("c1", "slow", "{\"arguments\":[]}");
    let server = ModelServer::start(vec![Reply::Answer(call)], Delivery::Whole).unwrap();
    let child = start(folder.path(), &server, &[]);
    wait_for_file(&folder.path().join("begun"));
    interrupt(&child);
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(ran.status, 130, "{}", ran.stderr);
    let events = events(&ran.stdout);
    let last = &events[events.len() - 2..];
    assert_eq!(
        types(last),
        ["tool.cancel", "response.cancel"],
        "{events:?}"
    );
    assert_eq!(last[0]["call_id"], "c1");
    // The call is whole; the answer that would follow is cancelled.
    assert_eq!(last[1]["message_id"], "msg_2");
    assert_eq!(events[events.len() - 3]["message_id"], "msg_1");
    let cancelled = events.iter().filter(|it| it["type"] == "tool.cancel");
    assert_eq!(cancelled.count(), 1);
}

#[test]
fn an_interrupt_cancels_the_text_that_arrives() {
    let folder = folder(&[("p.md", "<config model=\"m\"/>\n<user>hi</user>\n")]);
    let chunk = json!({"choices": [{"index": 0, "delta": {"content": "Hel"}}]});
    let first = format!("data: {chunk}\n\n").into_bytes();
    let reply = Reply::Endless(first, b": ping\n\n".to_vec());
    let server = ModelServer::start(vec![reply], Delivery::Whole).unwrap();
    let mut child = start(folder.path(), &server, &[]);
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let delta: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        delta,
        json!({"type": "response.delta", "message_id": "msg_1", "delta": "Hel"})
    );
    interrupt(&child);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let rest = events(&rest);
    assert_eq!(
        rest,
        [json!({"type": "response.cancel", "message_id": "msg_1", "reason": "turn_cancelled"})]
    );
}

#[test]
fn a_cut_answer_is_incomplete() {
    let folder = folder(&[("p.md", "<config model=\"m\"/>\n<user>hi</user>\n")]);
    let chunk = json!({"choices": [{"index": 0, "delta": {"content": "Hel"}}]});
    let cut = || Reply::Cut(format!("data: {chunk}\n\n").into_bytes());
    let server = ModelServer::start(vec![cut()], Delivery::Whole).unwrap();
    let ran = ask(folder.path(), &server, &["--retries", "0"]);
    assert_ne!(ran.status, 0);
    let events = events(&ran.stdout);
    assert_eq!(
        types(&events),
        ["response.delta", "response.incomplete"],
        "{}",
        ran.stderr
    );
    assert_eq!(events[1]["code"], "E-STREAM-TRUNCATED");
}

fn sse(events: &[Value]) -> Reply {
    let lines: Vec<String> = events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    Reply::Body("text/event-stream", lines.concat().into_bytes())
}

#[test]
fn summaries_of_a_responses_provider_are_optional_events() {
    let folder = folder(&[("p.md", "<user>hi</user>\n")]);
    let reasoning = json!({"type": "reasoning", "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Adds both."}]});
    let answer = json!({"type": "message", "role": "assistant", "id": "msg_1",
        "content": [{"type": "output_text", "text": "3"}]});
    let delta = |text: &str| {
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0,
        "summary_index": 0, "delta": text})
    };
    let reply = sse(&[
        json!({"type": "response.output_item.added", "output_index": 0,
            "item": {"type": "reasoning", "id": "rs_1", "summary": []}}),
        delta("Adds "),
        delta("both."),
        json!({"type": "response.output_item.done", "output_index": 0, "item": reasoning}),
        json!({"type": "response.completed", "response":
            {"object": "response", "status": "completed", "output": [reasoning, answer]}}),
    ]);
    let server = ModelServer::start(vec![reply], Delivery::Whole).unwrap();
    let ran = ask(folder.path(), &server, &["-m", "responses:m"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let found = events(&ran.stdout);
    assert_eq!(
        types(&found),
        [
            "response.reasoning_summary_text.delta",
            "response.reasoning_summary_text.delta",
            "response.reasoning_summary_text.done",
            "response.delta",
            "response.done",
        ]
    );
    assert_eq!(found[0]["delta"], "Adds ");
    assert_ne!(found[0]["message_id"], found[3]["message_id"]);
}

#[test]
fn reasoning_of_harmony_has_no_summary_and_stays_hidden() {
    let folder = folder(&[("p.md", "<user>hi</user>\n")]);
    let text = "<|channel|>analysis<|message|>secret thought<|end|><|start|>assistant\
         <|channel|>final<|message|>Yes.";
    let completion = Completion::new(Wire::VllmText, vec![(Vec::new(), text.to_owned())]);
    let server = ModelServer::start(vec![Reply::Completion(completion)], Delivery::Whole).unwrap();
    let url = server.base_url();
    let ran = ask(
        folder.path(),
        &server,
        &["-m", "harmony:m", "--base-url", &url],
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(!ran.stdout.contains("secret"), "{}", ran.stdout);
    let found = events(&ran.stdout);
    let mut seen = types(&found);
    seen.dedup();
    assert_eq!(
        seen,
        [
            "response.reasoning_text.done",
            "response.delta",
            "response.done"
        ]
    );
}

#[test]
fn events_of_the_turn_stay_the_default() {
    let folder = folder(&[("p.md", "<config model=\"echo:\"/>\n<user>hi</user>\n")]);
    let plain = run(folder.path(), ["run", "--no-save", "--json", "p.md"]);
    let named = run(folder.path(), ["run", "--no-save", "--json=turn", "p.md"]);
    assert_eq!(plain.stdout, named.stdout);
    assert!(
        plain.stdout.contains("\"event\":\"turn.started\""),
        "{}",
        plain.stdout
    );
    let wrong = run(folder.path(), ["run", "--json=all", "p.md"]);
    assert_eq!(wrong.status, 2);
}

#[test]
fn an_answer_that_the_provider_cuts_is_incomplete() {
    for reason in ["length", "content_filter"] {
        let folder = folder(&[("p.md", "<config model=\"m\"/>\n<user>hi</user>\n")]);
        let chunk = |delta: Value, finish: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
        let reply = sse(&[
            chunk(json!({"content": "Hel"}), Value::Null),
            chunk(json!({}), json!(reason)),
        ]);
        let server = ModelServer::start(vec![reply], Delivery::Whole).unwrap();
        let ran = ask(folder.path(), &server, &[]);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let events = events(&ran.stdout);
        assert_eq!(types(&events), ["response.delta", "response.incomplete"]);
        assert_eq!(events[1]["reason"], reason);
        assert_eq!(events[1]["code"], "E-STREAM-TRUNCATED");
        assert_eq!(events[0]["message_id"], events[1]["message_id"]);
    }
}

#[test]
fn a_failed_turn_cancels_its_response() {
    let folder = folder(&[
        ("p.md", "<config model=\"m\"/>\n<user>hi</user>\n"),
        ("bad.md", "<user>hi\n"),
    ]);
    let server = ModelServer::start(vec![], Delivery::Whole).unwrap();
    let run = |file: &str| -> Ran {
        let mut command = logue(folder.path());
        command.env("OPENAI_BASE_URL", server.base_url()).args([
            "run",
            "--json=responses",
            "--no-save",
            "--retries",
            "0",
            file,
        ]);
        command.output().unwrap().into()
    };
    let ran = run("bad.md");
    assert_eq!(ran.status, 3);
    assert_eq!(
        events(&ran.stdout),
        [json!({"type": "response.cancel", "message_id": "msg_1", "reason": "E-MD-UNCLOSED-TAG"})]
    );
    // The server has no answer left.
    let ran = run("p.md");
    assert_ne!(ran.status, 0);
    let found = events(&ran.stdout);
    assert_eq!(types(&found), ["response.cancel"], "{}", ran.stderr);
    let code = found[0]["reason"].as_str().unwrap();
    assert!(
        ran.stderr.contains(&format!("error[{code}]")),
        "{}",
        ran.stderr
    );
}

#[test]
fn parts_of_a_summary_have_ids_of_their_own() {
    let folder = folder(&[("p.md", "<user>hi</user>\n")]);
    let part = |text: &str| json!({"type": "summary_text", "text": text});
    let reasoning = json!({"type": "reasoning", "id": "rs_1",
        "summary": [part("First."), part("Second.")]});
    let answer = json!({"type": "message", "role": "assistant", "id": "msg_1",
        "content": [{"type": "output_text", "text": "3"}]});
    let delta = |index: u64, text: &str| {
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0,
        "summary_index": index, "delta": text})
    };
    let reply = sse(&[
        json!({"type": "response.output_item.added", "output_index": 0,
            "item": {"type": "reasoning", "id": "rs_1", "summary": []}}),
        delta(0, "First."),
        delta(1, "Sec"),
        delta(1, "ond."),
        json!({"type": "response.output_item.done", "output_index": 0, "item": reasoning}),
        json!({"type": "response.completed", "response":
            {"object": "response", "status": "completed", "output": [reasoning, answer]}}),
    ]);
    let server = ModelServer::start(vec![reply], Delivery::Whole).unwrap();
    let ran = ask(folder.path(), &server, &["-m", "responses:m"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let found = events(&ran.stdout);
    let shown: Vec<String> = found
        .iter()
        .map(|it| format!("{} {} {}", it["message_id"], it["type"], it["delta"]))
        .map(|line| {
            line.replace('"', "")
                .replace("response.reasoning_summary_text", "summary")
        })
        .collect();
    assert_eq!(
        shown,
        [
            "msg_1 summary.delta First.",
            "msg_1 summary.done null",
            "msg_2 summary.delta Sec",
            "msg_2 summary.delta ond.",
            "msg_2 summary.done null",
            "msg_3 response.delta 3",
            "msg_3 response.done null",
        ]
    );
}

#[test]
fn the_last_event_of_a_run_counts_agents_and_names_help() {
    let folder = folder(&[
        (
            "p.md",
            "<config model=\"m\"/>\n<tool name=\"sub\" agent=\"ag.md\" local/>\n\
             <user>hi <agent src=\"ag.md\" local>q</agent></user>\n",
        ),
        ("ag.md", "<system>agent</system>"),
        ("bad.md", "<user>hi\n"),
    ]);
    let call = Answer::text("").with_call("c1", "sub", "{\"input\":\"x\"}");
    let replies = [
        Answer::text("of the document"),
        call,
        Answer::text("of the tool"),
        Answer::text("done"),
    ];
    let replies = replies.map(Reply::Answer).to_vec();
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let run = |file: &str| -> Vec<Value> {
        let mut command = logue(folder.path());
        command.env("OPENAI_BASE_URL", server.base_url()).args([
            "run",
            "--json",
            "--no-save",
            file,
        ]);
        events(&Ran::from(command.output().unwrap()).stdout)
    };
    let last = run("p.md").pop().unwrap();
    assert_eq!(server.received().len(), 4);
    assert_eq!(
        (&last["event"], &last["requests"]),
        (&json!("turn.completed"), &json!(4))
    );
    let last = run("bad.md").pop().unwrap();
    assert_eq!(last["event"], "turn.failed");
    assert!(!last["help"].as_array().unwrap().is_empty(), "{last}");
}
