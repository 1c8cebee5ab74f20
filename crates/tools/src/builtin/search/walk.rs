//! Directory traversal in the order of paths, with ignore rules.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::rules::{Rules, leave_out};
use crate::roots::MAX_DEPTH;
use crate::{EntryKind, FolderHandle};

/// The next entry of a traversal.
#[derive(Debug)]
pub(super) enum Step {
    /// A regular file.
    File(FoundFile),
    /// A link, which is not followed.
    Link,
    /// A directory that cannot be read.
    Unreadable,
    /// An ignored entry or an entered directory; it counts as one entry.
    Passed,
}

/// A regular file that is not open yet.
#[derive(Debug)]
pub(super) struct FoundFile {
    pub(super) path: PathBuf,
    folder: Arc<FolderHandle>,
    name: OsString,
}

impl FoundFile {
    /// Opens the file in the directory that was traversed.
    pub(super) fn open(&self) -> io::Result<(File, Metadata)> {
        self.folder.open_file(&self.name)
    }
}

/// A traversal without limits on entries: each step is one entry.
#[derive(Debug)]
pub(super) struct Walk {
    /// The rules from the root to the innermost open directory.
    rules: Vec<Rules>,
    open: Vec<Folder>,
    /// Maximum number of entries read per directory.
    most: usize,
}

#[derive(Debug)]
struct Folder {
    handle: Arc<FolderHandle>,
    /// The remaining entries, the next one last.
    entries: Vec<(OsString, EntryKind)>,
    /// Whether the directory has more entries than were read.
    cut: bool,
}

impl Walk {
    /// Starts a traversal of the last directory of `trail`, which begins with a root.
    ///
    /// The directory itself is never ignored.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be read.
    pub(super) fn new(trail: &[Arc<FolderHandle>], most: usize) -> io::Result<Self> {
        let Some((folder, above)) = trail.split_last() else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let mut walk = Self {
            rules: above.iter().map(|above| Rules::of(above)).collect(),
            open: Vec::new(),
            most,
        };
        walk.enter(Arc::clone(folder))?;
        Ok(walk)
    }

    /// Returns the next entry; `None` at the end.
    pub(super) fn step(&mut self) -> Option<Step> {
        loop {
            let folder = self.open.last_mut()?;
            let Some((name, kind)) = folder.entries.pop() else {
                let cut = folder.cut;
                self.open.pop();
                self.rules.pop();
                if cut {
                    return Some(Step::Unreadable);
                }
                continue;
            };
            let folder = Arc::clone(&folder.handle);
            let path = folder.path().join(&name);
            let hidden = name.as_encoded_bytes().starts_with(b".");
            let is_folder = kind == EntryKind::Folder;
            if hidden || leave_out(&self.rules, &path, is_folder) {
                return Some(Step::Passed);
            }
            return Some(match kind {
                EntryKind::File => Step::File(FoundFile { path, folder, name }),
                EntryKind::Folder if self.open.len() >= MAX_DEPTH => Step::Unreadable,
                EntryKind::Folder => {
                    let entered = folder.enter(&name).map(Arc::new);
                    match entered.and_then(|folder| self.enter(folder)) {
                        Ok(()) => Step::Passed,
                        Err(_) => Step::Unreadable,
                    }
                }
                EntryKind::Link => Step::Link,
                EntryKind::Other => Step::Passed,
            });
        }
    }

    fn enter(&mut self, handle: Arc<FolderHandle>) -> io::Result<()> {
        let mut found = handle.entries(self.most)?;
        found
            .entries
            .sort_unstable_by(|(one, _), (other, _)| other.cmp(one));
        self.rules.push(Rules::of(&handle));
        self.open.push(Folder {
            handle,
            entries: found.entries,
            cut: found.cut,
        });
        Ok(())
    }
}
