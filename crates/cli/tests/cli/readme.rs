//! The commands of the README and of the pages in `docs`, in their order, in one directory for each page.

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use testkit::{Answer, Completion, Delivery, ModelServer, Reply, Wire};

use crate::program::{Ran, folder, logue};

/// The files that a reader has.
const FILES: &[(&str, &str)] = &[
    (
        "prompt.md",
        "<config model=\"gpt-4o\"/>\n<user>Hello</user>\n",
    ),
    (
        "review.md",
        "<config model=\"gpt-4o\"/>\n<tool name=\"status\" command=\"git status\"/>\n<user>Review it.</user>\n",
    ),
    ("p.md", "<config model=\"gpt-4o\"/>\n<user>Hello</user>\n"),
    (
        "train.jsonl",
        concat!(
            r#"{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}]}"#,
            "\n",
            r#"{"messages":[{"role":"user","content":"And?"},{"role":"assistant","content":"Yes."}]}"#,
            "\n",
            r#"{"messages":[{"role":"user","content":"So?"},{"role":"assistant","content":"No."}]}"#,
            "\n",
        ),
    ),
    (
        "gsm8k.jsonl",
        "{\"question\":\"How many apples are left in the basket after lunch if three were eaten?\",\"answer\":\"Three.\"}\n",
    ),
    ("notes.txt", "A text that no row contains.\n"),
    ("helper.md", "<config model=\"gpt-4o\"/>\n"),
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
        "prompts/review.md",
        "<config model=\"gpt-4o\"/>\n<user>Review it.</user>\n",
    ),
    (
        "session.md",
        "<user>Hello</user>\n<assistant>Hi</assistant>\n",
    ),
    (
        "sessions/old.md",
        "<user>Hello</user>\n<assistant>Hi</assistant>\n",
    ),
    (
        "talk.ocml",
        "version: 2.2\n<|start|>user<|message|>Hello<|end|>\n\
         <|start|>assistant<|channel|>final<|message|>Hi<|return|>\n\
         <|start|>user<|message|>What is in a?<|end|>\n\
         <|start|>assistant to=functions.f call_id=c1<|channel|>commentary<|constrain|>json<|message|>{}<|call|>\n",
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
        "<config model=\"gpt-4o\"/>\n<tool name=\"deploy\" command=\"true\"/>\n",
    ),
    ("arguments.json", "{\"arguments\":[\"edited\"]}"),
    ("a.json", "{\"arguments\":[\"a\"]}"),
    ("b.json", "{\"arguments\":[\"b\"]}"),
    ("logue.toml", "[tools]\nroots = [\"..\"]\n"),
];

