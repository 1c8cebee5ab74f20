//! The directories that tools may read, and the only way to open files in them.
//!
//! Paths from a model are hostile: they may be absolute, contain `..` or pass through links, and
//! other programs may exchange what they name at any moment. Each root is opened once. A path is
//! resolved from the descriptor of a root, one component after the other, and what is examined is
//! the open file itself.

mod entry;
#[cfg(unix)]
mod folder;
#[cfg(not(unix))]
#[path = "folder_by_path.rs"]
mod folder;
mod resolve;

use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::hidden_files::{HiddenFiles, HiddenNow};
pub use entry::EntryKind;
pub(crate) use entry::FileId;
pub use folder::FolderHandle;
use resolve::ResolveError;
pub(crate) use resolve::{DeadEnd, MAX_DEPTH, Place, PlaceEntry};

/// Directories that may be read. Relative paths are resolved against the first one.
///
/// The directories are opened when the value is created. A directory that is moved or replaced
/// later stays the one that was opened.
#[derive(Clone, Debug, Default)]
pub struct Roots {
    folders: Vec<Root>,
    paths: Vec<PathBuf>,
    /// Files below the directories that are not opened.
    hidden: Option<HiddenFiles>,
}

/// A root and the absolute path by which it was named.
#[derive(Clone, Debug)]
struct Root {
    handle: Arc<FolderHandle>,
    name: Option<PathBuf>,
}

/// An error of opening a path.
#[derive(Debug)]
#[non_exhaustive]
pub enum RootError {
    /// The path does not exist.
    NotFound(String),
    /// The path is outside all roots.
    Outside(String),
    /// The path exists and cannot be read.
    Unreadable(String, io::Error),
    /// The file is one of the [`HiddenFiles`].
    Hidden(String),
}

impl std::fmt::Display for RootError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotFound(path) => write!(f, "{path}: not found"),
            Self::Outside(path) => write!(f, "{path}: is outside the directories that may be read"),
            Self::Unreadable(path, error) => write!(f, "{path}: cannot be read: {error}"),
            Self::Hidden(path) => write!(
                f,
                "{path}: is the prompt of a served agent, which tools do not read"
            ),
        }
    }
}

impl std::error::Error for RootError {}

/// A regular file below a root, open for reading.
#[derive(Debug)]
#[non_exhaustive]
pub struct OpenedFile {
    /// The path without links.
    pub path: PathBuf,
    /// The file.
    pub file: File,
    /// The metadata of the open file.
    pub metadata: Metadata,
}

impl Roots {
    /// Opens existing directories; the first one is the base of relative paths.
    ///
    /// # Errors
    /// Returns an error for the first path that does not exist or is not a directory.
    pub fn new(folders: impl IntoIterator<Item = PathBuf>) -> Result<Self, RootError> {
        let mut roots = Self::default();
        for folder in folders {
            let handle = FolderHandle::open(&folder)
                .map_err(|error| classify(&folder.display().to_string(), error))?;
            roots.add(Root {
                handle: Arc::new(handle),
                name: std::path::absolute(&folder).ok(),
            });
        }
        Ok(roots)
    }

    /// Creates roots with one open directory.
    pub fn of_folder(folder: FolderHandle) -> Self {
        let mut roots = Self::default();
        roots.add(Root {
            handle: Arc::new(folder),
            name: None,
        });
        roots
    }

    /// Creates roots with a directory below these roots as the first one, followed by these.
    ///
    /// # Errors
    /// Returns an error if `folder`, a path without links, is not a directory below a root.
    pub fn beginning_with(&self, folder: &Path) -> Result<Self, RootError> {
        let handle = match self.handles().find(|root| root.path() == folder) {
            Some(root) => Arc::clone(root),
            None => self.folder_below(folder)?,
        };
        let mut roots = self.empty();
        roots.add(Root { handle, name: None });
        for root in &self.folders {
            roots.add(root.clone());
        }
        Ok(roots)
    }

    /// Returns roots with one directory below these roots.
    ///
    /// # Errors
    /// Returns [`RootError::Outside`] if the path leaves the roots, and an error if it is not an
    /// existing directory.
    pub fn folder(&self, path: &Path) -> Result<Self, RootError> {
        let name = path.display().to_string();
        let mut place = self.place(&name, path)?;
        match (&place.entry, place.trail.pop()) {
            (PlaceEntry::Folder, Some(handle)) => {
                let mut roots = self.empty();
                roots.add(Root { handle, name: None });
                Ok(roots)
            }
            (PlaceEntry::Absent { .. } | PlaceEntry::Nowhere(_), _) => {
                Err(RootError::NotFound(name))
            }
            _ => {
                let error = io::Error::from(io::ErrorKind::NotADirectory);
                Err(RootError::Unreadable(name, error))
            }
        }
    }

    /// Returns the roots without files that are not to be read.
    #[must_use]
    pub fn hiding(&self, hidden: &HiddenFiles) -> Self {
        Self {
            hidden: Some(hidden.clone()),
            ..self.clone()
        }
    }

    /// Returns the files that are hidden now.
    pub(crate) fn hidden_now(&self) -> HiddenNow {
        self.hidden
            .as_ref()
            .map(HiddenFiles::now)
            .unwrap_or_default()
    }

    /// Returns roots without directories that hide the same files.
    fn empty(&self) -> Self {
        Self {
            hidden: self.hidden.clone(),
            ..Self::default()
        }
    }

