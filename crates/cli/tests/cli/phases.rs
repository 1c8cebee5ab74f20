//! Phases of answers: what a file, a session and a conversion keep, and what the next run sends.

use std::path::Path;

use serde_json::{Value, json};
use testkit::{Delivery, ModelServer};

use crate::program::{Ran, folder, logue, run};
use crate::providers::responses;

fn answer(text: &str, phase: &str) -> Value {
    json!({"type": "message", "role": "assistant", "phase": phase,
        "content": [{"type": "output_text", "text": text}]})
}

/// Runs both commands; returns the answers that the second request sends back.
fn sent_back(here: &Path, commands: [&[&str]; 2]) -> Vec<Value> {
    let first = [
        answer("Let me see.", "commentary"),
        answer("Four.", "final_answer"),
    ];
    let replies = vec![responses(&first), responses(&[answer("Yes.", "x-other")])];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    for words in commands {
        let mut command = logue(here);
        command.args(words).env("LOGUE_BASE_URL", server.base_url());
        let ran = Ran::from(command.output().unwrap());
        assert_eq!(ran.status, 0, "{}", ran.stderr);
    }
    let items = server.received()[1].body["input"].clone();
    let items = items.as_array().unwrap().iter();
    items
        .filter(|item| item["role"] == "assistant")
        .cloned()
        .collect()
}

fn expected() -> Vec<Value> {
    let item = |text: &str, phase: &str| json!({"type": "message", "role": "assistant", "content": text, "phase": phase});
    vec![
        item("Let me see.", "commentary"),
        item("Four.", "final_answer"),
    ]
}

#[test]
fn a_transcript_keeps_phases_and_the_next_run_sends_them() {
    let folder = folder(&[
        ("p.md", "<user>2+2?</user>\n"),
        (
            "p.ocml",
            "version: 2.2\n<|start|>user<|message|>2+2?<|end|>\n",
        ),
    ]);
    let here = folder.path();
    for (file, mark) in [
        ("p.md", "<assistant phase=\"final_answer\" continued>"),
        (
            "p.ocml",
            "<|start|>assistant phase=final_answer<|channel|>final",
        ),
    ] {
        let run = ["run", "-m", "responses:m", file];
        let sent = sent_back(here, [&run, &[&run[..], &["sure?"]].concat()]);
        assert_eq!(sent, expected(), "{file}");
        let text = std::fs::read_to_string(here.join(file)).unwrap();
        assert!(text.contains(mark), "{text}");
        assert!(text.contains("x-other"), "{text}");
    }
    let checked = run(here, ["check", "p.md", "p.ocml"]);
    assert_eq!((checked.status, checked.stdout.as_str()), (0, ""));
}

#[test]
fn a_session_keeps_phases() {
    let folder = folder(&[("p.md", "<config model=\"responses:m\"/>\n")]);
    let send: [&[&str]; 2] = [
        &["send", "--agent", "p.md", "s", "2+2?"],
        &["send", "s", "sure?"],
    ];
    assert_eq!(sent_back(folder.path(), send), expected());
}

#[test]
fn conversions_keep_phases_or_list_them() {
    let text = "<user>2+2?</user>\n<assistant phase=\"x-other\">RAW|Four.|RAW</assistant>\n";
    let folder = folder(&[("a.md", text)]);
    let here = folder.path();
    let convert = |from: &str, form: &str, to: &str| {
        let ran = run(here, ["convert", from, "--to", form, "-o", to]);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        (ran.stderr, std::fs::read_to_string(here.join(to)).unwrap())
    };
    for (from, form, to) in [
        ("a.md", "ocml2.2", "b.ocml"),
        ("b.ocml", "json", "c.json"),
        ("c.json", "responses", "d.json"),
        ("d.json", "chatmd", "e.md"),
    ] {
        let (losses, text) = convert(from, form, to);
        assert!(
            text.contains("x-other") && !losses.contains("phase"),
            "{form}: {losses}{text}"
        );
    }
    for form in [
        "openai",
        "anthropic",
        "json2.0",
        "ocml2.0",
        "harmony",
        "sharegpt",
    ] {
        let (losses, text) = convert("b.ocml", form, "f.out");
        assert!(!text.contains("x-other"), "{form}: {text}");
        let is_listed = losses.contains("the phase of an answer dropped")
            || losses.contains("attributes dropped")
            || losses.contains("its other attributes are lost");
        assert!(is_listed, "{form}: {losses}");
    }
}
