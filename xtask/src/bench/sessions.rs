//! `cargo xtask bench sessions`: stored sessions beside those of two Python packages.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The packages of `bench/peers/sessions`.
const PACKAGES: [&str; 3] = [
    "langgraph==1.2.22",
    "langgraph-checkpoint-sqlite==3.1.2",
    "openai-agents==0.24.0",
];

pub(super) fn bench(root: &Path, arguments: &[&str]) -> Result<(), String> {
    if !arguments.is_empty() {
        return Err("usage: cargo xtask bench sessions".to_owned());
    }
    let programs = super::build(root)?;
    let python = match python(root) {
        Ok(python) => Some(python),
        Err(reason) => {
            println!("SKIPPED: the peers: {reason}");
            None
        }
    };
    let python: Vec<_> = python.into_iter().collect();
    super::print_table(root, &programs.bench, "sessions", &python)
}

/// Returns the interpreter of an environment with the packages.
///
/// Makes the environment if it is missing.
fn python(root: &Path) -> Result<PathBuf, String> {
    let folder = super::target(root).join("bench-sessions");
    let python = folder.join("bin/python");
    let stamp = folder.join(PACKAGES.join("+"));
    if stamp.is_file() {
        return Ok(python);
    }
    eprintln!("installs {} …", PACKAGES.join(", "));
    run(Command::new("python3")
        .args(["-m", "venv", "--clear"])
        .arg(&folder))?;
    let install = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
    ];
    run(Command::new(&python).args(install).args(PACKAGES))?;
    std::fs::write(&stamp, "").map_err(|error| format!("{}: {error}", stamp.display()))?;
    Ok(python)
}

fn run(command: &mut Command) -> Result<(), String> {
    let status = command
        .status()
        .map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{command:?} failed"))
    }
}
