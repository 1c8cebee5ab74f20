//! The built-in tools, each confined to the [`AccessScope`] of its run.

mod append_to_file;
mod apply_patch;
mod arguments;
mod blocking;
mod browser;
mod file_edit;
mod find_and_replace;
mod fork;
mod import_image;
mod python;
mod read_directory;
mod read_file;
mod rooted;
mod search;
mod webpage_to_markdown;
mod write_file;

use std::sync::Arc;

use logue_message::{Arguments, ToolDefinition};
use rooted::{add_root_parameter, rooted, without_root};

pub(crate) use browser::Pages;
pub use browser::{BrowserFind, BrowserOpen, BrowserSearch, ResultFields, SearchEngine};
pub use import_image::ImportImage;
pub use python::Python;
pub use read_directory::ReadDirectory;
pub use read_file::ReadFile;
pub use search::{Search, SearchLimits};
pub use webpage_to_markdown::WebpageToMarkdown;

use crate::{AccessScope, Roots, Tool};

/// A built-in tool; the variants list the names that a prompt declares it by.
///
/// The table of the ChatMD language (`chatmd::BUILTINS`) contains the same names, because that crate
/// checks documents without tools; a test of the program compares both. A new tool is a variant with
/// its names, its power and its file, a row in that table and a section in `docs/tools.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Builtin {
    /// `read_file`, also `get_contents`.
    ReadFile,
    /// `read_dir`, also `read_directory`, which is the name for the model.
    ReadDirectory,
    /// `import_image`.
    ImportImage,
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
    /// `fork`, which a turn runs.
    Fork,
}

/// The greatest effect that a built-in tool can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum BuiltinPower {
    /// Reads files below the roots.
    Reads,
    /// Asks the model, on the budget of the run.
    Asks,
    /// Sends requests to allowed hosts, so its arguments can leave the machine.
    Network,
    /// Changes files below the roots.
    Writes,
    /// Runs programs written by the model, in a sandbox.
    Runs,
}

