//! Durable chats over a graph of async nodes.
//!
//! | module | contents |
//! |---|---|
//! | [`chat`] | conversations: `send`, streams, signals, subscriptions |
//! | [`store`] | the port through which chats become durable, and a store in memory |
//! | [`sessions`] | state that outlives a run, for graphs of any kind: records, projections, migrations |
//! | [`turns`] | turns of any transport, classified and answered |
//!
//! Errors carry categories as text, which a [`Classifier`] sorts into [`ErrorBucket`]s.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod chat;
mod classification;
mod clock;
pub mod sessions;
pub mod store;
pub mod turns;

pub use classification::{Classifier, DefaultClassifier, ErrorBucket};
pub use clock::{Clock, Timestamp};
pub use logue_graph::BoxFuture;
