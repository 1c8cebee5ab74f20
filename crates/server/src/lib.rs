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
//!
//! # Examples
//! ```
//! use std::path::{Path, PathBuf};
//! use std::sync::Arc;
//!
//! use logue_agent::{Approvals, Environment, HostError, Model, Models};
//! use logue_model::Echo;
//! use logue_server::{PromptHost, PromptServer, ServeOptions};
//! use logue_tools::Roots;
//!
//! struct OneModel;
//!
//! impl Models for OneModel {
//!     fn find(&self, _named: Option<&str>, _roots: &Roots) -> Result<Model, HostError> {
//!         Ok(Model::new(Arc::new(Echo), "echo", "echo"))
//!     }
//! }
//!
//! struct Host;
//!
//! impl PromptHost for Host {
//!     fn files(&self) -> Vec<PathBuf> {
//!         vec!["review.md".into()]
//!     }
//!
//!     fn environment(&self, _file: &Path) -> Result<Environment, HostError> {
//!         let mut environment = Environment::new(Arc::new(OneModel));
//!         environment.approvals = Approvals::Never;
//!         Ok(environment)
//!     }
//! }
//!
//! let server = PromptServer::new(Arc::new(Host), &ServeOptions::default());
//! assert_eq!(server.prompts(), []);
//! ```
//!
//! # Features
//! The crate has no optional features.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod auth;
mod call;
mod catalog;
mod chat;
mod gateway;
mod handler;
mod host;
mod http;
mod metrics;
mod server;

pub use chat::{
    AccessToken, AccessTokens, AgentInfo, ChatHost, ChatServer, ChatServerOptions, ClientLimits,
    ExportForm, PromptFault, SessionChat, TokenScope, TraceContext, TraceContexts, TurnAgent,
    TurnFailure, TurnParameters, is_request_label, is_request_record,
};
pub use gateway::{GatewayOptions, GatewayServer, UpstreamReport};
pub use host::{PromptHost, ServeOptions};
pub use http::{BearerToken, HttpOptions};
pub use server::PromptServer;