impl Builtin {
    /// All built-in tools.
    pub const ALL: &'static [Self] = &[
        Self::ReadFile,
        Self::ReadDirectory,
        Self::ImportImage,
        Self::AppendToFile,
        Self::FindAndReplace,
        Self::ApplyPatch,
        Self::WebpageToMarkdown,
        Self::Python,
        Self::Search,
        Self::WriteFile,
        Self::BrowserSearch,
        Self::BrowserOpen,
        Self::BrowserFind,
        Self::Fork,
    ];

    /// Returns the names by which a prompt declares the tool.
    pub const fn names(self) -> &'static [&'static str] {
        match self {
            Self::ReadFile => &["read_file", "get_contents"],
            Self::ReadDirectory => &["read_dir", "read_directory"],
            Self::ImportImage => &["import_image"],
            Self::AppendToFile => &["append_to_file"],
            Self::FindAndReplace => &["find_and_replace"],
            Self::ApplyPatch => &["apply_patch"],
            Self::WebpageToMarkdown => &["webpage_to_markdown"],
            Self::Python => &["python"],
            Self::Search => &["search"],
            Self::WriteFile => &["write_file"],
            Self::BrowserSearch => &["browser.search"],
            Self::BrowserOpen => &["browser.open"],
            Self::BrowserFind => &["browser.find"],
            Self::Fork => &["fork"],
        }
    }

    /// Returns the greatest effect that the tool can have.
    pub fn power(self) -> BuiltinPower {
        match self {
            Self::ReadFile | Self::ReadDirectory | Self::ImportImage | Self::Search => {
                BuiltinPower::Reads
            }
            Self::WebpageToMarkdown
            | Self::BrowserSearch
            | Self::BrowserOpen
            | Self::BrowserFind => BuiltinPower::Network,
            Self::AppendToFile | Self::FindAndReplace | Self::ApplyPatch | Self::WriteFile => {
                BuiltinPower::Writes
            }
            Self::Python => BuiltinPower::Runs,
            Self::Fork => BuiltinPower::Asks,
        }
    }

    /// Returns whether calls only read below the roots, so that they need no approval.
    pub fn is_read_only(self) -> bool {
        self.power() == BuiltinPower::Reads
    }

    /// Returns the built-in tool that a prompt declares as `name`.
    pub fn declared(name: &str) -> Option<Self> {
        let mut builtins = Self::ALL.iter().copied();
        builtins.find(|builtin| builtin.names().contains(&name))
    }

    /// Returns the built-in tools of a list of names, in its order and without duplicates.
    ///
    /// A namespace (OpenChatML 2.2 §8.3) contributes all of its tools.
    ///
    /// # Errors
    /// Returns the first name that is not a built-in tool.
    pub fn from_names<S: AsRef<str>>(names: &[S]) -> Result<Vec<Self>, UnknownBuiltin> {
        let mut found = Vec::new();
        for name in names {
            let name = name.as_ref();
            let named = Self::named(name).ok_or_else(|| UnknownBuiltin(name.to_owned()))?;
            for builtin in named {
                if !found.contains(&builtin) {
                    found.push(builtin);
                }
            }
        }
        Ok(found)
    }

    /// Returns the built-in tool `name`, or all tools of the namespace `browser`.
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

    /// Returns the definition of the tool with the named directories `roots`.
    pub fn definition(self, roots: &[&str]) -> ToolDefinition {
        let scope = AccessScope::new(Arc::new(Roots::default()));
        let mut definition = self.tool(&scope).definition().clone();
        if self.takes_root() && !roots.is_empty() {
            add_root_parameter(&mut definition.parameters, roots);
        }
        definition
    }

    /// Checks the arguments of a call of a tool that accepts more than its schema.
    ///
    /// Returns `None` if the schema decides; the error is a message for the model.
    pub fn check_arguments(
        self,
        arguments: &Arguments,
        roots: &[&str],
    ) -> Option<Result<(), String>> {
        let read = match self {
            Self::ReadFile => {
                read_file::ReadRequest::read(&without_root(arguments, roots)).map(drop)
            }
            Self::AppendToFile => append_to_file::path_and_content(arguments).map(drop),
            Self::FindAndReplace => find_and_replace::Replacement::read(arguments).map(drop),
            Self::ApplyPatch => apply_patch::patch_text(arguments).map(drop),
            Self::Python => python::code(arguments).map(drop),
            _ => return None,
        };
        Some(read)
    }

    /// Returns whether calls select a named directory by the argument `root`.
    const fn takes_root(self) -> bool {
        matches!(
            self,
            Self::ReadFile | Self::ReadDirectory | Self::ImportImage | Self::Search
        )
    }

    /// Creates the tool, confined to `scope`.
    pub fn tool(self, scope: &AccessScope) -> Arc<dyn Tool> {
        let roots = || Arc::clone(&scope.roots);
        let tool: Arc<dyn Tool> = match self {
            Self::ReadFile => Arc::new(ReadFile::new(roots())),
            Self::ReadDirectory => Arc::new(ReadDirectory::new(roots())),
            Self::ImportImage => Arc::new(ImportImage::new(roots()).for_model(scope.takes_images)),
            Self::AppendToFile => Arc::new(append_to_file::append_to_file(scope)),
            Self::FindAndReplace => Arc::new(find_and_replace::find_and_replace(scope)),
            Self::ApplyPatch => Arc::new(apply_patch::apply_patch(scope)),
            Self::Search => Arc::new(Search::new(roots())),
            Self::WriteFile => Arc::new(write_file::write_file(scope)),
            Self::BrowserSearch => Arc::new(BrowserSearch::new(scope.clone())),
            Self::BrowserOpen => Arc::new(BrowserOpen::new(scope.clone())),
            Self::BrowserFind => Arc::new(BrowserFind::new(scope.clone())),
            Self::Fork => Arc::new(fork::Fork::new()),
            Self::WebpageToMarkdown => Arc::new(WebpageToMarkdown::new(scope.network.clone())),
            Self::Python => Arc::new(Python::new(
                scope.python_roots.as_ref().unwrap_or(&scope.roots),
                scope.python.clone(),
            )),
        };
        let (base, named, is_confined) = (scope.roots.base(), &scope.named, scope.is_confined);
        match self {
            Self::ReadFile => rooted(tool, base, named, true, |it| Arc::new(ReadFile::new(it))),
            Self::ReadDirectory => rooted(tool, base, named, is_confined, |it| {
                Arc::new(ReadDirectory::new(it))
            }),
            Self::ImportImage => rooted(tool, base, named, true, |it| {
                Arc::new(ImportImage::new(it).for_model(scope.takes_images))
            }),
            Self::Search => rooted(tool, base, named, is_confined, |it| {
                Arc::new(Search::new(it))
            }),
            _ => tool,
        }
    }
}

/// The error for a name that is not a built-in tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownBuiltin(pub String);

impl std::fmt::Display for UnknownBuiltin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "unknown built-in tool `{}`", self.0)
    }
}

impl std::error::Error for UnknownBuiltin {}
