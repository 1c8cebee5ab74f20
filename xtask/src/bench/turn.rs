//! `cargo xtask bench turn`: what a turn costs around the model, beside another program.

use std::path::{Path, PathBuf};

pub(super) fn bench(root: &Path, arguments: &[&str]) -> Result<(), String> {
    if !arguments.is_empty() {
        return Err("usage: cargo xtask bench turn".to_owned());
    }
    let programs = super::build(root)?;
    let peer = find("aichat", "AICHAT");
    if peer.is_none() {
        println!("aichat is not on the PATH: one shot has no peer (cargo install aichat@0.30.0)");
    }
    let paths: Vec<PathBuf> = std::iter::once(programs.logue).chain(peer).collect();
    super::print_table(root, &programs.bench, "turn", &paths)
}

/// Returns a peer: the program that a variable names, or the one on the PATH.
pub(super) fn find(name: &str, variable: &str) -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(variable) {
        return Some(PathBuf::from(named));
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}
