//! `cargo xtask bench harness`: what a turn costs.

use std::path::Path;

pub(super) fn bench(root: &Path, arguments: &[&str]) -> Result<(), String> {
    if !arguments.is_empty() {
        return Err("usage: cargo xtask bench harness".to_owned());
    }
    let programs = super::build(root)?;
    super::print_table(root, &programs.bench, "harness", &[] as &[&str])
}
