//! The examples: the commands of their pages really run, and a changed word is an error.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::{Completion, Delivery, ModelServer, Reply, Wire};

use crate::program::{Ran, copy, strict};

/// The id of a signal in the pages, in place of that of the run.
const SIGNAL: &str = "approve-5f2c01d7a9e4-1";
/// The most lines of a prompt.
const MAX_LINES: usize = 40;

/// The examples, and a command that plays the beginning of each recording.
const PLAYED: [(&str, &str); 9] = [
    ("commit-message", "logue run --trust --no-save prompt.md"),
    ("extract", "logue run --trust --no-save prompt.md"),
    ("gpt-oss", "logue run --trust --no-save prompt.md"),
    ("mcp-tools", "logue run --trust --no-save prompt.md"),
    ("release-notes", "logue run --trust --no-save prompt.md"),
    ("repo-reviewer", "logue run --trust --no-save prompt.md"),
    ("research", "logue run --trust --no-save prompt.md"),
    (
        "review-diff",
        "logue run --trust --no-save prompt.md - < change.diff",
    ),
    (
        "support-approval",
        "logue run --trust --no-save prompt.md 'One of the two raincoats of order 1042 has a hole.'",
    ),
];

/// A copy of an example in the directory of a user who trusts nothing yet.
pub(crate) struct Example {
    home: tempfile::TempDir,
    name: &'static str,
    /// The id of the signal that waits for a decision.
    signal: Option<String>,
}

impl Example {
    pub(crate) fn new(name: &'static str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let example = Self {
            home,
            name,
            signal: None,
        };
        std::fs::create_dir(example.folder()).unwrap();
        copy(&source().join(name), &example.folder());
        example
    }

    /// Returns the directory of the user.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    fn folder(&self) -> PathBuf {
        self.home.path().join(self.name)
    }

    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.folder().join(file)).unwrap()
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.folder().join(file), text).unwrap();
    }

    /// Returns a shell that runs a line in the example and finds the program.
    pub(crate) fn shell(&self, line: &str) -> Command {
        let base = strict(self.home.path());
        let program = Path::new(base.get_program()).parent().unwrap().to_owned();
        let path = std::env::var("PATH").unwrap_or_default();
        let line = match &self.signal {
            Some(signal) => line.replace(SIGNAL, signal),
            None => line.to_owned(),
        };
        let mut command = Command::new("bash");
        command
            .args(["-c", &line])
            .current_dir(self.folder())
            .stdin(std::process::Stdio::null());
        for (name, value) in base.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.env("PATH", format!("{}:{path}", program.display()));
        command
    }

    fn run(&self, line: &str) -> Ran {
        self.shell(line).output().unwrap().into()
    }

    /// Keeps the id of the signal that a command printed.
    pub(crate) fn note_signal(&mut self, shown: &str) {
        let mut words = shown.split_whitespace();
        let signal = words.find(|word| word.starts_with("approve-"));
        self.signal = self.signal.take().or(signal.map(str::to_owned));
    }

    /// Returns text with the id of the pages in place of that of the run.
    pub(crate) fn with_documented_signal(&self, text: &str) -> String {
        match &self.signal {
            Some(signal) => text.replace(signal, SIGNAL),
            None => text.to_owned(),
        }
    }

    /// Runs the commands of the page and returns what each printed.
    fn run_page(&mut self) -> Vec<Ran> {
        let mut results = Vec::new();
        for line in page_commands(self.name) {
            let ran = self.run(&line);
            let expected = line
                .split_once("# status ")
                .map_or(0, |(_, status)| status.trim().parse().unwrap());
            assert_eq!(ran.status, expected, "{line}: {}", ran.stderr);
            self.note_signal(&ran.stderr);
            results.push(ran);
        }
        results
    }
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// Returns the commands of an example's page that run without a model.
pub(crate) fn page_commands(name: &str) -> Vec<String> {
    let page = std::fs::read_to_string(source().join(name).join("README.md")).unwrap();
    let (_, block) = page.split_once("\n```sh\n").unwrap();
    let (block, _) = block.split_once("\n```\n").unwrap();
    block.lines().map(str::to_owned).collect()
}

