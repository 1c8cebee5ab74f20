//! Environments of Python with the packages of peers.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the interpreter of an environment with packages, given as arguments of `pip install`.
///
/// Makes the environment if it is missing or has other packages.
///
/// # Errors
/// Returns the reason that there is none.
pub(super) fn environment(
    root: &Path,
    name: &str,
    packages: &[&str],
    identity: &str,
) -> Result<PathBuf, String> {
    let folder = super::target(root).join(name);
    let python = folder.join("bin/python");
    let stamp = folder.join("packages");
    if std::fs::read_to_string(&stamp).is_ok_and(|stamp| stamp == identity) {
        return Ok(python);
    }
    eprintln!("installs {} …", packages.join(" "));
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
    run(Command::new(&python)
        .args(install)
        .args(packages)
        .current_dir(root))?;
    std::fs::write(&stamp, identity).map_err(|error| format!("{}: {error}", stamp.display()))?;
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
