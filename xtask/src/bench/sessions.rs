//! `cargo xtask bench sessions`: stored sessions beside those of two Python packages.

use std::path::Path;

/// The packages of `bench/peers/sessions`.
const PACKAGES: [&str; 3] = [
    "langgraph==1.2.22",
    "langgraph-checkpoint-sqlite==3.1.2",
    "openai-agents==0.24.0",
];

pub(super) fn bench(root: &Path, arguments: &[&str]) -> Result<(), String> {
    if !arguments.is_empty() {
        return Err("usage: cargo xtask bench sessions".to_owned());
    }
    let programs = super::build(root)?;
    let identity = PACKAGES.join(" ");
    let python = match super::python::environment(root, "bench-sessions", &PACKAGES, &identity) {
        Ok(python) => Some(python),
        Err(reason) => {
            println!("SKIPPED: the peers: {reason}");
            None
        }
    };
    let python: Vec<_> = python.into_iter().collect();
    super::print_table(root, &programs.bench, "sessions", &python)
}
