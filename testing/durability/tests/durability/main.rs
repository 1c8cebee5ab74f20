//! Invariants of sessions in a file under failures of their processes.
//!
//! `LOGUE_ROUNDS` sets the number of rounds, `LOGUE_SEED` the history.
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
mod listening;
mod player;
mod terminals;
