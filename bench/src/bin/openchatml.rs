//! The table without peers: `logue-bench-openchatml [MB]`.
#![deny(unsafe_code)]
#![expect(clippy::print_stderr, reason = "a command-line program")]

#[path = "../counting.rs"]
mod counting;

use std::process::ExitCode;

use logue_bench::Peers;

#[global_allocator]
static HEAP: counting::Counting = counting::Counting;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(megabytes) = logue_bench::openchatml::size(&arguments) else {
        eprintln!("usage: logue-bench-openchatml [MB]");
        return ExitCode::from(2);
    };
    logue_bench::openchatml::run(megabytes, &Peers::default(), counting::count);
    ExitCode::SUCCESS
}
