//! A seeded simulator of chats on two nodes with one store and injected failures.
//!
//! All futures run in one thread. At each step one of them, chosen by the seed, is polled once, or a
//! node crashes, or time passes. The store responds late and fails before or after an operation, and
//! the clients deliver every message several times to any running node. A seed determines the whole
//! history.
//!
//! The module `laws` checks the invariants: no acknowledged message or signal is lost, no call runs
//! twice, and histories are valid and in order.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod clock;
mod laws;
mod store;
mod world;

pub use world::{Report, Settings, run, shrink};
