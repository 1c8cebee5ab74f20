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
fn an_unknown_server_fails_only_a_connection() {
    let settings = "[model]\nserver = \"abacus\"\n";
    let folder = folder(&[("prompt.md", PROMPT), ("logue.toml", settings)]);
    assert_eq!(run(folder.path(), ["sessions", "list"]).status, 0);
    let echoed = ["run", "--no-save", "-m", "echo:", "prompt.md"];
    assert_eq!(run(folder.path(), echoed).status, 0);
    let ran = run(folder.path(), ["run", "--no-save", "prompt.md"]);
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    let text = "error[E-CONFIG-INVALID]: unknown server `abacus`";
    assert!(ran.stderr.starts_with(text), "{}", ran.stderr);
}
