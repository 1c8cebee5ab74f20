//! The files and directories that a sandbox grants, and their descriptors.

use std::path::{Path, PathBuf};

use crate::FolderHandle;

/// A file or directory that a sandbox grants.
///
/// It is opened when the value is created, so a command cannot make the path lead elsewhere later.
/// A path that does not exist then is not granted.
#[derive(Clone, Debug)]
pub struct GrantedPath {
    path: PathBuf,
    #[cfg(target_os = "linux")]
    descriptor: Option<std::sync::Arc<std::os::fd::OwnedFd>>,
}

impl GrantedPath {
    /// Opens the file or directory at a path of the user, following links.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self {
            #[cfg(target_os = "linux")]
            descriptor: open(&path),
            path,
        }
    }

    /// Grants an open directory.
    pub(crate) fn of_folder(folder: &FolderHandle) -> Self {
        Self {
            path: folder.path().to_owned(),
            #[cfg(target_os = "linux")]
            descriptor: Some(folder.descriptor()),
        }
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the descriptor; `None` if nothing was at the path.
    #[cfg(target_os = "linux")]
    pub(crate) fn descriptor(&self) -> Option<std::sync::Arc<std::os::fd::OwnedFd>> {
        self.descriptor.clone()
    }
}

impl From<PathBuf> for GrantedPath {
    fn from(path: PathBuf) -> Self {
        Self::new(path)
    }
}

impl PartialEq for GrantedPath {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for GrantedPath {}

#[cfg(target_os = "linux")]
fn open(path: &Path) -> Option<std::sync::Arc<std::os::fd::OwnedFd>> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let descriptor = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    Some(std::sync::Arc::new(descriptor))
}
