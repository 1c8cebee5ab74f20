//! Files whose content tools do not read: the prompts of a server.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::roots::FileId;

/// Files that tools do not read, shared by the tools of a program.
///
/// A file is recognised by its device and inode, so that links and other names of it do not help, and
/// by its path while it is replaced. Directories still list it.
#[derive(Clone, Debug, Default)]
pub struct HiddenFiles(Arc<Mutex<BTreeSet<PathBuf>>>);

/// The hidden files at one time.
#[derive(Debug, Default)]
pub(crate) struct HiddenNow {
    paths: BTreeSet<PathBuf>,
    ids: BTreeSet<FileId>,
}

impl HiddenFiles {
    /// Hides the file at a path, also if it is replaced later.
    pub fn hide(&self, path: &Path) {
        // A file that is missing now may be created.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(path);
    }

    pub(crate) fn now(&self) -> HiddenNow {
        let paths = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let paths = paths.clone();
        let found = paths.iter().filter_map(|path| path.metadata().ok());
        let ids = found.map(|metadata| FileId::of(&metadata)).collect();
        HiddenNow { paths, ids }
    }
}

impl HiddenNow {
    /// Returns whether an open file is hidden. The path must not contain links.
    pub(crate) fn contains(&self, path: &Path, metadata: &Metadata) -> bool {
        let is_same = cfg!(unix) && self.ids.contains(&FileId::of(metadata));
        is_same || self.paths.contains(path)
    }
}
