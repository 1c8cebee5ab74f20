//! A scripted model server over a real socket.
//!
//! It speaks the Chat Completions wire format as servers do: HTTP/1.1, chunked transfer, server-
//! sent events with deltas; and that of raw completions ([`Completion`]). A test gives it the answers and the [`Delivery`], runs real client code
//! against [`ModelServer::base_url`], and asks afterwards which requests came. It also misbehaves on
//! demand: [`Reply`] lists how. A [`StallingServer`] does nothing else.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod answer;
mod completion;
pub mod mcp;
mod random;
mod server;
pub mod soak;
mod stalling;

pub use answer::Answer;
pub use completion::{Completion, Wire};
pub use random::Random;
pub use server::{Delivery, ModelServer, Received, Reply};
pub use stalling::{Stall, StallingServer};
