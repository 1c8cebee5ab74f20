//! Resolution of paths from a model, one component at a time, below an open root.
//!
//! The result is an open file or directory together with its path without links, so nothing is
//! looked up a second time after it was judged. A link is followed by resolving its text in the
//! same way; no step is left to the operating system.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::{EntryKind, FolderHandle, Roots};

/// Maximum number of links in one path, as on Linux.
const MAX_LINKS: usize = 40;

/// Maximum number of directories between a root and an entry, because each one is open.
pub(crate) const MAX_DEPTH: usize = 200;

/// An entry below a root.
#[derive(Debug)]
pub(crate) struct Place {
    /// The open directories from the root to the one with the entry.
    pub(crate) trail: Vec<Arc<FolderHandle>>,
    /// The entry.
    pub(crate) entry: PlaceEntry,
    /// Whether the last component of the path is a link.
    pub(crate) is_link: bool,
}

/// The entry that a path names.
#[derive(Debug)]
pub(crate) enum PlaceEntry {
    /// The last directory of the trail.
    Folder,
    /// A regular file.
    File {
        name: OsString,
        file: File,
        metadata: Metadata,
    },
    /// A pipe, socket or device, which is not opened.
    Other,
    /// Nothing; these names are missing below the last directory of the trail.
    Absent { names: Vec<OsString> },
    /// Nothing, and nothing can be created there.
    Nowhere(DeadEnd),
}

/// The reason why nothing can be created at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeadEnd {
    /// The path passes a link without a target.
    Link,
    /// The path passes a file as if it were a directory.
    File,
    /// The path passes the parent of a directory that does not exist.
    Parent,
}

/// The reason why a path has no place.
#[derive(Debug)]
pub(crate) enum ResolveError {
    /// It leaves the roots.
    Outside,
    /// The operating system reports an error.
    Io(io::Error),
}

impl From<io::Error> for ResolveError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A component that is still to be resolved.
struct Part {
    /// The name; `None` is the parent directory.
    name: Option<OsString>,
    /// Whether it comes from the text of a link.
    linked: bool,
}

struct Resolution<'a> {
    roots: &'a Roots,
    trail: Vec<Arc<FolderHandle>>,
    /// The remaining components, the next one last.
    pending: Vec<Part>,
    links: usize,
    is_link: bool,
}

/// Resolves `path`; a relative path begins at `base`.
pub(super) fn resolve(
    roots: &Roots,
    base: &Arc<FolderHandle>,
    path: &Path,
) -> Result<Place, ResolveError> {
    let mut resolution = Resolution {
        roots,
        trail: vec![Arc::clone(base)],
        pending: Vec::new(),
        links: 0,
        is_link: false,
    };
    resolution.follow(path, false)?;
    let entry = resolution.run()?;
    Ok(Place {
        trail: resolution.trail,
        entry,
        is_link: resolution.is_link,
    })
}

impl Resolution<'_> {
    fn run(&mut self) -> Result<PlaceEntry, ResolveError> {
        while let Some(part) = self.pending.pop() {
            let Some(name) = part.name else {
                self.parent()?;
                continue;
            };
            let Some(here) = self.trail.last().cloned() else {
                return Err(ResolveError::Outside);
            };
            let error = match here.enter(&name) {
                Ok(folder) if self.trail.len() <= MAX_DEPTH => {
                    self.trail.push(Arc::new(folder));
                    continue;
                }
                Ok(_) => return Err(io::Error::from(io::ErrorKind::InvalidFilename).into()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(self.absent(name, part.linked));
                }
                Err(error) => error,
            };
            let is_last = self.pending.is_empty();
            match here.kind(&name)? {
                EntryKind::Link => {
                    self.links += 1;
                    if self.links > MAX_LINKS {
                        return Err(io::Error::other("it has too many links").into());
                    }
                    self.is_link |= is_last;
                    self.follow(&here.link(&name)?, true)?;
                }
                EntryKind::Folder => return Err(error.into()),
                _ if !is_last => return Ok(PlaceEntry::Nowhere(DeadEnd::File)),
                EntryKind::File => {
                    let (file, metadata) = here.open_file(&name)?;
                    return Ok(PlaceEntry::File {
                        name,
                        file,
                        metadata,
                    });
                }
                EntryKind::Other => return Ok(PlaceEntry::Other),
            }
        }
        Ok(PlaceEntry::Folder)
    }

    /// Puts the components of a path before the remaining ones.
    fn follow(&mut self, path: &Path, linked: bool) -> Result<(), ResolveError> {
        for component in path.components().rev() {
            let name = match component {
                Component::Normal(name) => Some(name.to_owned()),
                Component::ParentDir => None,
                Component::CurDir | Component::RootDir | Component::Prefix(_) => continue,
            };
            self.pending.push(Part { name, linked });
        }
        if path.is_absolute() {
            let start = path.ancestors().last().unwrap_or(path);
            return self.come_back(start.to_owned());
        }
        Ok(())
    }

    /// Enters the parent of the current directory.
    fn parent(&mut self) -> Result<(), ResolveError> {
        if self.trail.len() > 1 {
            self.trail.pop();
            return Ok(());
        }
        let root = self.trail.first().ok_or(ResolveError::Outside)?;
        // The parent of the topmost directory is that directory.
        match root.path().parent().map(Path::to_owned) {
            Some(parent) => self.come_back(parent),
            None => Ok(()),
        }
    }

    /// Continues at the first root that a path from outside the roots leads to.
    ///
    /// Nothing outside is opened: the path is compared by its text, and by the identity of the
    /// directory if a root has another name there.
    fn come_back(&mut self, mut outside: PathBuf) -> Result<(), ResolveError> {
        loop {
            if let Some(root) = self.roots.at(&outside) {
                self.trail = vec![Arc::clone(root)];
                return Ok(());
            }
            match self.pending.pop() {
                None => return Err(ResolveError::Outside),
                Some(Part { name: None, .. }) => {
                    outside.pop();
                }
                Some(Part {
                    name: Some(name), ..
                }) => outside.push(name),
            }
        }
    }

    /// Describes a missing entry.
    fn absent(&mut self, name: OsString, linked: bool) -> PlaceEntry {
        let mut names = vec![name];
        for part in std::mem::take(&mut self.pending).into_iter().rev() {
            match part.name {
                Some(name) => names.push(name),
                // The parent of a directory that does not exist has no meaning.
                None => return PlaceEntry::Nowhere(DeadEnd::Parent),
            }
        }
        if linked {
            return PlaceEntry::Nowhere(DeadEnd::Link);
        }
        PlaceEntry::Absent { names }
    }
}
