//! The public interface of the crate: one file for each promise.
#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod buckets;
mod chat;
mod memory_store;
mod migrations;
mod session_stores;
