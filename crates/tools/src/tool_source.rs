//! Tools of other programs, which may change during a turn.
//!
//! A [`ToolSource`] is one declaration of a prompt that provides any number of tools. The toolbox
//! lists them before each model request. [`ToolServers`] creates sources; the feature `mcp`
//! provides an implementation for the Model Context Protocol.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{BoxFuture, Roots, Tool};

/// A provider of tools that may change between model requests.
pub trait ToolSource: Send + Sync {
    /// Returns the tools in a stable order, from memory if they are known.
    fn tools(&self) -> BoxFuture<'_, Vec<Arc<dyn Tool>>>;

    /// Updates the tools. Tools that are unavailable at the moment keep their last definition.
    fn refresh(&self) -> BoxFuture<'_, ()>;

    /// Returns the prefix for tools whose name is taken.
    fn prefix(&self) -> &str;
}

/// Finds the server that a declaration names.
pub trait ToolServers: Send + Sync + fmt::Debug {
    /// Returns the tools of a server.
    ///
    /// An unreachable server offers no tools, with a warning: a turn must survive it.
    fn source<'a>(
        &'a self,
        wanted: &'a ServerToolRequest,
    ) -> BoxFuture<'a, Result<Arc<dyn ToolSource>, ToolServerError>>;

    /// Closes every connection and ends every started program within a few seconds.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// A declaration of a server and the tools to use.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ServerToolRequest {
    /// The address of the server as declared.
    pub server: String,
    /// The names of the tools to use; `None` uses all. Empty names are ignored.
    pub names: Option<Vec<String>>,
    /// Whether the provider enforces the schemas strictly.
    pub strict: bool,
    /// The working directory of a server that is a command.
    pub folder: PathBuf,
    /// The directories reported to the server on request.
    ///
    /// A server that is a command can read and write them.
    pub roots: Roots,
    /// The access that the user grants to a server that is a command.
    pub access: ServerAccess,
}

/// The access of a server that is a command, beyond that of other commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServerAccess {
    /// Whether it can use the network.
    pub network: bool,
    /// Whether its `HOME` is a directory of its own that is kept between runs.
    pub cache: bool,
}

impl ServerAccess {
    /// Sets whether the server can use the network.
    #[must_use]
    pub const fn with_network(mut self, network: bool) -> Self {
        self.network = network;
        self
    }

    /// Sets whether the server has a directory that is kept between runs.
    #[must_use]
    pub const fn with_cache(mut self, cache: bool) -> Self {
        self.cache = cache;
        self
    }
}

impl ServerToolRequest {
    /// Creates a request for all tools of `server`.
    ///
    /// A server that is a command runs in `folder`. The request reports no directories.
    pub fn new(server: impl Into<String>, folder: impl Into<PathBuf>) -> Self {
        Self {
            server: server.into(),
            names: None,
            strict: false,
            folder: folder.into(),
            roots: Roots::default(),
            access: ServerAccess::default(),
        }
    }

    /// Sets the names of the tools to use; `None` uses all.
    #[must_use]
    pub fn with_names(mut self, names: impl Into<Option<Vec<String>>>) -> Self {
        self.names = names.into();
        self
    }

    /// Sets whether the provider enforces the schemas strictly.
    #[must_use]
    pub const fn with_strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// Sets the directories reported to the server; a command can read and write them.
    #[must_use]
    pub fn with_roots(mut self, roots: Roots) -> Self {
        self.roots = roots;
        self
    }

    /// Sets the access that the user grants to a server that is a command.
    #[must_use]
    pub const fn with_access(mut self, access: ServerAccess) -> Self {
        self.access = access;
        self
    }
}

/// The kind of error in a declaration of a server, by remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ToolServerErrorKind {
    /// The address is invalid.
    Address,
    /// The host of the server is not allowed.
    Denied,
    /// The server does not have a tool of that name.
    NoSuchTool,
}

/// An error in a declaration of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolServerError {
    /// The kind of error.
    pub kind: ToolServerErrorKind,
    /// The description of the error.
    pub message: String,
    /// The remedy.
    pub help: Option<String>,
}

impl ToolServerError {
    /// Creates an error without a remedy.
    pub fn new(kind: ToolServerErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            help: None,
        }
    }

    /// Sets the remedy.
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
