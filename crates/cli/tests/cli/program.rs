//! Running the program, and folders to run it in.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The program with nothing of this machine's settings around it. Prompts of tests are trusted, where
/// trust is not what is tested.
pub(crate) fn logue(folder: &Path) -> Command {
    let mut command = strict(folder);
    command.env("LOGUE_TRUST", "all");
    command
}

/// The same for a user who trusts nothing yet.
pub(crate) fn strict(folder: &Path) -> Command {
    let mut command = Command::new(tested_program());
    command.current_dir(folder).stdin(Stdio::null());
    let names = std::env::vars_os().map(|(name, _)| name);
    for name in names.filter(|name| {
        let name = name.to_string_lossy();
        [
            "ANTHROPIC_",
            "LOGUE_",
            "OCHAT_",
            "OLLAMA_",
            "OPENAI_",
            "OTEL_",
            "PG",
            "XDG_",
        ]
        .iter()
        .any(|prefix| name.starts_with(prefix))
    }) {
        command.env_remove(name);
    }
    command
        .env("HOME", folder)
        .env("XDG_CONFIG_HOME", folder.join(".config"))
        .env("XDG_CACHE_HOME", folder.join(".cache"))
        .env("XDG_DATA_HOME", folder.join(".data"))
        .env("NO_COLOR", "1");
    command
}

/// The program: `LOGUE_TESTED_PROGRAM`, with which `cargo xtask bench serve page` measures the
/// published one, or that of this build.
fn tested_program() -> PathBuf {
    let named = std::env::var_os("LOGUE_TESTED_PROGRAM");
    named.map_or_else(|| env!("CARGO_BIN_EXE_logue").into(), PathBuf::from)
}

/// What a run left behind.
pub(crate) struct Ran {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Runs the program to its end.
pub(crate) fn run<S: AsRef<OsStr>>(folder: &Path, arguments: impl IntoIterator<Item = S>) -> Ran {
    logue(folder).args(arguments).output().unwrap().into()
}

/// The same with something on standard input.
pub(crate) fn run_with_input(folder: &Path, arguments: &[&str], input: &str) -> Ran {
    let mut child = logue(folder)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that refuses its arguments never reads it, and may be gone by now.
    drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
    child.wait_with_output().unwrap().into()
}

/// An empty folder with files in it.
pub(crate) fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

/// The example that the README begins with.
pub(crate) fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/repo-reviewer")
}

/// A copy of the example that may be written to.
pub(crate) fn example_copy() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy(&example(), folder.path());
    folder
}

pub(crate) fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Every file below a folder with its content, in order of names; what belongs to the user lies in
/// `.data`.
pub(crate) fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && path.ends_with(".data") {
                continue;
            }
            if path.is_dir() {
                waiting.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                files.push((name, std::fs::read(&path).unwrap()));
            }
        }
    }
    files.sort();
    files
}

/// The events of a run with `--json`; a last line that was cut by a kill is left out.
pub(crate) fn events(stdout: &str) -> Vec<serde_json::Value> {
    let whole = stdout.rfind('\n').map_or("", |end| &stdout[..end]);
    whole
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}
