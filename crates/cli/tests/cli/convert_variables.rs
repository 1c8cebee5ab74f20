//! Variables in conversions: a converted prompt sends what the original sends.

use std::path::Path;

use serde_json::Value;
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{folder, logue, run};

const PROMPT: &str = "<config model=\"m\"/>\n<var name=\"topic\" description=\"a &lt; b\"/>\n\
    <var name=\"tone\" default=\"dry\"/>\n<var name=\"topic\" value=\"old\"/>\n\
    <system>{{topic}} is {{tone}}; {{other}}. RAW|{{topic}}|RAW|{{tone}}RAW|</system>\n|RAW</system>\n\
    <user>{{topic}}</user>\n<assistant>No {{topic}}.</assistant>\n<user>Go {{topic}}{{tone}}|RAW</user>\n";

/// Returns the messages that a run of a prompt sends.
fn sent(folder: &Path, arguments: &[&str]) -> Value {
    let reply = Reply::Answer(Answer::text("ok"));
    let server = ModelServer::start(vec![reply], Delivery::Whole).unwrap();
    let mut command = logue(folder);
    command
        .env("OPENAI_BASE_URL", server.base_url())
        .args(["run", "--no-save"])
        .args(arguments);
    let ran = command.output().unwrap();
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    server.received()[0].body["messages"].clone()
}

#[test]
fn a_converted_prompt_has_the_same_variables() {
    let folder = folder(&[("prompt.md", PROMPT)]);
    let command = ["convert", "--to", "chatmd", "-o", "out.md", "prompt.md"];
    let ran = run(folder.path(), command);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(!ran.stderr.contains("placeholders"), "{}", ran.stderr);
    let converted = std::fs::read_to_string(folder.path().join("out.md")).unwrap();
    let declared = "<var name=\"topic\" description=\"a &lt; b\"/>\n";
    assert!(converted.contains(declared), "{converted}");
    assert_eq!(run(folder.path(), ["check", "out.md"]).status, 0);
    for values in [
        &[][..],
        &["--var", "topic={{tone}}</user>"],
        &["--var", "topic=x", "--var", "tone=RAW|"],
    ] {
        let original = sent(folder.path(), &[&["prompt.md"], values].concat());
        let converted = sent(folder.path(), &[&["out.md"], values].concat());
        assert_eq!(original, converted, "{values:?}");
        assert_ne!(original[1]["content"], "{{topic}}");
    }
    // Filled variables need no declaration, and the others stay.
    let filled = [
        "convert",
        "--to",
        "chatmd",
        "--var",
        "topic=snow",
        "prompt.md",
    ];
    let filled = run(folder.path(), filled).stdout;
    assert!(!filled.contains("name=\"topic\""), "{filled}");
    assert!(filled.contains("RAW|Go snow|RAW{{tone}}RAW|"), "{filled}");
}

#[test]
fn a_literal_placeholder_stays_literal() {
    let rows = "{\"messages\":[{\"role\":\"user\",\"content\":\"about {{t}}\"}]}";
    let folder = folder(&[("row.json", rows)]);
    let command = ["convert", "--to", "chatmd", "row.json"];
    let ran = run(folder.path(), command);
    assert_eq!(ran.stdout, "<user>\nRAW|about {{t}}|RAW</user>\n");
}

#[test]
fn values_that_no_document_declares_are_refused() {
    let folder = folder(&[
        ("in/prompt.md", PROMPT),
        ("in/other.md", "<var name=\"t\"/>\n<user>{{t}}</user>\n"),
        (
            "row.json",
            "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}",
        ),
        (
            "rows.jsonl",
            "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}\n",
        ),
    ]);
    for input in ["in/prompt.md", "row.json", "rows.jsonl"] {
        let command = [
            "convert", "--to", "ocml2.2", "-o", "out.ocml", "--var", "tpic=x", input,
        ];
        let ran = run(folder.path(), command);
        assert_eq!(ran.status, 2, "{input}: {}", ran.stderr);
        let fault = "error[usage]: no document declares the variable `tpic`";
        assert!(ran.stderr.contains(fault), "{input}: {}", ran.stderr);
        assert!(!folder.path().join("out.ocml").exists(), "{input}");
    }
    // One of several documents suffices.
    let command = ["convert", "--to", "ocml2.2", "-o", "out", "in"];
    let with = |value: &str| run(folder.path(), [&command[..], &["--var", value]].concat());
    let ran = with("t=x");
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let ran = with("u=x");
    assert_eq!(ran.status, 2, "{}", ran.stderr);
}
