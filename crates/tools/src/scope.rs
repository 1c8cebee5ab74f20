//! What the built-ins of one run can get at: folders, files that stay as they are, hosts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::builtin::Pages;
use crate::{Fetcher, Roots, SearchEngine, ShellOptions};

/// What built-in tools may reach. Files below the roots may be read and written, except for those
/// that say what is allowed; the network is off unless a fetcher is given.
///
/// ```
/// use std::sync::Arc;
/// use logue_tools::{Builtin, AccessScope, Roots};
///
/// let roots = Arc::new(Roots::new([std::env::temp_dir()]).unwrap());
/// let scope = AccessScope::new(roots).with_protected_file("prompt.md");
/// let tool = Builtin::AppendToFile.tool(&scope);
/// assert_eq!(tool.definition().name, "append_to_file");
/// ```
#[derive(Clone, Debug)]
pub struct AccessScope {
    pub(crate) roots: Arc<Roots>,
    pub(crate) kept: Vec<PathBuf>,
    pub(crate) written: WrittenFiles,
    pub(crate) network: Option<Arc<Fetcher>>,
    pub(crate) python: ShellOptions,
    pub(crate) search: Option<Arc<SearchEngine>>,
    /// The pages that the browser tools of the run have opened.
    pub(crate) pages: Pages,
}

/// Which files tools have written, as everything knows it that is run together. What a model wrote
/// is no prompt: it could hold tools that nobody granted.
#[derive(Clone, Debug, Default)]
pub struct WrittenFiles(Arc<Mutex<BTreeSet<PathBuf>>>);

impl WrittenFiles {
    /// Whether a tool wrote the file, or is about to. The path is the one without links.
    pub fn contains(&self, real: &Path) -> bool {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.contains(real)
    }

    /// Notes a file before it is written.
    pub(crate) fn note(&self, real: &Path) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.insert(real.to_owned());
    }
}

impl AccessScope {
    /// Files below `roots` and nothing else.
    pub fn new(roots: Arc<Roots>) -> Self {
        Self {
            roots,
            kept: Vec::new(),
            written: WrittenFiles::default(),
            network: None,
            python: ShellOptions::default(),
            search: None,
            pages: Pages::default(),
        }
    }

    /// The same, but `path` is not written: it is the prompt or transcript of the run, in which the
    /// model would grant itself tools or change what was said. A relative path counts from the
    /// current folder.
    #[must_use]
    pub fn with_protected_file(mut self, path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        // A file that does not exist yet is known by its folder.
        let real = path.canonicalize().or_else(|_| {
            let name = path.file_name().unwrap_or_default();
            let folder = path.parent().filter(|folder| *folder != Path::new(""));
            let folder = folder.unwrap_or(Path::new(".")).canonicalize();
            folder.map(|folder| folder.join(name))
        });
        self.kept.push(real.unwrap_or_else(|_| path.to_owned()));
        self
    }

    /// The same, and every file that is written is noted in `written`.
    #[must_use]
    pub fn with_write_log(mut self, written: WrittenFiles) -> Self {
        self.written = written;
        self
    }

    /// The same with the pages of the hosts that the fetcher may ask.
    #[must_use]
    pub fn with_network(mut self, network: Arc<Fetcher>) -> Self {
        self.network = Some(network);
        self
    }

    /// The same with what programs in Python may cost and reach.
    #[must_use]
    pub fn with_python(mut self, options: ShellOptions) -> Self {
        self.python = options;
        self
    }

    /// The same with an engine that is asked for pages. Its host has to be one that may be asked.
    #[must_use]
    pub fn with_search(mut self, engine: Arc<SearchEngine>) -> Self {
        self.search = Some(engine);
        self
    }
}
