//! The servers and the relay that tests start.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests")]

mod access;
mod failures;
mod lifetime;
mod pgbouncer;
mod relay;
mod replica;
mod waiting;
