//! `cargo xtask wasm`: that the pure crates build where there is no operating system.

use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "wasm32-unknown-unknown";

/// Packages that promise it, with their features.
const PACKAGES: &[&str] = &[
    "logue-source",
    "logue-message",
    "logue-html",
    "logue-pdf",
    "logue-o200k",
    "openchatml",
    "chatmd",
];

/// Builds the pure crates for wasm32 where that target is installed. It is never required: where
/// it is missing, this says how to get it and succeeds.
pub(crate) fn wasm(root: &Path) -> Result<(), String> {
    if !standard_library(TARGET)?.is_dir() {
        println!(
            "wasm: {TARGET} is not installed, nothing built; `rustup target add {TARGET}` gets it"
        );
        return Ok(());
    }
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--locked", "--target", TARGET]);
    command.args(["--features", "openchatml/o200k"]);
    for package in PACKAGES {
        command.args(["--package", package]);
    }
    let status = command
        .current_dir(root)
        .status()
        .map_err(|error| format!("cargo build: {error}"))?;
    if status.success() {
        println!("wasm: {} build", PACKAGES.join(", "));
        Ok(())
    } else {
        Err(format!("wasm: a pure crate does not build for {TARGET}"))
    }
}

/// Returns the path of a target's standard library, installed or not.
pub(crate) fn standard_library(target: &str) -> Result<PathBuf, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .args(["--print", "target-libdir", "--target", target])
        .output()
        .map_err(|error| format!("rustc: {error}"))?;
    Ok(PathBuf::from(
        String::from_utf8_lossy(&output.stdout).trim(),
    ))
}
