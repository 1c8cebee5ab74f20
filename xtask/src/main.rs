//! Chores of this workspace, as `cargo xtask NAME`.
#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line program"
)]

mod bench;
mod conformance;
mod edges;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy | bench [BYTES] | conformance --harmony FILE
  tidy    crate edges, file sizes, forbidden names, settings of the pure crates
  bench   start-up time and parser throughput, each against a baseline of the same run
  conformance   the reader of Harmony against cases, one JSON object a line";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["tidy"] => tidy::tidy(&root()),
        ["bench", rest @ ..] => bench::bench(&root(), rest),
        ["conformance", "--harmony", file] => conformance::harmony(Path::new(file)),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// The workspace's folder.
fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}
