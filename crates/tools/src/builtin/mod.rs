//! The tools that come with Logue. Each reaches what the [`AccessScope`] of its run holds and nothing else.

mod append_to_file;
mod apply_patch;
mod arguments;
mod browser;
mod file_edit;
mod find_and_replace;
mod python;
mod read_directory;
mod read_file;
mod search;
mod webpage_to_markdown;
mod write_file;

use std::sync::Arc;

pub use append_to_file::AppendToFile;
pub use apply_patch::ApplyPatch;
pub(crate) use browser::Pages;
pub use browser::{BrowserFind, BrowserOpen, BrowserSearch, ResultFields, SearchEngine};
pub use find_and_replace::FindAndReplace;
pub use python::Python;
pub use read_directory::ReadDirectory;
pub use read_file::ReadFile;
pub use search::{Search, SearchLimits};
pub use webpage_to_markdown::WebpageToMarkdown;
pub use write_file::WriteFile;

use crate::{AccessScope, BoxFuture, Tool, ToolResult};

/// A built-in tool, by the names that a prompt may declare it with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Builtin {
    /// `read_file`, also `get_contents`.
    ReadFile,
    /// `read_dir`; the model calls it `read_directory`.
    ReadDirectory,
    /// `append_to_file`.
    AppendToFile,
    /// `find_and_replace`.
    FindAndReplace,
    /// `apply_patch`.
    ApplyPatch,
    /// `webpage_to_markdown`.
    WebpageToMarkdown,
    /// `python`.
    Python,
    /// `search`.
    Search,
    /// `write_file`.
    WriteFile,
    /// `browser.search`.
    BrowserSearch,
    /// `browser.open`.
    BrowserOpen,
    /// `browser.find`.
    BrowserFind,
}

/// What a built-in can do at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum BuiltinPower {
    /// It reads files below the roots.
    Reads,
    /// It asks hosts that the user allowed, so what it is told can get out.
    Network,
    /// It changes files below the roots.
    Writes,
    /// It runs programs that the model writes, in a sandbox.
    Runs,
}

impl Builtin {
    /// What it can do at most.
    pub fn power(self) -> BuiltinPower {
        match self {
            Self::ReadFile | Self::ReadDirectory | Self::Search => BuiltinPower::Reads,
            Self::WebpageToMarkdown
            | Self::BrowserSearch
            | Self::BrowserOpen
            | Self::BrowserFind => BuiltinPower::Network,
            Self::AppendToFile | Self::FindAndReplace | Self::ApplyPatch | Self::WriteFile => {
                BuiltinPower::Writes
            }
            Self::Python => BuiltinPower::Runs,
        }
    }

    /// The built-in that a name stands for, if it is a single one.
    pub fn declared(name: &str) -> Option<Self> {
        Some(match name {
            "read_file" | "get_contents" => Self::ReadFile,
            "read_dir" | "read_directory" => Self::ReadDirectory,
            "append_to_file" => Self::AppendToFile,
            "find_and_replace" => Self::FindAndReplace,
            "apply_patch" => Self::ApplyPatch,
            "webpage_to_markdown" => Self::WebpageToMarkdown,
            "python" => Self::Python,
            "search" => Self::Search,
            "write_file" => Self::WriteFile,
            "browser.search" => Self::BrowserSearch,
            "browser.open" => Self::BrowserOpen,
            "browser.find" => Self::BrowserFind,
            _ => return None,
        })
    }

    /// The built-ins that a list of names stands for, each once and in the order of the list. A
    /// namespace (OpenChatML 2.2 §8.3) stands for everything in it.
    ///
    /// # Errors
    /// The first name that is no built-in's.
    pub fn by_names<S: AsRef<str>>(names: &[S]) -> Result<Vec<Self>, UnknownBuiltin> {
        let mut found = Vec::new();
        for name in names {
            let name = name.as_ref();
            let meant = Self::named(name).ok_or_else(|| UnknownBuiltin(name.to_owned()))?;
            for builtin in meant {
                if !found.contains(&builtin) {
                    found.push(builtin);
                }
            }
        }
        Ok(found)
    }

    /// The built-ins that a name stands for: one, or all of a namespace, which `browser` is.
    pub fn named(name: &str) -> Option<Vec<Self>> {
        match name {
            "browser" => Some(vec![
                Self::BrowserSearch,
                Self::BrowserOpen,
                Self::BrowserFind,
            ]),
            name => Self::declared(name).map(|builtin| vec![builtin]),
        }
    }

    /// The tool, confined to `reach`.
    pub fn tool(self, scope: &AccessScope) -> Arc<dyn Tool> {
        let roots = || Arc::clone(&scope.roots);
        match self {
            Self::ReadFile => Arc::new(ReadFile::new(roots())),
            Self::ReadDirectory => Arc::new(ReadDirectory::new(roots())),
            Self::AppendToFile => Arc::new(AppendToFile::new(scope.clone())),
            Self::FindAndReplace => Arc::new(FindAndReplace::new(scope.clone())),
            Self::ApplyPatch => Arc::new(ApplyPatch::new(scope.clone())),
            Self::Search => Arc::new(Search::new(roots())),
            Self::WriteFile => Arc::new(WriteFile::new(scope.clone())),
            Self::BrowserSearch => Arc::new(BrowserSearch::new(scope.clone())),
            Self::BrowserOpen => Arc::new(BrowserOpen::new(scope.clone())),
            Self::BrowserFind => Arc::new(BrowserFind::new(scope.clone())),
            Self::WebpageToMarkdown => Arc::new(WebpageToMarkdown::new(scope.network.clone())),
            Self::Python => Arc::new(Python::new(&scope.roots, scope.python.clone())),
        }
    }
}

/// A name that no built-in has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownBuiltin(pub String);

impl std::fmt::Display for UnknownBuiltin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "there is no built-in tool `{}`", self.0)
    }
}

impl std::error::Error for UnknownBuiltin {}

/// Runs what waits for the disk where it keeps nobody waiting. What the call says is the outcome.
fn blocking(
    work: impl FnOnce() -> Result<String, String> + Send + 'static,
) -> BoxFuture<'static, ToolResult> {
    Box::pin(async move {
        match tokio::task::spawn_blocking(work).await {
            Ok(Ok(text)) => ToolResult::success(text),
            Ok(Err(why)) => ToolResult::failure(why),
            Err(error) => ToolResult::failure(format!("the files could not be reached: {error}")),
        }
    })
}
