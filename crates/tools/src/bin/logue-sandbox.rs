//! The sandbox launcher as a separate program.
//!
//! `Sandbox::with_launcher` accepts the path of this executable, for programs that cannot be their
//! own launcher.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    logue_tools::sandbox::launch()
}
