//! `cargo xtask bench turn`: what a turn costs around the model, beside another program.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::cargo;

pub(super) fn bench(root: &Path, arguments: &[&str]) -> Result<(), String> {
    if !arguments.is_empty() {
        return Err("usage: cargo xtask bench turn".to_owned());
    }
    let build = [
        "build",
        "--release",
        "--package",
        "logue-cli",
        "--package",
        "logue-bench",
        "--bin",
        "logue",
        "--bin",
        "logue-bench-turn",
    ];
    cargo(root, &build)?;
    let folder = super::target(root).join("release");
    let program = folder.join("logue-bench-turn");
    let peer = peer();
    if peer.is_none() {
        println!("aichat is not on the PATH: one shot has no peer (cargo install aichat@0.30.0)");
    }
    let status = Command::new(&program)
        .arg(folder.join("logue"))
        .args(peer)
        .current_dir(root)
        .status()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    if status.success() {
        Ok(())
    } else {
        Err("the bench failed".to_owned())
    }
}

/// The other program: the variable `AICHAT`, or what the PATH has.
fn peer() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("AICHAT") {
        return Some(PathBuf::from(named));
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .map(|folder| folder.join("aichat"))
        .find(|path| path.is_file())
}
