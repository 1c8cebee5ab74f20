//! Clusters of real servers on one database.
#![cfg(unix)]
#![expect(
    clippy::print_stdout,
    reason = "seeds and figures are part of the result"
)]
#![expect(
    clippy::unwrap_used,
    reason = "a trial that cannot be carried out fails its test"
)]

mod chaos;
mod database;
mod fencing;
mod following;
mod latency;
mod pieces;
mod trial;
