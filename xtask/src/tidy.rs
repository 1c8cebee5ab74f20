//! Rules of this workspace that the compiler does not check.

pub(crate) mod edges;
mod lexer;
mod names;
mod packages;
mod prose;
mod rules;
mod structure;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The most lines of a file; a longer one contains more than one idea.
const MAX_LINES: usize = 800;

/// File names that name no concept.
const FORBIDDEN: &[&str] = &[
    "util", "utils", "helper", "helpers", "common", "misc", "core", "lib2",
];

/// Async crates that, like the pure ones, perform no I/O and use no clock.
const WITHOUT_IO: &[&str] = &["logue-graph", "logue-harness"];

/// Checks the whole workspace; `shown` lists the findings of prose below a path as well.
pub(crate) fn tidy(root: &Path, shown: Option<&Path>) -> Result<(), String> {
    let mut violations = Vec::new();
    let packages = edges::check(root, &mut violations)?;
    packages::check(root, &packages, &mut violations);
    let files = tracked(root)?;
    for file in &files {
        check_name(file, &mut violations);
        if file.extension().is_some_and(|extension| extension == "rs") {
            check_source(root, file, &mut violations)?;
        }
    }
    check_forbidden_calls(root, &mut violations)?;
    let rust: Vec<PathBuf> = files
        .iter()
        .filter(|file| file.extension().is_some_and(|extension| extension == "rs"))
        .cloned()
        .collect();
    let types = structure::check(root, &rust, &mut violations)?;
    names::check(root, &types, &mut violations)?;
    prose::check(root, &files, shown, &mut violations)?;
    if violations.is_empty() {
        println!("tidy: {} files, no violations", files.len());
        return Ok(());
    }
    Err(format!(
        "{}\ntidy: {} violations",
        violations.join("\n"),
        violations.len()
    ))
}

/// Returns the files of the project: tracked, or new and not ignored.
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

fn check_name(file: &Path, violations: &mut Vec<String>) {
    let in_code =
        file.starts_with("crates") || file.starts_with("testing") || file.starts_with("xtask");
    if !in_code {
        return;
    }
    for part in file.components() {
        let part = part.as_os_str().to_string_lossy();
        let stem = part.split('.').next().unwrap_or_default();
        if FORBIDDEN.contains(&stem) {
            violations.push(format!(
                "{}: `{stem}` does not name a concept",
                file.display()
            ));
        }
    }
}

fn check_source(root: &Path, file: &Path, violations: &mut Vec<String>) -> Result<(), String> {
    let text = std::fs::read_to_string(root.join(file))
        .map_err(|error| format!("{}: {error}", file.display()))?;
    let lines = text.lines().count();
    if lines > MAX_LINES {
        violations.push(format!(
            "{}: {lines} lines, more than {MAX_LINES}",
            file.display()
        ));
    }
    let opens = text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default();
    if !opens.starts_with("//!") && !opens.starts_with("#!") {
        violations.push(format!(
            "{}: does not open with a module comment",
            file.display()
        ));
    }
    if file.ends_with("src/lib.rs") && !text.contains("#![warn(missing_docs)]") {
        violations.push(format!("{}: lacks #![warn(missing_docs)]", file.display()));
    }
    // The preloaded library replaces functions of the C library; capsules of Python hold pointers.
    let may_be_unsafe =
        file.starts_with("testing/faultfs") || file.starts_with("bindings/python/arrow");
    if file.ends_with("src/lib.rs") && !may_be_unsafe && !text.contains("#![forbid(unsafe_code)]") {
        violations.push(format!("{}: lacks #![forbid(unsafe_code)]", file.display()));
    }
    Ok(())
}

/// Compares the copies of the list of forbidden calls in the crates without I/O.
fn check_forbidden_calls(root: &Path, violations: &mut Vec<String>) -> Result<(), String> {
    let mut first: Option<(&str, String)> = None;
    for package in edges::PURE.iter().chain(WITHOUT_IO) {
        let name = package.strip_prefix("logue-").unwrap_or(package);
        let path = root.join("crates").join(name).join("clippy.toml");
        let text = std::fs::read_to_string(&path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        match &first {
            None => first = Some((name, text)),
            Some((other, expected)) if *expected != text => violations.push(format!(
                "crates/{name}/clippy.toml differs from crates/{other}/clippy.toml"
            )),
            Some(_) => {}
        }
    }
    Ok(())
}
