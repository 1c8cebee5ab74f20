//! The complete JSON output of the commands that print some.

use std::path::Path;

use insta::assert_snapshot;
use serde_json::Value;

use crate::program::{folder, run};

const PROMPT: &str = "<config model=\"echo:\"/>\n<system>Be brief.</system>\n<user>Hello</user>\n";
const TRANSCRIPT: &str = "<|start|>user<|message|>Hi<|end|>\n\
    <|start|>assistant<|channel|>final<|message|>Hello<|return|>\n";
const GRANTING: &str = "<config model=\"echo:\"/>\n\
    <tool name=\"deploy\" command=\"sh deploy.sh\"/>\n<user>go</user>\n";

/// Returns JSON output with names for what differs between two runs.
fn stable(folder: &Path, stdout: &str) -> String {
    let folder = folder.canonicalize().unwrap().display().to_string();
    let values = serde_json::Deserializer::from_str(stdout).into_iter::<Value>();
    let lines = values.map(|value| {
        let mut value = value.unwrap();
        name_changing(&mut value, &folder);
        format!("{value:#}\n")
    });
    lines.collect()
}

fn name_changing(value: &mut Value, folder: &str) {
    match value {
        Value::Array(values) => values
            .iter_mut()
            .for_each(|value| name_changing(value, folder)),
        Value::Object(values) => values
            .values_mut()
            .for_each(|value| name_changing(value, folder)),
        // Milliseconds since 1970.
        Value::Number(number) if number.as_u64() > Some(1_000_000_000_000) => {
            *value = "[TIME]".into();
        }
        Value::String(text) => {
            // Ids, and hashes of declarations that contain the folder.
            let id = text.strip_prefix("sha256:").unwrap_or(text);
            let is_hex = id.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
            *text = if is_hex && id.len() >= 32 {
                "[ID]".to_owned()
            } else {
                text.replace(folder, "[FOLDER]")
            };
        }
        _ => {}
    }
}

/// Runs commands, whose exit status may report findings, and checks what they print.
fn check(folder: &Path, commands: &[(&str, &[&str])]) {
    for (name, arguments) in commands {
        let ran = run(folder, *arguments);
        assert!(
            matches!(ran.status, 0 | 8),
            "{name}: {} {}",
            ran.status,
            ran.stderr
        );
        assert_snapshot!(format!("json-{name}"), stable(folder, &ran.stdout));
    }
}

#[test]
fn turns_and_sessions() {
    let folder = folder(&[("prompt.md", PROMPT)]);
    check(
        folder.path(),
        &[
            ("run", &["run", "--no-save", "--json", "prompt.md"]),
            (
                "send",
                &["send", "--json", "--agent", "prompt.md", "s", "Hi"],
            ),
            ("sessions-list", &["sessions", "list", "--json"]),
            ("sessions-show", &["sessions", "show", "--json", "s"]),
            (
                "sessions-audit",
                &["sessions", "show", "--audit", "--json", "s"],
            ),
            (
                "sessions-outcomes",
                &["sessions", "outcomes", "--json", "s"],
            ),
            ("sessions-verify", &["sessions", "verify", "--json"]),
        ],
    );
}

#[test]
fn trust() {
    let folder = folder(&[("prompt.md", GRANTING)]);
    check(
        folder.path(),
        &[
            ("trust-add", &["trust", "add", "--json", "prompt.md"]),
            ("trust-list", &["trust", "list", "--json"]),
            ("trust-remove", &["trust", "remove", "--json", "prompt.md"]),
        ],
    );
}

#[test]
fn files() {
    let folder = folder(&[
        ("prompt.md", PROMPT),
        ("wide.md", "<user>Hello</user>   <user>again</user>\n"),
        ("bad.md", "<user>Hello</usr>\n"),
        ("talk.ocml", TRANSCRIPT),
        ("page.txt", "before <|im_start|> after\n"),
    ]);
    check(
        folder.path(),
        &[
            ("check", &["check", "--json", "bad.md", "talk.ocml"]),
            ("fmt", &["fmt", "--check", "--diff", "--json", "wide.md"]),
            ("fix", &["fix", "--check", "--json", "bad.md"]),
            (
                "convert",
                &["convert", "--json", "--to", "openai", "talk.ocml"],
            ),
            ("view", &["view", "--show-hidden", "--json", "prompt.md"]),
            ("scan", &["scan", "--json", "--from", "text", "page.txt"]),
            ("tokens-count", &["tokens", "count", "--json", "page.txt"]),
            ("tokens-encode", &["tokens", "encode", "--json", "page.txt"]),
            (
                "tokens-render",
                &["tokens", "render", "--json", "talk.ocml"],
            ),
            ("debug-frames", &["debug", "frames", "talk.ocml"]),
            ("debug-tree", &["debug", "tree", "prompt.md"]),
        ],
    );
}
