//! Images of users in conversions, and in what a run sends.

use std::path::Path;

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, folder, logue, run};

const URL: &str = "https://example.org/a.png?x=1&y=2";
const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";
const DATA: &str = "data:image/png;base64,iVBORw0KGgpyZXN0";

/// A conversation of two users, of which one has an image between texts.
fn prompt() -> String {
    format!(
        "<user name=\"ana\">RAW|Look: |RAW<img src=\"{}\"/>RAW| at it|RAW</user>\n\
         <user>RAW|And me|RAW</user>\n<user><img src=\"{DATA}\"/></user>\n\
         <assistant>RAW|I see.|RAW</assistant>\n",
        URL.replace('&', "&amp;")
    )
}

fn expected() -> Value {
    let image = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
    let text = |text: &str| json!({"type": "text", "text": text});
    json!([
        {"role": "user", "content": [text("Look: "), image(URL), text(" at it")], "name": "ana"},
        {"role": "user", "content": "And me"},
        {"role": "user", "content": [image(DATA)]},
        {"role": "assistant", "content": "I see."},
    ])
}

fn convert(folder: &Path, from: &str, form: &str, to: &str) -> Ran {
    let ran = run(
        folder,
        ["convert", "--strict=content", from, "--to", form, "-o", to],
    );
    assert_eq!(ran.status, 0, "{from} to {form}: {}", ran.stderr);
    ran
}