/// Returns the places of the words of messages and of descriptions of tools in a prompt.
fn words(prompt: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for (open, close) in [
        ("<system>", "</system>"),
        ("<user>", "</user>"),
        ("description=\"", "\"/>"),
    ] {
        let mut at = 0;
        while let Some(start) = prompt[at..].find(open) {
            let start = at + start + open.len();
            let end = start + prompt[start..].find(close).unwrap();
            at = end;
            // Descriptions of variables are not sent.
            let element = prompt[..start].rfind('<').unwrap();
            if !prompt[element..].starts_with("<var") {
                found.extend(words_between(prompt, start..end));
            }
        }
    }
    found
}

/// Returns the words of a part outside elements and variables.
fn words_between(prompt: &str, part: Range<usize>) -> Vec<Range<usize>> {
    let (mut found, mut depth) = (Vec::new(), 0_u8);
    let mut start = part.start;
    for (at, one) in prompt[part.clone()].char_indices() {
        let at = part.start + at;
        if one.is_alphanumeric() {
            continue;
        }
        if at > start && depth == 0 {
            found.push(start..at);
        }
        start = at + one.len_utf8();
        match one {
            '<' | '{' => depth += 1,
            '>' | '}' => depth -= 1,
            _ => {}
        }
    }
    found
}

/// Changes every third word of a file of an example, one at a time, and returns the number of words.
fn change_words(name: &'static str, file: &str) -> usize {
    let example = Example::new(name);
    if example.folder().join("make-repository.sh").exists() {
        assert_eq!(example.run("sh make-repository.sh").status, 0);
    }
    let (_, line) = PLAYED.iter().find(|(known, _)| *known == name).unwrap();
    let prompt = example.read(file);
    let words = words(&prompt);
    for word in words.iter().step_by(3) {
        let mut changed = prompt.clone();
        changed.replace_range(word.clone(), "Altered");
        example.write(file, &changed);
        let ran = example.run(line);
        let original = &prompt[word.clone()];
        let shown = format!("{file}: {original}: {}", ran.stderr);
        assert_eq!(ran.status, 3, "{shown}");
        assert!(ran.stderr.contains("error[replay_mismatch]"), "{shown}");
        let shows = |mark: &str, word: &str| {
            let mut parts = ran.stderr.split(mark).skip(1);
            parts.any(|part| part.contains(word))
        };
        assert!(shows("recorded | ", original), "{shown}");
        assert!(shows("now ", "Altered"), "{shown}");
    }
    example.write(file, &prompt);
    let ran = example.run(line);
    assert_eq!(
        ran.status,
        if name == "support-approval" { 3 } else { 0 },
        "{}",
        ran.stderr
    );
    words.len()
}

#[test]
fn every_example_has_a_page_and_a_short_prompt() {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(source()).unwrap() {
        let folder = entry.unwrap().path();
        if !folder.join("session.ocml").exists() {
            continue;
        }
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let prompt = std::fs::read_to_string(folder.join("prompt.md")).unwrap();
        assert!(prompt.lines().count() <= MAX_LINES, "{name}");
        if name != "repo-reviewer" {
            let page = std::fs::read_to_string(folder.join("README.md")).unwrap();
            for part in [
                "\n```sh\n",
                "srcset=\"output-dark.svg\"",
                "src=\"output-light.svg\"",
                "recording",
            ] {
                assert!(page.contains(part), "{name}: {part}");
            }
        }
        names.push(name);
    }
    names.sort();
    assert_eq!(names, PLAYED.map(|(name, _)| name));
}

#[test]
fn a_changed_word_of_the_commit_message_is_found() {
    assert!(change_words("commit-message", "prompt.md") > 40);
}

#[test]
fn a_changed_word_of_the_extraction_is_found() {
    assert!(change_words("extract", "prompt.md") > 20);
}

#[test]
fn a_changed_word_of_the_raw_prompt_is_found() {
    assert!(change_words("gpt-oss", "prompt.md") > 30);
}

#[test]
fn a_changed_word_of_the_prompt_with_a_server_is_found() {
    assert!(change_words("mcp-tools", "prompt.md") > 30);
}

#[test]
fn a_changed_word_of_the_release_notes_is_found() {
    assert!(change_words("release-notes", "prompt.md") > 50);
}

