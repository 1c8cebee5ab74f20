//! A seeded simulator of chats on two nodes with one store and injected failures.
//!
//! All futures run in one thread. At each step one of them, chosen by the seed, is polled once, or a
//! node crashes, or time passes, or a wall clock steps by an hour. The store responds late and fails
//! before or after an operation, commits above all; the provider fails, also after an effect; and the
//! clients deliver every message several times to any running node. The nodes are processes of one
//! machine or of two, with leases by the clocks of these. A seed determines the whole history.
//!
//! The module `laws` checks the invariants: no acknowledged message or signal is lost, no call runs
//! twice, and histories are valid and in order.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod agent;
mod clock;
mod laws;
mod settings;
mod store;
mod world;

pub use settings::{Report, Settings, shrink};
pub use world::run;
