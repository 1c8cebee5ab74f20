//! The table of ChatMD: `logue-bench-chatmd [MB]`; `--session BYTES` prints a transcript instead.
#![deny(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line program"
)]

#[path = "../counting.rs"]
mod counting;

use std::process::ExitCode;

use logue_bench::chatmd;

#[global_allocator]
static HEAP: counting::Counting = counting::Counting;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, bytes] = arguments.as_slice()
        && flag == "--session"
        && let Ok(bytes) = bytes.parse()
    {
        print!("{}", chatmd::session(bytes));
        return ExitCode::SUCCESS;
    }
    let Some(megabytes) = chatmd::size(&arguments) else {
        eprintln!("usage: logue-bench-chatmd [MB] | --session BYTES");
        return ExitCode::from(2);
    };
    chatmd::run(megabytes, counting::count);
    ExitCode::SUCCESS
}
