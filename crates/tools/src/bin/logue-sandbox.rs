//! A launcher of sandboxes for programs that cannot be their own: `Sandbox::with_launcher` takes the
//! path of this executable.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    logue_tools::sandbox::launch()
}
