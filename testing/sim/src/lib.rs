//! A seeded simulator of chats on two nodes with one store and injected failures.
//!
//! All futures run in one thread. At each step one of them, chosen by the seed, is polled once, or a
//! node crashes, or time passes, or a wall clock steps by an hour. The store responds late and fails
//! before or after an operation, commits above all; the provider fails, also after an effect; and the
//! clients deliver every message several times to any running node. The nodes are processes of one
//! machine or of two, with leases by the clocks of these. A seed determines the whole history.
//!
//! A world may have several stores instead, each with its own sessions by the hash of their ids, with
//! leases by the clock of the store, and with crashes that lose its last operations on leases. Nothing
//! of a session is in another store then.
//!
//! The module `laws` checks the invariants: no acknowledged message or signal is lost, no call runs
//! twice, and histories are valid and in order. Each rests on mechanisms of the product. Without one of
//! them, some of the first 400 worlds break the law:
//!
//! | Law | Mechanism |
//! |---|---|
//! | an effect happens once | the epoch that fences a stale owner; the journal of a dead owner; renewal of the lease; guarded calls; the idempotency key |
//! | a call is not repeated under another id | started calls are history after a failure; an answered turn that was given up says its message again |
//! | every message has one final outcome | the idempotency key |
//! | a history needs no repair | results for interrupted calls |
//! | a result has its effect, an effect its result | started calls are history after a failure |
//! | an answer is history | the commit of all messages of a turn |
//! | an accepted signal is not lost | the suspension stays after a failure; the entry stays through an outage; a signal is consumed once |
//! | a turn is given up after three recoveries | recoveries are noted in the journal |
//! | a resumed turn keeps the orders of turns in between | the suspended state is merged with the session |
//! | no lease is taken from a process that keeps it | leases by a monotonic clock, bound to processes; a whole lease is waited for owners of another machine |
//! | nobody waits for a dead process of the same machine | processes are compared before leases |
//! | a world settles | leases of other machines end |
//! | an effect happens once although a store has lost a lease | the owner beside the epoch; the journal before a call |
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod agent;
mod clock;
mod laws;
mod settings;
mod shards;
mod store;
mod world;

pub use settings::{Report, Settings, shrink};
pub use world::run;
