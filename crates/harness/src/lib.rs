//! Durable chats over a graph of async nodes.
//!
//! ```
//! use std::sync::Arc;
//!
//! use logue_graph::{CountingIds, END, GraphBuilder, List, StateSchema, Update};
//! use logue_harness::chat::{ChatHarness, ChatTurnOutcome, messages_field};
//! use logue_harness::store::MemoryStore;
//! use logue_harness::{RandomIds, SystemClock};
//! use logue_message::ChatMessage;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let graph = GraphBuilder::new(StateSchema::new().with(messages_field()))
//!     .add_node_fn("count", |ctx| async move {
//!         let messages = ctx.state().list_of::<ChatMessage>("messages");
//!         let reply = format!("message {}", messages.map_or(0, List::len));
//!         Ok(Update::new().with("messages", vec![ChatMessage::assistant(reply)]))
//!     })
//!     .entry("count")
//!     .add_edge("count", END)
//!     .compile(CountingIds::new())?;
//!
//! let store = Arc::new(MemoryStore::new());
//! let chat = ChatHarness::new(graph, store, Arc::new(SystemClock), Arc::new(RandomIds))?;
//! for expected in ["message 1", "message 3"] {
//!     match chat.send("session-1", ChatMessage::user("hello")).await {
//!         ChatTurnOutcome::Completed(turn) => assert_eq!(turn.replies[0].text(), expected),
//!         other => return Err(format!("{other:?}").into()),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Modules
//!
//! | module | contents |
//! |---|---|
//! | [`chat`] | conversations: `send`, streams, signals, subscriptions |
//! | [`events`] | the log of what happens in sessions, for clients that reconnect |
//! | [`store`] | the port through which chats become durable, and a store in memory |
//! | [`sessions`] | state that outlives a run, for graphs of any kind: records, projections, migrations |
//! | [`turns`] | turns of any transport, classified and answered |
//!
//! The program `logue` uses [`chat`] and [`store`]. [`sessions`] and [`turns`] are the other two layers of
//! the `OpenArmature` harness contract, for graphs that are not chats and for transports without a store of
//! messages. A chat does not run on them; the conformance cases of the contract do.
//!
//! # Features
//!
//! - `system` (default): [`SystemClock`] and [`RandomIds`].
//!
//! # Errors
//!
//! Errors carry categories as text, which a [`Classifier`] sorts into [`ErrorBucket`]s.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod chat;
mod classification;
mod clock;
pub mod events;
#[cfg(feature = "system")]
mod machine;
mod resumption;
pub mod sessions;
pub mod store;
#[cfg(feature = "system")]
mod system;
pub mod turns;

pub use classification::{Classifier, DefaultClassifier, ErrorBucket};
pub use clock::{Clock, Timestamp};
pub use logue_graph::BoxFuture;
#[cfg(feature = "system")]
pub use system::{RandomIds, SystemClock};
