//! The merge of the environment, the project's file and the user's file.

use serde_json::Value;

use crate::program::{Ran, folder, logue, run};

const USER: &str = ".config/logue/config.toml";
const PROMPT: &str = "<config model=\"m\"/>\n<user>hi</user>\n";

/// Returns the checks of `logue doctor` with variables set.
fn doctor(folder: &std::path::Path, variables: &[(&str, &str)]) -> Vec<Value> {
    let ran: Ran = logue(folder)
        .args(["doctor", "--offline", "--json"])
        .envs(variables.iter().copied())
        .output()
        .unwrap()
        .into();
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    report["checks"].as_array().unwrap().clone()
}

fn fact(checks: &[Value], check: &str, name: &str) -> String {
    let found = checks.iter().find(|one| one["check"] == check).unwrap();
    found[name].as_str().unwrap().to_owned()
}

#[test]
fn the_environment_precedes_the_project_and_the_project_the_user() {
    let folder = folder(&[
        (
            USER,
            "[model]\nname = \"echo:\"\n[store]\nurl = \"sqlite:user.db\"\n",
        ),
        ("work/.git/HEAD", ""),
    ]);
    let work = folder.path().join("work");
    let doctor = |variables: &[(&str, &str)]| {
        let home = folder.path().join(".config");
        let mut all = vec![("XDG_CONFIG_HOME", home.to_str().unwrap())];
        all.extend(variables);
        let checks = doctor(&work, &all);
        (
            fact(&checks, "model", "model"),
            fact(&checks, "store", "url"),
        )
    };
    let (model, store) = doctor(&[]);
    assert_eq!(model, "echo:");
    // A path in a file is relative to the file.
    assert!(store.ends_with(".config/logue/user.db"), "{store}");
    let project = "[model]\nname = \"replay:r\"\n[store]\nurl = \"sqlite:project.db\"\n";
    std::fs::write(work.join("logue.toml"), project).unwrap();
    let (model, store) = doctor(&[]);
    assert_eq!(model, "replay:r");
    assert!(store.ends_with("work/project.db"), "{store}");
    let named = [("LOGUE_MODEL", "echo:"), ("LOGUE_STORE", "sqlite:named.db")];
    let named = doctor(&named);
    assert_eq!(named, ("echo:".to_owned(), "sqlite:named.db".to_owned()));
}

