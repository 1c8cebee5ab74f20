//! What a program gives the server: files, what they may reach, and who answers.

use std::path::{Path, PathBuf};

use logue_agent::{Budget, Model, Permissions, Routing, Surroundings};
use logue_tools::BoxFuture;

/// The program that the server is part of.
pub trait Kitchen: Send + Sync {
    /// The files of the prompts, in a stable order. Asked again and again, because files come and go.
    fn files(&self) -> Vec<PathBuf>;

    /// What the prompt in a file may reach, do and cost. Made anew for each call, so that
    /// calls share nothing. Nobody can be asked, so tools that a person would be asked about do not run.
    ///
    /// # Errors
    /// It cannot be set up: why.
    fn surroundings<'a>(&'a self, file: &'a Path) -> BoxFuture<'a, Result<Setting, String>>;

    /// The model for a prompt that names `named`; a path in the name counts from `folder`.
    ///
    /// # Errors
    /// There is no such model, or it cannot be set up: why.
    fn model(&self, named: Option<&str>, folder: &Path) -> Result<Model, String>;
}

/// What one call has around it.
#[derive(Debug)]
pub struct Setting {
    /// What its prompt may reach.
    pub surroundings: Surroundings,
    /// Which of its tools run.
    pub permissions: Permissions,
    /// What it may cost, agents included.
    pub budget: Budget,
}

/// What calls may do and cost.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// How often a model may be asked for one call.
    pub max_requests: usize,
    /// How the tool calls of an answer are run.
    pub routing: Routing,
    /// Calls that run at the same time; others wait.
    pub at_once: usize,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            max_requests: 50,
            routing: Routing::default(),
            at_once: 4,
        }
    }
}
