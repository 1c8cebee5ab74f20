//! Prompts for programs that speak the Model Context Protocol.
//!
//! Each prompt of a [`Kitchen`] is offered twice: as a prompt, whose messages the other program takes
//! over, and as a tool that is told an `input` and answers after a run with a history of its own. A
//! [`PromptServer`] holds what is offered, looks for files that come and go, and serves any number of
//! clients: one over standard input and output ([`PromptServer::serve_lines`]), or many over HTTP
//! ([`PromptServer::serve_http`]), each with the token.
//!
//! This crate must not read the environment or print. What a prompt may reach, and which model
//! answers, is the kitchen's to say.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod answer;
mod gate;
mod handler;
mod http;
mod kitchen;
mod menu;
mod server;

pub use http::{HttpOptions, Token};
pub use kitchen::{Kitchen, ServeOptions, Setting};
pub use server::PromptServer;
