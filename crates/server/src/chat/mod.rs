//! Chats over HTTP: sessions, events, decisions, and an OpenAI-compatible endpoint.

pub(crate) mod access;
mod ag_ui;
mod agents;
pub(crate) mod api;
mod bodies;
mod branches;
pub(crate) mod completions;
mod events;
mod extract;
pub(crate) mod guard;
mod host;
mod hub;
mod locks;
mod openapi;
mod outcomes;
mod owner;
mod page;
pub(crate) mod problem;
mod public_error;
mod responses;
mod route_table;
mod routes;
mod send;
pub(crate) mod server;
mod sessions;
mod signals;
pub(crate) mod sse;
mod stalled;
mod supervisor;
mod time;
mod turn_events;
mod turns;
mod visible;

pub use access::{AccessToken, AccessTokens, TokenScope};
pub use host::{AgentInfo, ChatHost, ExportForm, SessionChat};
pub use server::{ChatServer, ChatServerOptions};