fn messages(folder: &Path, file: &str) -> Value {
    let text = std::fs::read_to_string(folder.join(file)).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn an_image_is_in_every_form_that_holds_images() {
    let folder = folder(&[("p.md", &prompt())]);
    let here = folder.path();
    convert(here, "p.md", "openai", "direct.json");
    assert_eq!(messages(here, "direct.json"), expected());
    for (form, file) in [
        ("ocml2.2", "a.ocml"),
        ("json", "a.json"),
        ("chatmd", "a.chatmd"),
        ("responses", "a.responses.json"),
        ("anthropic", "a.anthropic.json"),
    ] {
        let ran = convert(here, "p.md", form, file);
        assert!(!ran.stderr.contains("image"), "{form}: {}", ran.stderr);
        let back = format!("{form}.back.json");
        convert(here, file, "openai", &back);
        let mut wanted = expected();
        if ["responses", "anthropic"].contains(&form) {
            // These have no names.
            wanted[0].as_object_mut().unwrap().remove("name");
        }
        assert_eq!(messages(here, &back), wanted, "{form}");
        // And from there to the others.
        for (other, suffix) in [("ocml2.2", "ocml"), ("chatmd", "chatmd"), ("json", "json")] {
            let next = format!("{form}.next.{suffix}");
            convert(here, file, other, &next);
            let back = format!("{form}.{other}.json");
            convert(here, &next, "openai", &back);
            assert_eq!(messages(here, &back), wanted, "{form} and {other}");
        }
    }
    let checked = run(here, ["check", "--deny", "warnings", "a.ocml"]);
    assert_eq!(checked.status, 0, "{}{}", checked.stdout, checked.stderr);
}

#[test]
fn a_form_without_images_lists_them_and_invents_no_words() {
    let folder = folder(&[("p.md", &prompt())]);
    for form in [
        "ocml2.0", "ocml0.1", "chatml", "harmony", "sharegpt", "json2.0",
    ] {
        let ran = run(
            folder.path(),
            ["convert", "p.md", "--to", form, "--allow-loss=content"],
        );
        assert_eq!(ran.status, 0, "{form}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("an image dropped"),
            "{form}: {}",
            ran.stderr
        );
        assert!(
            !ran.stdout.contains("example.org"),
            "{form}: {}",
            ran.stdout
        );
        assert!(!ran.stdout.contains("base64"), "{form}: {}", ran.stdout);
        assert!(
            ran.stdout.contains("Look:  at it"),
            "{form}: {}",
            ran.stdout
        );
        assert!(ran.stdout.contains("And me"), "{form}: {}", ran.stdout);
    }
    let ran = run(folder.path(), ["tokens", "render", "--text", "p.md"]);
    assert!(!ran.stdout.contains("example.org"), "{}", ran.stdout);
    assert!(ran.stderr.contains("image"), "{}", ran.stderr);
}

#[test]
fn a_transcript_sends_its_images() {
    let folder = folder(&[("p.md", &prompt())]);
    convert(folder.path(), "p.md", "ocml2.2", "a.ocml");
    let replies = vec![Reply::Answer(Answer::text("Yes."))];
    let server = ModelServer::start(replies, Delivery::Whole).unwrap();
    let mut command = logue(folder.path());
    command
        .env("OPENAI_BASE_URL", server.base_url())
        .args(["run", "-m", "m", "a.ocml", "Still?"]);
    let ran: Ran = command.output().unwrap().into();
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let sent = server.received()[0].body["messages"].clone();
    assert_eq!(sent[0]["content"][1]["image_url"]["url"], URL);
    assert_eq!(sent[0]["content"].as_array().unwrap().len(), 3);
    // Adjacent messages of a user without a name are one.
    assert_eq!(sent[1]["content"][1]["image_url"]["url"], DATA);
}

#[test]
fn expanding_inserts_images_of_files() {
    let folder = folder(&[("p.md", "<user>See <img src=\"p.png\" local/></user>\n")]);
    std::fs::write(folder.path().join("p.png"), PNG).unwrap();
    let ran = run(
        folder.path(),
        ["convert", "--expand", "p.md", "--to", "openai"],
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains(DATA), "{}", ran.stdout);
}

#[test]
fn a_part_joins_no_other_message() {
    let text = "version: 2.2\n\
        <|start|>user name=ana<|message|>one<|end|>\n\
        <|start|>user name=eve continues=message<|message|>two<|end|>\n\
        <|start|>assistant<|channel|>final<|message|>three<|end|>\n\
        <|start|>user continues=message<|message|>four<|end|>\n\
        <|start|>user<|channel|>analysis<|message|>five<|end|>\n\
        <|start|>user continues=message content_type=image_url<|message|>javascript:six<|end|>\n";
    let folder = folder(&[("a.ocml", text)]);
    let ran = run(
        folder.path(),
        [
            "convert",
            "a.ocml",
            "--to",
            "openai",
            "--allow-loss=content",
        ],
    );
    let value: Value = serde_json::from_str(&ran.stdout).unwrap();
    let content = value.as_array().unwrap().iter();
    let content: Vec<&Value> = content.map(|message| &message["content"]).collect();
    let expected = ["one", "two", "three", "four", "javascript:six"];
    assert_eq!(content, expected, "{}", ran.stderr);
}

#[test]
fn a_preamble_and_a_confined_tool_stay_what_they_are() {
    let text = "version: 2.2\n<|start|>user<|message|>go<|end|>\n\
        <|start|>assistant intent=preamble<|channel|>commentary<|message|>I will.<|end|>\n";
    let prompt = "<tool name=\"read_file\" description=\"Notes.\"><read id=\"n\" path=\"notes\"/></tool>\n\
        <tool name=\"search\" description=\"Also.\"/>\n<user>go</user>\n";
    let folder = folder(&[("a.ocml", text), ("p.md", prompt), ("notes/x", "")]);
    let here = folder.path();
    let ran = run(here, ["convert", "a.ocml", "--to", "chatmd", "-o", "b.md"]);
    assert!(!ran.stderr.contains("preamble"), "{}", ran.stderr);
    let ran = run(here, ["convert", "b.md", "--to", "ocml2.2"]);
    assert!(ran.stdout.contains("intent=preamble"), "{}", ran.stdout);
    assert!(!ran.stderr.contains("phase"), "{}", ran.stderr);
    for form in ["ocml2.2", "chatmd", "openai"] {
        let ran = run(here, ["convert", "p.md", "--to", form]);
        assert!(!ran.stdout.contains("read_file"), "{form}: {}", ran.stdout);
        assert!(
            ran.stderr.contains("tool declaration dropped: read_file"),
            "{}",
            ran.stderr
        );
        assert!(
            ran.stderr
                .contains("the description of the tool search dropped"),
            "{}",
            ran.stderr
        );
    }
}