#[test]
fn an_invalid_file_fails_only_the_commands_that_use_settings() {
    let folder = folder(&[("prompt.md", PROMPT), ("logue.toml", "[model]\nnmae = 1\n")]);
    let with: [&[&str]; 4] = [
        &["run", "--no-save", "prompt.md"],
        &["send", "--agent", "prompt.md", "s", "hi"],
        &["sessions", "list"],
        &["trust", "add", "prompt.md"],
    ];
    for arguments in with {
        let ran = run(folder.path(), arguments);
        assert_eq!(ran.status, 3, "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("logue.toml:2:1"), "{}", ran.stderr);
    }
    let without: [&[&str]; 6] = [
        &["check", "prompt.md"],
        &["fmt", "--check", "prompt.md"],
        &["fix", "--check", "prompt.md"],
        &["view", "prompt.md"],
        &["tokens", "count", "prompt.md"],
        &["trust", "list"],
    ];
    for arguments in without {
        let ran = run(folder.path(), arguments);
        // A file to format is a finding.
        let is_read = matches!(ran.status, 0 | 8);
        assert!(is_read, "{arguments:?}: {}", ran.stderr);
    }
}

#[test]
fn an_invalid_value_is_an_error_at_its_position_before_it_is_used() {
    for (settings, column, message) in [
        (
            "[model]\nserver = \"abacus\"\n",
            10,
            "unknown server `abacus`",
        ),
        (
            "[model]\nbase_url = \"nope\"\n",
            12,
            "invalid base URL `nope`",
        ),
        (
            "[model.anthropic]\nbase_url = \"ftp://x\"\n",
            12,
            "invalid base URL `ftp://x`",
        ),
        (
            "[model]\ntotal_timeout_seconds = 0\n",
            25,
            "`total_timeout_seconds`: expected a whole number of at least 1, found 0",
        ),
        (
            "[store]\nurl = \"mysql:foo\"\n",
            7,
            "`url`: expected `sqlite:PATH`, `postgres://…` or `memory:`",
        ),
        ("[tools]\nroots = [\".\", \"no\"]\n", 15, "the root "),
    ] {
        let folder = folder(&[("prompt.md", PROMPT), ("logue.toml", settings)]);
        let echoed = ["run", "--no-save", "-m", "echo:", "prompt.md"];
        for ran in [
            run(folder.path(), echoed),
            run(folder.path(), ["sessions", "list"]),
        ] {
            assert_eq!(ran.status, 3, "{settings}: {}", ran.stderr);
            let start = format!("error[E-CONFIG-INVALID]: {message}");
            assert!(ran.stderr.starts_with(&start), "{}", ran.stderr);
            let place = format!("logue.toml:2:{column}\n");
            assert!(ran.stderr.contains(&place), "{}", ran.stderr);
        }
    }
}

#[test]
fn errors_of_the_command_line_name_new_names_and_numbers_in_plain_words() {
    let folder = folder(&[("prompt.md", PROMPT)]);
    let cases: [(&[&str], &str); 8] = [
        (
            &["run", "--budget", "3", "prompt.md"],
            "tip: `--budget` was renamed to `--max-cost`",
        ),
        (
            &["run", "--max-turns=3", "prompt.md"],
            "tip: `--max-turns` was renamed to `--max-requests`",
        ),
        (
            &["sessions", "tail", "s"],
            "tip: `tail` was renamed to `outcomes`",
        ),
        (
            &["trust", "prompt.md"],
            "tip: `trust prompt.md` was renamed to `trust add prompt.md`",
        ),
        (
            &["run", "--max-cost", "x", "prompt.md"],
            "invalid value 'x' for '--max-cost <USD>': expected a number such as 2.50",
        ),
        (
            &["run", "--max-agent-depth", "x", "prompt.md"],
            "invalid value 'x' for '--max-agent-depth <N>': expected a whole number",
        ),
        (
            &["run", "--max-total-tokens", "0", "prompt.md"],
            "expected a whole number of at least 1",
        ),
        (
            &["run", "--nonsense", "prompt.md"],
            "unexpected argument '--nonsense' found",
        ),
    ];
    for (arguments, text) in cases {
        let ran = run(folder.path(), arguments);
        assert_eq!(ran.status, 2, "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(text), "{}", ran.stderr);
        assert!(!ran.stderr.contains("-- --"), "{}", ran.stderr);
    }
}

#[test]
fn a_command_that_finds_nothing_reports_it() {
    let folder = folder(&[("prompt.md", PROMPT), ("empty/.keep", "")]);
    let sent = run(
        folder.path(),
        ["send", "--agent", "prompt.md", "-m", "echo:", "s", "hi"],
    );
    assert_eq!(sent.status, 0, "{}", sent.stderr);
    let cases: [(&[&str], &str); 5] = [
        (
            &["trust", "list"],
            "LOGUE_TRUST=all trusts every prompt and every directory\n",
        ),
        (
            &["sessions", "show", "s", "--audit"],
            "no decisions about tool calls are recorded\n",
        ),
        (
            &["mcp", "list", "prompt.md"],
            "prompt.md declares no MCP servers\n",
        ),
        (&["view", "empty"], "empty: no conversations found\n"),
        (&["check", "empty"], "no prompts or transcripts found\n"),
    ];
    for (arguments, text) in cases {
        let ran = run(folder.path(), arguments);
        assert_eq!(
            (ran.status, ran.stdout.as_str(), ran.stderr.as_str()),
            (0, "", text),
            "{arguments:?}"
        );
    }
}

#[test]
fn failures_of_paths_and_payloads_name_the_next_step() {
    let folder = folder(&[]);
    let cases: [(&[&str], &str, &str); 5] = [
        (
            &["signal", "ID", "--payload", "{"],
            "--payload:1:1: invalid JSON: the text ends within an object",
            "= help: write a JSON object such as",
        ),
        (
            &["signal", "ID", "--payload", "[]"],
            "the payload is not a JSON object",
            "= help: --approve and --deny decide without a payload",
        ),
        (
            &["scan", "nofile"],
            "cannot read `nofile`: it does not exist",
            "= help: check the path",
        ),
        (
            &["mcp", "serve", "nofile"],
            "cannot serve `nofile`: it does not exist",
            "= help: name ChatMD prompts",
        ),
        (
            &["man", "absent"],
            "error[pages_write_failed]: cannot write to absent: it does not exist",
            "= help: name an existing directory",
        ),
    ];
    for (arguments, text, help) in cases {
        let ran = run(folder.path(), arguments);
        assert_eq!(ran.status, 3, "{arguments:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(text) && ran.stderr.contains(help),
            "{}",
            ran.stderr
        );
        assert!(!ran.stderr.contains("os error"), "{}", ran.stderr);
    }
}
