//! The access of built-in tools: directories, protected files and hosts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::builtin::Pages;
use crate::hidden_files::HiddenFiles;
use crate::named_root::NamedRoot;
use crate::{Fetcher, Roots, SearchEngine, ShellOptions};

/// The files and hosts that built-in tools may access.
///
/// Files below the roots can be read and written, except protected files. The network is off unless
/// a fetcher is set.
///
/// ```
/// use std::sync::Arc;
/// use logue_tools::{AccessScope, Builtin, Roots};
///
/// let roots = Arc::new(Roots::new([std::env::temp_dir()]).unwrap());
/// let scope = AccessScope::new(roots).with_protected_file("prompt.md");
/// let tool = Builtin::AppendToFile.tool(&scope);
/// assert_eq!(tool.definition().name, "append_to_file");
/// ```
#[derive(Clone, Debug)]
pub struct AccessScope {
    pub(crate) roots: Arc<Roots>,
    /// The directories that a prompt names for its reading tools.
    pub(crate) named: Vec<NamedRoot>,
    /// Whether all reading tools are confined to the named directories.
    pub(crate) is_confined: bool,
    pub(crate) protected: Vec<PathBuf>,
    /// The files that no tool reads.
    hidden: Option<HiddenFiles>,
    pub(crate) written: WrittenFiles,
    pub(crate) network: Option<Arc<Fetcher>>,
    pub(crate) python: ShellOptions,
    /// The directories that Python programs may read; `None` for the roots.
    pub(crate) python_roots: Option<Arc<Roots>>,
    pub(crate) search: Option<Arc<SearchEngine>>,
    /// Whether the model of the run takes images.
    pub(crate) takes_images: bool,
    /// Pages opened by the browser tools of the run.
    pub(crate) pages: Pages,
}

/// The files that tools have written, shared by everything in one run.
///
/// A file written by a model is not accepted as a prompt, because it could declare tools that the
/// user has not granted.
#[derive(Clone, Debug, Default)]
pub struct WrittenFiles(Arc<Mutex<BTreeSet<PathBuf>>>);

impl WrittenFiles {
    /// Returns whether a tool has written the file or is about to. The path must not contain links.
    pub fn contains(&self, real: &Path) -> bool {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.contains(real)
    }

    /// Records a file before it is written.
    pub(crate) fn note(&self, real: &Path) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.insert(real.to_owned());
    }
}

impl AccessScope {
    /// Creates a scope of the files below `roots`.
    pub fn new(roots: Arc<Roots>) -> Self {
        Self {
            roots,
            named: Vec::new(),
            is_confined: false,
            protected: Vec::new(),
            hidden: None,
            written: WrittenFiles::default(),
            network: None,
            python: ShellOptions::default(),
            python_roots: None,
            search: None,
            takes_images: true,
            pages: Pages::default(),
        }
    }

    /// Protects a file from writes: the prompt or transcript of the run.
    ///
    /// Otherwise the model could grant itself tools or change the transcript. A relative path is
    /// resolved against the current directory.
    #[must_use]
    pub fn with_protected_file(mut self, path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        // A file that does not exist yet is identified by its directory.
        let real = path.canonicalize().or_else(|_| {
            let name = path.file_name().unwrap_or_default();
            let folder = path.parent().filter(|folder| *folder != Path::new(""));
            let folder = folder.unwrap_or(Path::new(".")).canonicalize();
            folder.map(|folder| folder.join(name))
        });
        self.protected
            .push(real.unwrap_or_else(|_| path.to_owned()));
        self
    }

    /// Sets whether the model of the run takes images.
    #[must_use]
    pub fn with_images(mut self, takes_images: bool) -> Self {
        self.takes_images = takes_images;
        self
    }

    /// Hides files from all built-in tools, which otherwise read everything below the roots.
    #[must_use]
    pub fn with_hidden_files(mut self, hidden: &HiddenFiles) -> Self {
        self.roots = Arc::new(self.roots.hiding(hidden));
        self.hidden = Some(hidden.clone());
        self.named = self.hide_in(self.named.clone());
        self
    }

    fn hide_in(&self, named: Vec<NamedRoot>) -> Vec<NamedRoot> {
        match &self.hidden {
            None => named,
            Some(hidden) => named.iter().map(|root| root.hiding(hidden)).collect(),
        }
    }

    /// Sets the directories that a prompt names; `read_file` and `import_image` are confined to them.
    #[must_use]
    pub fn with_named_roots(mut self, named: Vec<NamedRoot>) -> Self {
        self.named = self.hide_in(named);
        self
    }

    /// Confines all reading tools to the named directories.
    #[must_use]
    pub fn with_confined_reading(mut self) -> Self {
        self.is_confined = true;
        self
    }

    /// Sets the directories that Python programs may read.
    #[must_use]
    pub fn with_python_roots(mut self, roots: Arc<Roots>) -> Self {
        self.python_roots = Some(roots);
        self
    }

    /// Records every written file in `written`.
    #[must_use]
    pub fn with_write_log(mut self, written: WrittenFiles) -> Self {
        self.written = written;
        self
    }

    /// Allows the hosts of `network`.
    #[must_use]
    pub fn with_network(mut self, network: Arc<Fetcher>) -> Self {
        self.network = Some(network);
        self
    }

    /// Sets the limits and permissions of Python programs.
    #[must_use]
    pub fn with_python(mut self, options: ShellOptions) -> Self {
        self.python = options;
        self
    }

    /// Sets the search engine. The host of the engine must be allowed.
    #[must_use]
    pub fn with_search(mut self, engine: Arc<SearchEngine>) -> Self {
        self.search = Some(engine);
        self
    }
}