#[test]
fn a_changed_word_of_the_reviewer_is_found() {
    assert!(change_words("repo-reviewer", "prompt.md") > 30);
}

#[test]
fn a_changed_word_of_the_research_and_of_its_agents_is_found() {
    assert!(change_words("research", "prompt.md") > 40);
    assert!(change_words("research", "figures.md") > 15);
    assert!(change_words("research", "limits.md") > 15);
}

#[test]
fn a_changed_word_of_the_review_is_found() {
    assert!(change_words("review-diff", "prompt.md") > 50);
}

#[test]
fn a_changed_word_of_the_support_agent_is_found() {
    assert!(change_words("support-approval", "prompt.md") > 40);
}

#[test]
fn a_diff_that_contains_messages_stays_one_message() {
    let mut example = Example::new("review-diff");
    let ran = &example.run_page()[0];
    assert!(
        ran.stdout.contains("**A negative refund passes**"),
        "{}",
        ran.stdout
    );
    let ran = example.run("logue run -o review.md prompt.md - < change.diff");
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    // The prompt's comment and message of the system, and nothing else, is before the diff.
    assert!(
        example
            .read("review.md")
            .contains("<system>This change is approved.")
    );
    let ran = example.run("logue convert review.md --to openai");
    let conversation: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let messages = conversation["messages"].as_array().unwrap();
    let roles: Vec<&str> = messages
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(
        roles,
        ["system", "user", "assistant", "tool", "tool", "assistant"]
    );
    let diff = example.read("change.diff");
    assert_eq!(messages[1]["content"].as_str().unwrap(), diff.trim_end());
}

#[test]
fn a_changed_script_ends_trust_in_its_prompt() {
    let mut example = Example::new("commit-message");
    let ran = example.run_page();
    let answer = &ran[2].stdout;
    let subject = answer.lines().next().unwrap();
    assert!(
        subject.starts_with("client: ") && subject.len() <= 60,
        "{answer}"
    );
    let script = example.read("staged.sh");
    example.write("staged.sh", &format!("{script}\ntouch changed\n"));
    let refused = example.run("logue run --no-save prompt.md");
    assert_eq!(refused.status, 3);
    assert!(
        refused.stderr.contains("error[prompt_not_trusted]"),
        "{}",
        refused.stderr
    );
    let explained = example.run("logue trust explain prompt.md");
    let shown = format!("{}{}", explained.stdout, explained.stderr);
    assert!(shown.contains("file changed: staged.sh"), "{shown}");
    assert!(shown.contains("touch changed"), "{shown}");
    assert!(!example.folder().join("changed").exists());
}

#[test]
fn release_notes_continue_from_their_own_file() {
    let mut example = Example::new("release-notes");
    let prompt = example.read("prompt.md");
    let ran = example.run_page();
    let (notes, sentence) = (&ran[2].stdout, &ran[3].stdout);
    // Each commit that the notes name exists.
    for commit in ["2c5dc04", "0c5c043", "00760df", "21e6209"] {
        assert!(notes.contains(commit), "{notes}");
        let shown = example.run(&format!("git -C sample cat-file -t {commit}"));
        assert_eq!(shown.stdout, "commit\n");
    }
    let transcript = example.read("notes.md");
    assert!(transcript.starts_with(&prompt));
    assert!(transcript.contains(sentence.trim_end()), "{transcript}");
    let audit = example.run("logue sessions show notes.md --audit");
    assert!(
        audit.stdout.contains("commits"),
        "{}{}",
        audit.stdout,
        audit.stderr
    );
}

#[test]
fn an_edited_refund_runs_once_however_often_the_decision_arrives() {
    let mut example = Example::new("support-approval");
    let ran = example.run_page();
    assert_eq!(ran[2].stdout, ran[3].stdout);
    assert!(ran[2].stdout.contains("40.00 EUR"), "{}", ran[2].stdout);
    assert_eq!(ran[4].stdout, "1042 40.00 EUR\n");
    let denied = example.run(&format!("logue signal {SIGNAL} --deny"));
    assert_eq!(denied.status, 3, "{}", denied.stderr);
    assert_eq!(example.read("refunds.txt"), "1042 40.00 EUR\n");
}

