//! Chats over HTTP: sessions, events, decisions, and an OpenAI-compatible endpoint.

mod access;
mod ag_ui;
mod agents;
mod api;
mod branches;
mod completions;
mod events;
mod extract;
mod guard;
mod host;
mod hub;
mod openapi;
mod outcomes;
mod problem;
mod public_error;
mod route_table;
mod routes;
mod send;
mod server;
mod sessions;
mod signals;
mod sse;
mod supervisor;
mod time;
mod turn_events;
mod turns;
mod visible;

pub use access::{AccessToken, AccessTokens, TokenScope};
pub use host::{AgentInfo, ChatHost, SessionChat};
pub use server::{ChatServer, ChatServerOptions};
