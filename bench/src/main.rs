//! The tables of `cargo xtask bench`: `logue-bench TABLE [ARGUMENT…]`.
//!
//! All tables are one program, so that one build serves every bench.
#![deny(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line program"
)]

mod counting;
mod dedup;
mod generate;
mod harness;
mod parse;
mod postgres;
mod serve;
mod sessions;
mod stream;
mod turn;

use std::path::Path;
use std::process::ExitCode;

use logue_bench::{Peers, chatmd, data, openchatml};

const USAGE: &str =
    "usage: logue-bench parse [BYTES] | openchatml [MB] | chatmd [MB] | data mask [MB]
                 | session BYTES | harness [memory] | sessions [PYTHON]
                 | postgres PART [PYTHON] | serve LOGUE [short] [PART…] | turn LOGUE [AICHAT]
                 | stream LOGUE [AICHAT|- [LLM|-]]
                 | data dedup LOGUE [ROWS]";

/// Bytes of each generated text where none are given.
const DEFAULT_BYTES: usize = 32 * 1024 * 1024;

/// Rows of a generated data set where none are given.
const DEFAULT_ROWS: usize = 100_000;

#[global_allocator]
static HEAP: counting::Counting = counting::Counting;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["parse"] => {
            parse::table(DEFAULT_BYTES);
            Ok(())
        }
        ["parse", bytes] => match bytes.parse() {
            Ok(bytes) if bytes > 0 => {
                parse::table(bytes);
                Ok(())
            }
            _ => return usage(),
        },
        ["openchatml", ..] => match openchatml::size(&arguments[1..]) {
            Some(megabytes) => {
                openchatml::run(megabytes, &Peers::default(), counting::count);
                Ok(())
            }
            None => return usage(),
        },
        ["chatmd", ..] => match chatmd::size(&arguments[1..]) {
            Some(megabytes) => {
                chatmd::run(megabytes, counting::count);
                Ok(())
            }
            None => return usage(),
        },
        ["data", "mask", ..] => match data::size(&arguments[2..]) {
            Some(megabytes) => {
                data::mask(megabytes);
                Ok(())
            }
            None => return usage(),
        },
        ["session", bytes] => match bytes.parse() {
            Ok(bytes) => {
                print!("{}", chatmd::session(bytes));
                Ok(())
            }
            Err(_) => return usage(),
        },
        ["harness"] => harness::run(false),
        ["harness", "memory"] => harness::run(true),
        ["sessions"] => sessions::table(None),
        ["sessions", python] => sessions::table(Some(Path::new(python))),
        ["sessions-player", action @ ..] => sessions::player::run(action),
        ["postgres", part] => postgres::table(part, None),
        ["postgres", part, python] => postgres::table(part, Some(Path::new(python))),
        ["postgres-player", action @ ..] => postgres::player::run(action),
        ["serve", program, parts @ ..] => match serve::table(Path::new(program), parts) {
            Some(result) => result,
            None => return usage(),
        },
        ["data", "dedup", program] => dedup::table(Path::new(program), DEFAULT_ROWS),
        ["data", "dedup", program, rows] => match rows.parse() {
            Ok(rows) => dedup::table(Path::new(program), rows),
            Err(_) => return usage(),
        },
        ["turn", program] => turn::table(Path::new(program), None),
        ["turn", program, peer] => turn::table(Path::new(program), Some(Path::new(peer))),
        ["stream", program, peers @ ..] => {
            let peer = |number: usize| peers.get(number).filter(|path| **path != "-");
            let peer = |number| peer(number).map(std::path::PathBuf::from);
            stream::table(Path::new(program), peer(0), peer(1))
        }
        _ => return usage(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}
