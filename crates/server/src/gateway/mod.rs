//! A gateway to a gpt-oss model: OpenAI-compatible endpoints before a raw completion endpoint.
//!
//! ```text
//! client ─▶ messages, tools ─▶ Harmony ids ─▶ /v1/completions ─▶ recovering reader ─▶ answer ─▶ client
//! ```
//!
//! Nothing is stored. A request ends when its client leaves, unless it has an idempotency key: its answer
//! is then kept in memory for a while.

mod chat;
mod exchange;
mod keyed;
mod limits;
mod logprobs;
mod messages;
mod metrics;
mod problem;
mod request;
mod responses;
mod routes;
mod server;
mod state;
mod tools;
mod writer;

pub use limits::{GatewayOptions, UpstreamReport};
pub use server::GatewayServer;
