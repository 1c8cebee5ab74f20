//! Servers on one PostgreSQL database of which everything fails at random.
//!
//! A [`Cluster`] is a private database and several `logue serve` processes, each with a relay of its own
//! in between. A [`Load`] sends messages to them, decides about calls and follows the events, over every
//! failure. [`Chaos`] causes the failures. `facts` compares what was acknowledged with what the database,
//! the listeners and the files of the tool contain.
#![cfg(unix)]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod chaos;
mod client;
mod clock;
mod cluster;
mod facts;
mod hold;
mod http;
mod listener;
mod load;
mod model;
mod mutation;
mod node;
mod record;

pub use chaos::Chaos;
pub use clock::clock_library;
pub use cluster::{Cluster, ClusterSettings};
pub use facts::{Figures, check};
pub use hold::HeldAnswers;
pub use http::{Answer, Event, EventStream, Received, events, request, send_stream};
pub use load::{Load, LoadSettings};
pub use mutation::Mutation;
pub use node::Node;
pub use record::{Record, Refusal};
