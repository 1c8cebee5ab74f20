//! `cargo xtask bench data dedup`: deduplication of a generated data set.

use std::ffi::OsString;
use std::path::Path;

pub(super) fn bench(root: &Path, arguments: &[&str]) -> Result<(), String> {
    let rows = match arguments {
        [] => None,
        [rows] => Some(*rows),
        _ => return Err("usage: cargo xtask bench data dedup [ROWS]".to_owned()),
    };
    let programs = super::build(root)?;
    let mut table: Vec<OsString> = vec!["dedup".into(), programs.logue.into()];
    table.extend(rows.map(OsString::from));
    super::print_table(root, &programs.bench, "data", &table)
}
