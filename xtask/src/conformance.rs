//! `cargo xtask conformance`: readers against a file of cases in JSON lines.
//!
//! The module that runs a case describes its fields.

mod chatmd;
mod harmony;
mod typed;

use std::path::Path;

use serde_json::Value;

pub(crate) fn harmony(file: &Path) -> Result<(), String> {
    run(file, harmony::run)
}

pub(crate) fn chatmd(file: &Path) -> Result<(), String> {
    run(file, chatmd::run)
}

/// Runs every case of the file and prints failures and counts.
fn run(file: &Path, run: impl Fn(&Value) -> Result<(), String>) -> Result<(), String> {
    let text =
        std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let (mut passed, mut failed) = (0, 0);
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let name = |case: &Value| case["name"].as_str().unwrap_or("?").to_owned();
        let result = match serde_json::from_str::<Value>(line) {
            Ok(case) => run(&case).map_err(|why| format!("{}: {why}", name(&case))),
            Err(error) => Err(format!("line {}: {error}", number + 1)),
        };
        match result {
            Ok(()) => passed += 1,
            Err(why) => {
                println!("{why}");
                failed += 1;
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 {
        Ok(())
    } else {
        Err(format!("{}: not every case passed", file.display()))
    }
}

/// Runs the harness against the cases of a folder.
///
/// Prints each failure and the counts.
pub(crate) fn openarmature(folder: &Path) -> Result<(), String> {
    let report = openarmature_runner::run_folder(folder)
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    for line in &report.lines {
        println!("{line}");
    }
    println!("{} passed, {} failed", report.passed, report.failed);
    if report.passed + report.failed == 0 {
        return Err(format!("{}: no cases", folder.display()));
    }
    match report.failed {
        0 => Ok(()),
        failed => Err(format!("{failed} cases failed")),
    }
}

/// Changes every expectation of the cases in a folder and prints the survivors.
pub(crate) fn mutations(folder: &Path) -> Result<(), String> {
    let mutations = openarmature_runner::mutate_folder(folder)
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    for survivor in &mutations.survivors {
        println!("{survivor}");
    }
    for (reason, count) in &mutations.weaker {
        println!("{count} weaken an expectation: {reason}");
    }
    let survivors = mutations.survivors.len();
    println!("{} noticed, {survivors} not noticed", mutations.noticed);
    match (mutations.noticed, survivors) {
        (0, _) => Err(format!("{}: no cases", folder.display())),
        (_, 0) => Ok(()),
        _ => Err(format!("{survivors} changes were not noticed")),
    }
}
