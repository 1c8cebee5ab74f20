//! Puts the pages of the error codes into the program.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let folder = Path::new(&root).join("../../docs/errors");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut pages = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        let Some(code) = path.file_stem().and_then(|stem| stem.to_str()) else {
            continue;
        };
        if path.extension().is_some_and(|extension| extension == "md") {
            println!("cargo::rerun-if-changed={}", path.display());
            pages.push((code.to_owned(), path));
        }
    }
    pages.sort();
    let mut table = "&[\n".to_owned();
    for (code, path) in pages {
        let path = path.canonicalize()?;
        let path = path.to_string_lossy();
        // A write to a string does not fail.
        let _ = writeln!(table, "    ({code:?}, include_str!({path:?})),");
    }
    table.push_str("]\n");
    let out = env::var_os("OUT_DIR").unwrap_or_default();
    fs::write(Path::new(&out).join("error_pages.rs"), table)
}
