//! What must hold of sessions in a file, whatever happens to the processes that have them.
//!
//! `LOGUE_ROUNDS` says how much of it to do, `LOGUE_SEED` which history.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests; seeds and counts are shown"
)]

mod duplicates;
mod faults;
mod fencing;
mod killed;
mod laws;
mod player;
mod terminals;