/// Rows of which the page shows the losses.
const ROWS: &str = r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}
{"messages":[{"role":"user","content":"a"},{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://a.test/b.png"}}]}]}
{"messages":[{"role":"user","content":"a"}]}
{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://a.test/b.png"}}]}]}
{"messages":[{"role":"user","content":"b"}]}
"#;

/// Commands whose status is not 0.
const STATUSES: &[(&str, &str, i32)] = &[
    ("", "logue send --agent ops.md", 6),
    ("README.md", "logue run --permission deploy=ask", 6),
    ("formats.md", "logue convert data.jsonl", 8),
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

/// The blocks that do not run, by page, with the reason in their info string.
const NOT_RUN: &[(&str, &str)] = &[
    ("README.md", "runs every test"),
    ("README.md", "names your key"),
    ("README.md", "compiles the program"),
    ("README.md", "serves until it is ended"),
    ("benchmarks.md", "takes minutes"),
    ("benchmarks.md", "takes minutes"),
    ("benchmarks.md", "needs the packages of the engines"),
    ("data-at-scale.md", "needs the packages of an engine"),
    ("data.md", "needs the files of a model"),
    ("gateway.md", "serves until it is ended"),
    ("mcp.md", "starts npx, which downloads a package"),
    (
        "mcp.md",
        "serves until it is stopped; the tests of `mcp` run it",
    ),
    ("postgres-operations.md", "needs the database"),
    ("postgres-operations.md", "removes sessions"),
    ("postgres-operations.md", "needs the database"),
    ("serve-operations.md", "needs the database"),
    ("serve-operations.md", "needs systemd and root"),
    ("serve-page.md", "serves until it is ended"),
    ("serve.md", "serves until it is ended"),
    ("sessions.md", "needs an earlier store"),
    ("telemetry.md", "compiles the program"),
];

/// The reason of commands that the tests of `logue serve` send to a server.
const SERVED: &str = "needs the server";

/// The pages with their names: the README and `docs/*.md`.
fn pages() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    let docs = std::fs::read_dir(root.join("docs")).unwrap();
    let docs = docs.map(|entry| entry.unwrap().path());
    let mut docs: Vec<_> = docs
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    docs.sort();
    pages.extend(docs);
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let read = pages
        .iter()
        .map(|path| (name(path), std::fs::read_to_string(path).unwrap()));
    read.collect()
}

/// A command of a page, and the output that the page shows.
struct Line {
    command: String,
    output: String,
}

/// The commands of a page.
#[derive(Default)]
struct Commands {
    lines: Vec<Line>,
    /// The reasons of the blocks that do not run.
    not_run: Vec<String>,
    /// Commands in blocks of another language.
    misplaced: Vec<String>,
}

/// Returns whether a line begins like a command.
fn is_command(line: &str) -> bool {
    let starts = ["$ ", "logue ", "export ", "cargo ", "./test"];
    starts.iter().any(|start| line.starts_with(start)) || line.contains("| logue ")
}

/// Reads the blocks of a page: those of `sh` and `console`, and indented ones.
fn commands(page: &str) -> Commands {
    let mut found = Commands::default();
    // The info string of the current fence.
    let mut fence: Option<&str> = None;
    // Whether the lines after a command are its output.
    let mut shows_output = false;
    for line in page.lines() {
        if let Some(info) = line.strip_prefix("```") {
            fence = fence.is_none().then_some(info);
            let reason = info.split_once(" not-run: ");
            found
                .not_run
                .extend(reason.map(|(_, reason)| reason.to_owned()));
            shows_output = false;
            continue;
        }
        let text = if fence.is_some() {
            Some(line)
        } else {
            line.strip_prefix("    ")
        };
        let Some(text) = text else {
            shows_output = false;
            continue;
        };
        let info = fence.unwrap_or("sh");
        if info.contains(" not-run: ") {
            continue;
        }
        let is_shell = info == "sh" || info == "console";
        match (is_command(text), is_shell) {
            (true, true) => {
                let command = text.strip_prefix("$ ");
                shows_output = command.is_some();
                let command = command.unwrap_or(text);
                let command = command.split("  #").next().unwrap_or(command);
                found.lines.push(Line {
                    command: command.trim().to_owned(),
                    output: String::new(),
                });
            }
            (true, false) => found.misplaced.push(text.to_owned()),
            (false, _) if shows_output => {
                let last = found.lines.last_mut().unwrap();
                last.output.push_str(&format!("{text}\n"));
            }
            (false, _) => {}
        }
    }
    found
}

/// The place where a page is tried.
struct Trial {
    folder: tempfile::TempDir,
    server: ModelServer,
    exports: String,
    /// The model of the turn that waits for a decision.
    deciding: Option<ModelServer>,
    /// The id of the signal that waits for a decision.
    signal: Option<String>,
    /// The decisions so far.
    decisions: usize,
}

impl Trial {
    fn new(page: &str) -> Self {
        let reply = if page == "harmony.md" {
            // The ids of `<|channel|>final<|message|>Hi<|return|>`.
            let pieces = vec![(
                vec![200_005, 17196, 200_008, 12194, 200_002],
                "Hi".to_owned(),
            )];
            Reply::Completion(Completion::new(Wire::VllmIds, pieces))
        } else {
            Reply::Answer(Answer::text("{\"name\":\"Ada\"}"))
        };
        let server = ModelServer::start(vec![reply], Delivery::Whole).unwrap();
        let folder = folder(FILES);
        let write =
            |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
        write("plot.png", b"\x89PNG\r\n\x1a\nrest");
        if page == "README.md" {
            // Its commands create the file.
            std::fs::remove_file(folder.path().join("review.md")).unwrap();
        }
        if page == "formats.md" {
            write("data.jsonl", ROWS.as_bytes());
        }
        // The commands read a difference; which one does not matter.
        std::fs::create_dir(folder.path().join("bin")).unwrap();
        write("bin/git", b"#!/bin/sh\necho '+ added'\n");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path().join("bin/git"), mode).unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        copy(&root.join(EXAMPLE), &folder.path().join(EXAMPLE));
        Self {
            folder,
            server,
            exports: String::new(),
            deciding: None,
            signal: None,
            decisions: 0,
        }
    }

    /// Runs a line in a shell that finds the program.
    fn shell(&self, server: &ModelServer, line: &str, input: &str) -> Ran {
        let folder = self.folder.path();
        let program = Path::new(env!("CARGO_BIN_EXE_logue")).parent().unwrap();
        let base = logue(folder);
        let mut command = Command::new("bash");
        command
            .args(["-c", &format!("{}{line}", self.exports)])
            .current_dir(folder);
        for (name, value) in base.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let path = std::env::var("PATH").unwrap_or_default();
        let bin = folder.join("bin");
        let path = format!("{}:{}:{path}", bin.display(), program.display());
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

    /// Runs a command as a reader with these files and servers does.
    fn run(&mut self, line: &str) -> Ran {
        let inputs = INPUTS.iter().find(|(start, _)| line.starts_with(start));
        let input = inputs.map_or("", |(_, input)| input);
        let line = line.replace("cargo run -- ", "logue ");
        let line = line.replace("http://localhost:8000/v1", &self.server.base_url());
        // A suspended turn needs a call, and an answer after its result.
        let is_suspended = line.contains("deploy=ask") || line.starts_with("logue signal ");
        if !is_suspended {
            return self.shell(&self.server, &line, input);
        }
        let calls = if line.contains("call_2") { 2 } else { 1 };
        if !line.starts_with("logue signal ") {
            self.deciding = Some(decision_server(calls));
            let ran = self.shell(self.deciding.as_ref().unwrap(), &line, input);
            self.signal = signal_of(&ran);
            return ran;
        }
        let signal = self.signal.take().unwrap_or_else(|| {
            self.decisions += 1;
            let session = match self.decisions {
                1 => "ops".to_owned(),
                number => format!("ops-{number}"),
            };
            self.deciding = Some(decision_server(calls));
            let send = format!("logue send --agent ops.md --permission deploy=ask {session} Go");
            let ran = self.shell(self.deciding.as_ref().unwrap(), &send, "");
            signal_of(&ran).unwrap_or_else(|| panic!("{}", ran.stderr))
        });
        let id = line.split_whitespace().nth(2).unwrap();
        let line = line.replacen(id, &signal, 1);
        self.shell(self.deciding.as_ref().unwrap(), &line, input)
    }
}

/// Returns a model that calls `deploy`, and then answers.
fn decision_server(calls: usize) -> ModelServer {
    let mut answer = Answer::text("");
    for number in 1..=calls {
        answer = answer.with_call(format!("call_{number}"), "deploy", r#"{"arguments":[]}"#);
    }
    let replies = [answer, Answer::text("Done.")].map(Reply::Answer);
    ModelServer::start(replies.to_vec(), Delivery::Whole).unwrap()
}

/// Returns the id of the signal that a command printed.
fn signal_of(ran: &Ran) -> Option<String> {
    let mut words = ran.stderr.split_whitespace();
    let id = words.find(|word| word.starts_with("approve-"))?;
    Some(id.trim_end_matches([':', ',', '.']).to_owned())
}

/// The example of the README.
const EXAMPLE: &str = "examples/repo-reviewer";

/// Copies a directory.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            std::fs::copy(&from, &to).unwrap();
        }
    }
}

#[test]
fn every_documented_command_works_in_the_order_of_its_page() {
    let (mut faults, mut not_run) = (String::new(), Vec::new());
    let mut count = 0;
    for (page, text) in pages() {
        let commands = commands(&text);
        for line in &commands.misplaced {
            writeln!(faults, "{page}: in a block that is not `sh`: {line}").unwrap();
        }
        not_run.extend(
            commands
                .not_run
                .into_iter()
                .map(|reason| (page.clone(), reason)),
        );
        if commands.lines.is_empty() {
            continue;
        }
        let mut trial = Trial::new(&page);
        for Line { command, output } in commands.lines {
            count += 1;
            if command.starts_with("export ") {
                trial.exports.push_str(&format!("{command}; "));
                continue;
            }
            let ran = trial.run(&command);
            let expected = STATUSES.iter().find(|(of, start, _)| {
                (of.is_empty() || *of == page) && command.starts_with(start)
            });
            let expected = expected.map_or(0, |(.., status)| *status);
            let shown = format!("{}{}", ran.stdout, ran.stderr);
            if ran.status != expected {
                writeln!(
                    faults,
                    "{page}: {command}\n  status {}: {shown}",
                    ran.status
                )
                .unwrap();
            }
            if !output.is_empty() && output.trim_end() != shown.trim_end() {
                writeln!(faults, "{page}: {command}\n  prints: {shown}").unwrap();
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
    let not_run: Vec<(&str, &str)> = not_run
        .iter()
        .map(|(page, reason)| (page.as_str(), reason.as_str()))
        .filter(|(_, reason)| *reason != SERVED)
        .collect();
    assert_eq!(not_run, NOT_RUN);
    assert!(count > 75, "{count}");
}
