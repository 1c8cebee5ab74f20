//! `cargo xtask bench serve`: latency, streams, memory and rate of a server.

use std::path::Path;

pub(super) fn bench(root: &Path, arguments: &[&str]) -> Result<(), String> {
    if !matches!(arguments, [] | ["short"]) {
        return Err("usage: cargo xtask bench serve [short]".to_owned());
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
