//! `cargo xtask bench serve`: latency, streams, memory and rate of a server.

use std::path::Path;
use std::process::Command;

/// The words of `bench serve`, besides `page`.
const WORDS: [&str; 6] = ["short", "saturated", "paced", "rate", "subscribers", "lag"];

pub(super) fn bench(root: &Path, arguments: &[&str]) -> Result<(), String> {
    if arguments == ["page"] {
        return page(root);
    }
    if !arguments.iter().all(|word| WORDS.contains(word)) {
        let words = WORDS.join("|");
        return Err(format!(
            "usage: cargo xtask bench serve [{words}]…, or page"
        ));
    }
    let programs = super::build(root)?;
    let program = programs.logue.display().to_string();
    let words: Vec<&str> = [program.as_str()]
        .iter()
        .chain(arguments)
        .copied()
        .collect();
    super::print_table(root, &programs.bench, "serve", &words)
}

/// The page of the published program in a browser.
fn page(root: &Path) -> Result<(), String> {
    let programs = super::build(root)?;
    let status = Command::new(env!("CARGO"))
        .args([
            "test",
            "--quiet",
            "--package",
            "logue-cli",
            "--test",
            "serve",
        ])
        .args(["--", "--nocapture", "--test-threads=1"])
        .args(["page::long", "page::typing"])
        .env("LOGUE_TESTED_PROGRAM", programs.logue)
        .current_dir(root)
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err("the page failed".to_owned())
    }
}
