//! Rules of the house that the compiler does not check.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::edges;

/// Lines that a file may have; a file over it holds more than one idea.
const MAX_LINES: usize = 800;

/// Drawers: a helper lives with its first user and moves when a concept appears.
const FORBIDDEN: &[&str] = &[
    "util", "utils", "helper", "helpers", "common", "misc", "core", "lib2",
];

const PURE: &[&str] = &[
    "source",
    "message",
    "html",
    "o200k",
    "openchatml",
    "chatmd",
    "harness",
];

pub(crate) fn tidy(root: &Path) -> Result<(), String> {
    let mut faults = Vec::new();
    edges::check(root, &mut faults)?;
    let files = tracked(root)?;
    for file in &files {
        check_name(file, &mut faults);
        if file.extension().is_some_and(|ending| ending == "rs") {
            check_source(root, file, &mut faults)?;
        }
    }
    check_pure_settings(root, &mut faults)?;
    if faults.is_empty() {
        println!("tidy: {} files, nothing to say", files.len());
        return Ok(());
    }
    faults.sort();
    Err(format!(
        "{}\ntidy: {} faults",
        faults.join("\n"),
        faults.len()
    ))
}

/// The files that belong to the project: tracked, or new and not ignored.
fn tracked(root: &Path) -> Result<Vec<PathBuf>, String> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .map_err(|error| format!("git ls-files: {error}"))?;
    if !output.status.success() {
        return Err("git ls-files failed: tidy needs a git checkout".to_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let paths = text
        .split('\0')
        .filter(|path| !path.is_empty())
        .map(PathBuf::from);
    Ok(paths.filter(|path| root.join(path).is_file()).collect())
}

fn check_name(file: &Path, faults: &mut Vec<String>) {
    let in_code =
        file.starts_with("crates") || file.starts_with("testing") || file.starts_with("xtask");
    if !in_code {
        return;
    }
    for part in file.components() {
        let part = part.as_os_str().to_string_lossy();
        let stem = part.split('.').next().unwrap_or_default();
        if FORBIDDEN.contains(&stem) {
            faults.push(format!(
                "{}: `{stem}` is no name for one idea",
                file.display()
            ));
        }
    }
}

fn check_source(root: &Path, file: &Path, faults: &mut Vec<String>) -> Result<(), String> {
    let text = std::fs::read_to_string(root.join(file))
        .map_err(|error| format!("{}: {error}", file.display()))?;
    let lines = text.lines().count();
    if lines > MAX_LINES {
        faults.push(format!(
            "{}: {lines} lines, more than {MAX_LINES}",
            file.display()
        ));
    }
    let opens = text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default();
    if !opens.starts_with("//!") && !opens.starts_with("#!") {
        faults.push(format!(
            "{}: does not open with a paragraph that says what it is",
            file.display()
        ));
    }
    if file.ends_with("src/lib.rs") && !text.contains("#![warn(missing_docs)]") {
        faults.push(format!("{}: lacks #![warn(missing_docs)]", file.display()));
    }
    // The one library that stands in front of the C library cannot do without.
    let unsafe_by_trade = file.starts_with("testing/faultfs");
    if file.ends_with("src/lib.rs") && !unsafe_by_trade && !text.contains("#![forbid(unsafe_code)]")
    {
        faults.push(format!("{}: lacks #![forbid(unsafe_code)]", file.display()));
    }
    Ok(())
}

/// The list of forbidden calls is one list: its copies in the pure crates must not drift apart.
fn check_pure_settings(root: &Path, faults: &mut Vec<String>) -> Result<(), String> {
    let read = |name: &str| {
        let path = root.join("crates").join(name).join("clippy.toml");
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let first = read(PURE[0])?;
    for name in &PURE[1..] {
        if read(name)? != first {
            faults.push(format!(
                "crates/{name}/clippy.toml differs from crates/{}/clippy.toml",
                PURE[0]
            ));
        }
    }
    Ok(())
}
