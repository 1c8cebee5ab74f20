//! A seeded simulator: chats on two nodes over one store, in a world where everything goes wrong.
//!
//! All futures run in one thread. At each step one of them, chosen by the seed, is polled once, or a
//! node crashes, or time passes. The store answers late, fails before or after it did its work, and
//! the clients deliver everything several times to whichever node is up. So a seed is a whole history,
//! and the same seed is the same history.
//!
//! What must hold whatever happened is in `laws`: no acknowledged message or signal is
//! lost, nothing runs twice, histories are valid and in order.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod clock;
mod laws;
mod store;
mod world;

pub use world::{Report, Settings, run, shrink};
