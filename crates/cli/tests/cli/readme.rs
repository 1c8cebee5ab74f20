//! The commands of the README, in its order, in one directory.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::program::{Ran, folder, logue};

const README: &str = include_str!("../../../../README.md");

/// The files that a reader of the README has.
const FILES: &[(&str, &str)] = &[
    (
        "prompt.md",
        "<config model=\"gpt-4o\"/>\n<user>Hello</user>\n",
    ),
    (
        "person.json",
        r#"{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false}"#,
    ),
    ("src/main.rs", "fn main() {}\n"),
    (
        "prompts/greet.md",
        "<config model=\"gpt-4o\"/>\n<user>Greet me.</user>\n",
    ),
    (
        "session.md",
        "<user>Hello</user>\n<assistant>Hi</assistant>\n",
    ),
    (
        "talk.ocml",
        "<|start|>user<|message|>Hello<|end|>\n<|start|>assistant<|channel|>final<|message|>Hi<|return|>\n",
    ),
    (
        "data.jsonl",
        "{\"conversations\":[{\"from\":\"human\",\"value\":\"a\"},{\"from\":\"gpt\",\"value\":\"b\"}]}\n",
    ),
    ("old/one.ocml", "<|start|>user<|message|>Hello<|end|>\n"),
    (
        "examples/echo/prompt.md",
        include_str!("../../../../examples/echo/prompt.md"),
    ),
    (
        "ops.md",
        "<config model=\"replay:ops.ocml\"/>\n<tool name=\"deploy\" command=\"true\"/>\n",
    ),
    (
        "ops.ocml",
        "<|start|>user<|message|>Ship it<|end|>\n<|start|>assistant to=functions.deploy call_id=c1<|channel|>commentary<|constrain|>json<|message|>{\"arguments\":[]}<|call|>\n<|start|>tool name=functions.deploy call_id=c1 to=assistant<|channel|>commentary<|message|>[exit status 0]<|end|>\n<|start|>assistant<|channel|>final<|message|>Done.<|return|>\n",
    ),
];

/// Commands whose status is not 0.
const STATUSES: &[(&str, i32)] = &[
    ("logue send --agent ops.md", 6),
    ("logue run --permission deploy=ask", 6),
];

/// The standard input of commands that require one.
const INPUTS: &[(&str, &str)] = &[
    (
        "logue debug frames",
        "<|start|>assistant<|channel|>final<|message|>Hi<|return|>",
    ),
    (
        "logue mcp serve",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\",\
         \"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}\n\
         {\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n",
    ),
];

/// Commands that this test does not run: they compile, run this test, or name a key.
const OTHERS: &[&str] = &["cargo ", "./test", "export OPENAI_API_KEY"];

/// Returns the commands: the indented lines of the README without comments.
fn commands() -> Vec<&'static str> {
    let lines = README.lines().filter_map(|line| line.strip_prefix("    "));
    let lines = lines.map(|line| line.split("  #").next().unwrap_or(line).trim());
    let lines = lines.filter(|line| !OTHERS.iter().any(|other| line.starts_with(other)));
    let is_command = |line: &&str| line.contains("logue ") || line.starts_with("export ");
    lines.filter(is_command).collect()
}

/// Runs a line in a shell that finds the program.
fn shell(folder: &Path, server: &ModelServer, line: &str, input: &str) -> Ran {
    let program = Path::new(env!("CARGO_BIN_EXE_logue")).parent().unwrap();
    let base = logue(folder);
    let mut command = Command::new("bash");
    command.args(["-c", line]).current_dir(folder);
    for (name, value) in base.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!(
        "{}:{}:{path}",
        folder.join("bin").display(),
        program.display()
    );
    let mut child = command
        .env("PATH", path)
        .env("OPENAI_BASE_URL", server.base_url())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that does not read its input may have ended.
    drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
    child.wait_with_output().unwrap().into()
}

#[test]
fn every_command_works_in_the_order_of_the_readme() {
    let answer = Reply::Answer(Answer::text("{\"name\":\"Ada\"}"));
    let server = ModelServer::start(vec![answer], Delivery::Whole).unwrap();
    let folder = folder(FILES);
    std::fs::write(folder.path().join("plot.png"), b"\x89PNG\r\n\x1a\nrest").unwrap();
    // The commands read a difference; which one does not matter.
    let git = folder.path().join("bin/git");
    std::fs::create_dir(git.parent().unwrap()).unwrap();
    std::fs::write(&git, "#!/bin/sh\necho '+ added'\n").unwrap();
    std::fs::set_permissions(&git, std::fs::Permissions::from_mode(0o755)).unwrap();
    let commands = commands();
    assert!(commands.len() > 35, "{commands:#?}");
    let (mut signal, mut exports) = (String::new(), String::new());
    let mut faults = String::new();
    for line in commands {
        if line.starts_with("export ") {
            exports.push_str(&format!("{line}; "));
            continue;
        }
        let inputs = INPUTS.iter().find(|(start, _)| line.starts_with(start));
        let input = inputs.map_or("", |(_, input)| input);
        let given = line.replace("approve-5f2c01d7a9e4-1", &signal);
        let ran = shell(folder.path(), &server, &format!("{exports}{given}"), input);
        let expected = STATUSES.iter().find(|(start, _)| line.starts_with(start));
        let expected = expected.map_or(0, |(_, status)| *status);
        if ran.status != expected {
            faults.push_str(&format!(
                "{line}\n  status {}: {}\n",
                ran.status, ran.stderr
            ));
        }
        let words = ran.stderr.split_whitespace();
        let mut ids = words.filter(|word| word.starts_with("approve-"));
        if let Some(id) = ids.next() {
            signal = id.trim_end_matches([':', ',', '.']).to_owned();
        }
    }
    assert!(faults.is_empty(), "{faults}");
}