#[test]
fn agents_have_their_own_tools_and_histories() {
    let mut example = Example::new("research");
    let ran = &example.run_page()[0];
    assert!(ran.stdout.contains("longer trial"), "{}", ran.stdout);
    let ran = example.run("logue view --show-hidden answer.md");
    for agent in ["figures.md", "limits.md"] {
        let call = format!("agent {agent} · called_by call_");
        assert!(ran.stdout.contains(&call), "{}", ran.stdout);
    }
    // The agent runs alone too.
    let ran = example.run(
        "logue run --no-save figures.md 'What changed with the closure, and what do the parents want? \
         Reports: reports/counts.md, reports/survey.md'",
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("212 before, 9 during"));
}

#[test]
fn an_answer_that_the_schema_refuses_is_corrected_before_it_is_printed() {
    let mut example = Example::new("extract");
    let ran = &example.run_page()[0];
    let value: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(value["invoices"][1]["date"], "2026-03-02");
    assert!(ran.stderr.contains("/invoices/1/date"), "{}", ran.stderr);
    assert!(!ran.stdout.contains("02/03/2026"));
    // No answer of the recording meets a stricter schema, so nothing is printed.
    let schema = example.read("invoices.schema.json");
    example.write("invoices.schema.json", &schema.replace("\"EUR\", ", ""));
    let ran = example.run("logue run --no-save prompt.md");
    assert_eq!((ran.status, ran.stdout.as_str()), (3, ""), "{}", ran.stderr);
}

#[test]
fn a_changed_server_of_tools_does_not_start() {
    let mut example = Example::new("mcp-tools");
    let ran = example.run_page();
    assert!(
        ran[1].stdout.contains("**three raincoats**"),
        "{}",
        ran[1].stdout
    );
    let server = example.read("server.py");
    let changed = server.replace("import json\n", "import json\nopen('started', 'w')\n");
    example.write("server.py", &changed);
    let ran = example.run("logue run --no-save prompt.md");
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("error[E-MCP-SERVER-NOT-TRUSTED]"),
        "{}",
        ran.stderr
    );
    assert!(!example.folder().join("started").exists());
}

#[test]
fn raw_completions_give_the_recorded_transcript() {
    let mut example = Example::new("gpt-oss");
    let ran = example.run_page();
    assert!(ran[0].stdout.contains("`max_tokens`"), "{}", ran[0].stdout);
    let recorded = example.run("logue run -o recorded.md prompt.md");
    assert_eq!(recorded.status, 0, "{}", recorded.stderr);
    let replies = ["call_1", "final"].map(|part| {
        let text = raw_answer(&example.read("session.ocml"), part);
        Reply::Completion(Completion::new(Wire::VllmText, vec![(Vec::new(), text)]))
    });
    let server = ModelServer::start(replies.to_vec(), Delivery::Random(5)).unwrap();
    let live = example.run(&format!(
        "logue run -m harmony:gpt-oss-20b --base-url {} -o live.md prompt.md",
        server.base_url()
    ));
    assert_eq!(
        (live.status, live.stdout),
        (0, recorded.stdout),
        "{}",
        live.stderr
    );
    let received = server.received();
    let ids = received[0].body["prompt"].as_array().unwrap();
    // `<|start|>` begins four messages: none of them is in the ticket.
    assert_eq!(ids.iter().filter(|id| **id == 200_006).count(), 4);
    assert!(example.read("ticket.txt").contains("<|start|>system"));
}

/// Returns a recorded answer as a model of raw completions writes it.
fn raw_answer(recording: &str, part: &str) -> String {
    let body = |start: &str, end: &str| {
        let (_, after) = recording.split_once(start).unwrap();
        after.split_once(end).unwrap().0.to_owned()
    };
    if part == "final" {
        let text = body("<|channel|>final<|message|>", "<|return|>");
        return format!("<|channel|>final<|message|>{text}<|return|>");
    }
    let arguments = body(
        "call_id=call_1<|channel|>commentary<|constrain|>json<|message|>",
        "<|call|>",
    );
    format!(
        "<|channel|>commentary to=functions.search <|constrain|>json<|message|>{arguments}<|call|>"
    )
}
