//! A server of the Model Context Protocol whose tools are ChatMD prompts.
//!
//! Each prompt of a [`PromptHost`] is published twice: as a prompt, whose messages the client
//! reads, and as a tool, which receives an `input` and runs with a history of its own. A
//! [`PromptServer`] contains the published prompts, checks for changed files, and serves any number
//! of clients: one over standard input and output ([`PromptServer::serve_lines`]), or many over
//! HTTP ([`PromptServer::serve_http`]) with a token.
//!
//! This crate neither reads the environment nor prints. The host decides on files, models and
//! permissions.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod auth;
mod call;
mod catalog;
mod handler;
mod host;
mod http;
mod server;

pub use host::{PromptHost, ServeOptions};
pub use http::{BearerToken, HttpOptions};
pub use server::PromptServer;
