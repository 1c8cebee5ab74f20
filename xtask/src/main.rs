//! Chores of this workspace, as `cargo xtask NAME`.
#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line program"
)]

mod bench;
mod conformance;
mod o200k;
mod readme;
mod screenshots;
mod soak;
mod tidy;
mod wasm;
mod wheel;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str =
    "usage: cargo xtask tidy [--prose PATH] | bench [BYTES] | codegen o200k [--check] [ASSET]
                   | bench openchatml|chatmd [--size MB] | bench harness|postgres|sessions|turn
                   | soak [PACKAGE]… | wasm | readme | screenshots [--check]
                   | wheel [--sdist | --musl [SYSROOT]]
                   | conformance --harmony FILE | conformance --chatmd FILE
                   | conformance --openarmature FOLDER [--mutate]
  tidy          crate edges, import cycles, long functions, file sizes, names, prose, packages;
                --prose PATH lists every finding of prose below PATH
  bench         start-up time and parser throughput, each against a baseline of the same run;
                openchatml: every job of the envelope beside a scan or a peer, over 64 MB;
                chatmd: reading transcripts, whole and hostile, and `logue check`;
                harness: what a turn costs, in memory and on disk;
                postgres: the PostgreSQL store beside LangGraph and beside a bare statement;
                sessions: lost messages, repeated effects and rate beside two Python packages;
                turn: what a turn with a tool costs around the model, beside aichat
  codegen       o200k: the table of crates/o200k, from the asset `o200k_base.tiktoken`, which is
                looked for in the sources of the package tiktoken-rs; --check compares instead of
                writing
  conformance   the reader of Harmony or ChatMD against cases in JSON lines;
                openarmature: the harness against every YAML file of cases in a folder;
                --mutate: changes every expectation, which must make its case fail
  readme        the commands of the README and of docs, in their order
  screenshots   the screenshots of docs/terminal.md and of examples, from runs on a real terminal;
                --check compares
  soak          the long tests with their full counts: kills, fencing, simulation, random texts
  wasm          the pure crates, built for wasm32 where that target is installed
  wheel         the Python package openchatml, into target/wheels; needs python3, and maturin from
                its package registry; --sdist: the source distribution, with every crate in it;
                --musl: the wheel for Linux with musl, by zig from the same registry; SYSROOT is an
                installation of Rust that the standard library is built from, where it is missing";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["tidy"] => tidy::tidy(&root(), None),
        ["tidy", "--prose", below] => tidy::tidy(&root(), Some(Path::new(below))),
        ["bench", rest @ ..] => bench::bench(&root(), rest),
        ["conformance", "--harmony", file] => conformance::harmony(Path::new(file)),
        ["conformance", "--chatmd", file] => conformance::chatmd(Path::new(file)),
        ["conformance", "--openarmature", folder] => conformance::openarmature(Path::new(folder)),
        ["conformance", "--openarmature", folder, "--mutate"] => {
            conformance::mutations(Path::new(folder))
        }
        ["soak", packages @ ..] => soak::soak(&root(), packages),
        ["readme"] => readme::readme(&root()),
        ["screenshots", rest @ ..] => screenshots::screenshots(&root(), rest),
        ["wasm"] => wasm::wasm(&root()),
        ["wheel"] => wheel::wheel(&root()),
        ["wheel", "--sdist"] => wheel::sdist(&root()),
        ["wheel", "--musl"] => wheel::musl(&root(), None),
        ["wheel", "--musl", sysroot] => wheel::musl(&root(), Some(sysroot)),
        ["codegen", "o200k", rest @ ..] => o200k::codegen(&root(), rest),
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
