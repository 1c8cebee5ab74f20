//! The tools that come with Logue. Each reads below the roots of its run and nowhere else.

mod read_directory;
mod read_file;

use std::sync::Arc;

pub use read_directory::ReadDirectory;
pub use read_file::ReadFile;

use crate::{Roots, Tool};

/// A built-in tool, by the names that a prompt may declare it with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Builtin {
    /// `read_file`, also `get_contents`.
    ReadFile,
    /// `read_dir`; the model calls it `read_directory`.
    ReadDirectory,
}

impl Builtin {
    /// The built-in that a declaration names.
    pub fn declared(name: &str) -> Option<Self> {
        Some(match name {
            "read_file" | "get_contents" => Self::ReadFile,
            "read_dir" | "read_directory" => Self::ReadDirectory,
            _ => return None,
        })
    }

    /// The tool, confined to `roots`.
    pub fn tool(self, roots: Arc<Roots>) -> Arc<dyn Tool> {
        match self {
            Self::ReadFile => Arc::new(ReadFile::new(roots)),
            Self::ReadDirectory => Arc::new(ReadDirectory::new(roots)),
        }
    }
}
