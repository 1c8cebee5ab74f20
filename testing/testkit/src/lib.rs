//! A scripted model server over a real socket.
//!
//! [`ModelServer`] implements Chat Completions and raw completions ([`Completion`]) over HTTP/1.1 with
//! chunked transfer and server-sent events. A test supplies the replies and the [`Delivery`], runs
//! client code against [`ModelServer::base_url`], and inspects the received requests. [`Reply`] lists
//! the possible failures, and a [`StallingServer`] stalls.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod answer;
mod completion;
mod gate;
mod impostor;
pub mod mcp;
#[cfg(unix)]
pub mod postgres;
mod random;
#[cfg(unix)]
mod relay;
mod server;
pub mod soak;
mod stalling;
mod tls;

pub use answer::{Answer, end_of_stream, text_delta};
pub use completion::{Completion, Wire};
pub use gate::Gate;
pub use impostor::Impostor;
pub use random::Random;
#[cfg(unix)]
pub use relay::{Relay, RelayFaults};
pub use server::{Delivery, ModelServer, Received, Reply};
pub use stalling::{Stall, StallingServer};
pub use tls::certificate;
