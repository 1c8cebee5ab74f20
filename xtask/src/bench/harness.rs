//! `cargo xtask bench harness`: what a turn costs.

use std::path::Path;
use std::process::Command;

use super::cargo;

pub(super) fn bench(root: &Path, arguments: &[&str]) -> Result<(), String> {
    if !arguments.is_empty() {
        return Err("usage: cargo xtask bench harness".to_owned());
    }
    let build = [
        "build",
        "--release",
        "--package",
        "logue-bench",
        "--bin",
        "logue-bench-harness",
    ];
    cargo(root, &build)?;
    let program = super::target(root)
        .join("release")
        .join("logue-bench-harness");
    let status = Command::new(&program).current_dir(root).status();
    let status = status.map_err(|error| format!("{}: {error}", program.display()))?;
    if status.success() {
        Ok(())
    } else {
        Err("the bench failed".to_owned())
    }
}
