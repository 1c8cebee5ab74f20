//! `cargo xtask screenshots`: the screenshots of `docs/terminal.md` and of `examples`.

use std::path::Path;
use std::process::Command;

/// Writes the images, or compares them with what the program shows.
///
/// The tests of `logue-cli` contain the runs, since they have the built program and a terminal.
pub(crate) fn screenshots(root: &Path, rest: &[&str]) -> Result<(), String> {
    let mode = match rest {
        [] => "write",
        ["--check"] => "check",
        _ => return Err("usage: cargo xtask screenshots [--check]".to_owned()),
    };
    let status = Command::new(env!("CARGO"))
        .args([
            "test",
            "--package",
            "logue-cli",
            "--test",
            "cli",
            // `example_screenshots::` too.
            "screenshots::",
        ])
        .env("LOGUE_SCREENSHOTS", mode)
        .current_dir(root)
        .status()
        .map_err(|error| format!("cargo test: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err("the screenshots differ or cannot be written".to_owned())
    }
}