    /// Opens the directory at a path without links.
    fn folder_below(&self, folder: &Path) -> Result<Arc<FolderHandle>, RootError> {
        let name = folder.display().to_string();
        let mut place = self.place(&name, folder)?;
        if !matches!(place.entry, PlaceEntry::Folder) || place.path() != folder {
            let error = io::Error::other("something else was put there in the meantime");
            return Err(RootError::Unreadable(name, error));
        }
        place.trail.pop().ok_or(RootError::NotFound(name))
    }

    /// Adds an open directory.
    pub(crate) fn with_folder(mut self, handle: &Arc<FolderHandle>) -> Self {
        self.add(Root {
            handle: Arc::clone(handle),
            name: None,
        });
        self
    }

    fn add(&mut self, root: Root) {
        let path = root.handle.path();
        let is_known = |known: &Root| known.handle.path() == path;
        if !self.folders.iter().any(is_known) {
            self.paths.push(path.to_owned());
            self.folders.push(root);
        }
    }

    /// Returns the directories without links, at the locations where they were opened.
    pub fn folders(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Returns the base of relative paths; the current directory if there are no roots.
    pub fn base(&self) -> &Path {
        self.paths.first().map_or(Path::new("."), PathBuf::as_path)
    }

    /// Returns the open directories.
    pub(crate) fn handles(&self) -> impl Iterator<Item = &Arc<FolderHandle>> {
        self.folders.iter().map(|root| &root.handle)
    }

    /// Returns the root at an absolute path.
    ///
    /// It is recognised by its path, or by its identity if it has another path as well.
    pub fn at(&self, path: &Path) -> Option<&Arc<FolderHandle>> {
        let is_named =
            |root: &&Root| root.handle.path() == path || root.name.as_deref() == Some(path);
        if let Some(root) = self.folders.iter().find(is_named) {
            return Some(&root.handle);
        }
        if !cfg!(unix) || self.handles().any(|root| root.path().starts_with(path)) {
            return None;
        }
        let id = FileId::of(&std::fs::metadata(path).ok()?);
        self.handles().find(|root| root.id() == id)
    }

    /// Resolves `path`. A relative path is tried below each root in order.
    ///
    /// If nothing exists there, the result is the missing entry below the first root.
    ///
    /// # Errors
    /// Returns [`RootError::Outside`] if the path leaves the roots. The error does not reveal
    /// whether anything exists there.
    pub(crate) fn find(&self, path: &str) -> Result<Place, RootError> {
        if path.contains('\0') {
            return Err(RootError::NotFound(path.replace('\0', "\u{FFFD}")));
        }
        self.place(path, Path::new(path))
    }

    /// Resolves a path; errors name it `shown`.
    fn place(&self, shown: &str, path: &Path) -> Result<Place, RootError> {
        let outside = || RootError::Outside(shown.to_owned());
        let mut first = None;
        for base in self.handles() {
            let place = resolve::resolve(self, base, path).map_err(|error| match error {
                ResolveError::Outside => outside(),
                ResolveError::Io(error) => classify(shown, error),
            });
            match place {
                Ok(place) if place.exists() => return Ok(place),
                other => first.get_or_insert(other),
            };
            if path.is_absolute() {
                break;
            }
        }
        first.unwrap_or_else(|| Err(outside()))
    }

    /// Returns whether a path leaves the roots.
    pub fn is_outside(&self, path: &str) -> bool {
        matches!(self.find(path), Err(RootError::Outside(_)))
    }

    /// Opens a regular file.
    ///
    /// # Errors
    /// Returns [`RootError::NotFound`] if nothing exists at the path and [`RootError::Outside`] if
    /// it is outside the roots; also an error if the path is not a regular file, because a pipe or
    /// device could block.
    pub fn open_file(&self, path: &str) -> Result<OpenedFile, RootError> {
        let place = self.find(path)?;
        let found = place.path();
        let kind = match place.entry {
            PlaceEntry::File { metadata, .. } if self.hidden_now().contains(&found, &metadata) => {
                return Err(RootError::Hidden(path.to_owned()));
            }
            PlaceEntry::File { file, metadata, .. } => {
                return Ok(OpenedFile {
                    path: found,
                    file,
                    metadata,
                });
            }
            PlaceEntry::Absent { .. } | PlaceEntry::Nowhere(_) => {
                return Err(RootError::NotFound(path.to_owned()));
            }
            PlaceEntry::Folder => "a folder",
            PlaceEntry::Other => "no regular file",
        };
        let error = io::Error::other(format!("it is {kind}"));
        Err(RootError::Unreadable(path.to_owned(), error))
    }
}

impl Place {
    /// Returns the path without links; of a missing entry, the path that it would have.
    pub(crate) fn path(&self) -> PathBuf {
        let folder = self.trail.last().map_or(Path::new(""), |last| last.path());
        match &self.entry {
            PlaceEntry::File { name, .. } => folder.join(name),
            PlaceEntry::Absent { names } => {
                let mut path = folder.to_owned();
                path.extend(names);
                path
            }
            PlaceEntry::Folder | PlaceEntry::Other | PlaceEntry::Nowhere(_) => folder.to_owned(),
        }
    }

    fn exists(&self) -> bool {
        !matches!(
            self.entry,
            PlaceEntry::Absent { .. } | PlaceEntry::Nowhere(_)
        )
    }
}

fn classify(path: &str, error: io::Error) -> RootError {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename => {
            RootError::NotFound(path.to_owned())
        }
        _ => RootError::Unreadable(path.to_owned(), error),
    }
}
