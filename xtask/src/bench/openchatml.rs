//! `cargo xtask bench openchatml`: the table of the envelope, with the peers of `bench/peers`.
//!
//! The peers are a workspace of their own and are built here on demand. Where that fails, for want
//! of a network for example, the table is printed without them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::o200k::find_asset;

pub(super) fn bench(root: &Path, arguments: &[&str]) -> Result<(), String> {
    let megabytes = match arguments {
        [] => None,
        ["--size", megabytes] => Some(*megabytes),
        _ => return Err("usage: cargo xtask bench openchatml [--size MB]".to_owned()),
    };
    let program = match build_peers(root) {
        Ok(program) => program,
        Err(why) => {
            eprintln!("the peers are left out: {why}");
            let bench = super::build(root)?.bench;
            let megabytes: Vec<&str> = megabytes.into_iter().collect();
            return super::print_table(root, &bench, "openchatml", &megabytes);
        }
    };
    let mut command = Command::new(&program);
    command.args(megabytes);
    // The reference implementation would download its vocabulary otherwise.
    if let Some(folder) = find_asset(root).ok().as_deref().and_then(Path::parent) {
        command.env("TIKTOKEN_ENCODINGS_BASE", folder);
    }
    let status = command
        .status()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    if status.success() {
        Ok(())
    } else {
        Err("the bench failed".to_owned())
    }
}

fn build_peers(root: &Path) -> Result<PathBuf, String> {
    let target = super::target(root).join("peers");
    let manifest = root.join("bench/peers/Cargo.toml");
    let arguments = ["build", "--release", "--locked", "--bin", "openchatml"];
    let status = Command::new(env!("CARGO"))
        .args(arguments)
        .arg("--manifest-path")
        .arg(manifest)
        .arg("--target-dir")
        .arg(&target)
        .current_dir(root)
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if status.success() {
        Ok(target.join("release/openchatml"))
    } else {
        Err("they do not build".to_owned())
    }
}
