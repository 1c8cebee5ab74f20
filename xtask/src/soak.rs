//! `cargo xtask soak`: the long tests with their full counts.

use std::path::Path;
use std::process::Command;

/// Packages whose tests count by `LOGUE_SOAK`, `LOGUE_ROUNDS`, `SIM_WORLDS` or `STORE_TEST_CRASHES`.
const PACKAGES: &[&str] = &[
    "chatmd",
    "cluster",
    "conversion-laws",
    "durability",
    "logue-cli",
    "logue-html",
    "logue-o200k",
    "logue-store",
    "openchatml",
    "sim",
];

/// The full counts, as the variables that the tests read.
const COUNTS: &[(&str, &str)] = &[
    ("LOGUE_SOAK", "1"),
    ("LOGUE_ROUNDS", "1000"),
    ("SIM_WORLDS", "2000"),
    ("STORE_TEST_CRASHES", "500"),
];

/// Runs the tests of the named packages, or of all [`PACKAGES`].
pub(crate) fn soak(root: &Path, named: &[&str]) -> Result<(), String> {
    let packages = if named.is_empty() { PACKAGES } else { named };
    if let Some(unknown) = packages.iter().find(|name| !PACKAGES.contains(name)) {
        return Err(format!(
            "`{unknown}` has no long tests; these have: {}",
            PACKAGES.join(", ")
        ));
    }
    let mut command = Command::new(env!("CARGO"));
    command.args(["test", "--no-fail-fast"]);
    for package in packages {
        command.args(["--package", package]);
    }
    // The counts that tests print are a part of the result.
    command.args(["--", "--show-output"]);
    // A counter that is set already takes precedence.
    for (name, count) in COUNTS {
        if std::env::var_os(name).is_none() {
            command.env(name, count);
        }
    }
    let status = command
        .current_dir(root)
        .status()
        .map_err(|error| format!("cargo test: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err("the soak failed".to_owned())
    }
}
