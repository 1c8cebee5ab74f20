//! Tools that somebody else offers, and that may change while a turn runs.
//!
//! A [`ToolSource`] is one declaration of a prompt that stands for any number of tools. The toolbox
//! asks it before each request to the model what it offers. [`ToolServers`] is where sources come
//! from: this crate's is a client of the Model Context Protocol, behind the feature `mcp`.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::{BoxFuture, Tool};

/// Any number of tools, which may be others for the next request.
pub trait ToolSource: Send + Sync {
    /// What it offers, in a stable order. It asks nobody if it knows it.
    fn tools(&self) -> BoxFuture<'_, Vec<Arc<dyn Tool>>>;

    /// Looks whether something has changed. What cannot be had now stays as it was.
    fn refresh(&self) -> BoxFuture<'_, ()>;

    /// What the name of a tool gets in front of it if another tool has the name already.
    fn prefix(&self) -> &str;
}

/// Finds the server that a declaration names.
pub trait ToolServers: Send + Sync + fmt::Debug {
    /// The tools of a server. One that cannot be reached offers none: that is a warning and no
    /// error, because a turn has to survive it.
    fn source<'a>(
        &'a self,
        wanted: &'a ServerToolRequest,
    ) -> BoxFuture<'a, Result<Arc<dyn ToolSource>, ToolServerError>>;

    /// Ends every connection and every program that was started, within a few seconds.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// What a declaration wants of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerToolRequest {
    /// The server's address as declared.
    pub server: String,
    /// The tools to take; `None` takes all, and empty names mean nothing.
    pub names: Option<Vec<String>>,
    /// Whether the provider shall hold the model to the schemas exactly.
    pub strict: bool,
    /// Where a server that is a command runs.
    pub folder: PathBuf,
    /// The folders that the server is told of if it asks.
    pub roots: Vec<PathBuf>,
}

/// Why a declaration of a server is wrong, by who can correct it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ToolServerErrorKind {
    /// The address is none.
    Address,
    /// Nobody allowed the server's host.
    Denied,
    /// The server does not have a tool of that name.
    NoSuchTool,
}

/// Why a declaration of a server cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolServerError {
    /// The kind of error.
    pub kind: ToolServerErrorKind,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl ToolServerError {
    /// An error without help.
    pub fn new(kind: ToolServerErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            help: None,
        }
    }

    /// The same with what to do about it.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for ToolServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ToolServerError {}
