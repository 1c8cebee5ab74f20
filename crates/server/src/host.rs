//! The port through which the server reaches its program.

use std::path::{Path, PathBuf};

use logue_agent::{Environment, HostError};

/// The program that a server is part of.
pub trait PromptHost: Send + Sync {
    /// Returns the files of the prompts, in a stable order. Called repeatedly, because files appear
    /// and disappear.
    fn files(&self) -> Vec<PathBuf>;

    /// Builds the environment of one call of the prompt in a file.
    ///
    /// Calls share nothing, so every call has a budget and connections of its own. Approvals are
    /// never requested: set [`Approvals::Never`](logue_agent::Approvals::Never).
    ///
    /// # Errors
    /// Returns an error if the environment cannot be built.
    fn environment(&self, file: &Path) -> Result<Environment, HostError>;
}

/// Limits of a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServeOptions {
    /// The number of calls that run at the same time; others wait.
    pub concurrency: usize,
}

impl ServeOptions {
    /// Sets the number of calls that run at the same time.
    #[must_use]
    pub fn with_concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency;
        self
    }
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self { concurrency: 4 }
    }
}
