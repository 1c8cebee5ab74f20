//! Entries of directories and the identity of files.

use std::ffi::OsString;
use std::fs::Metadata;

/// The kind of a directory's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Folder,
    /// A symbolic link.
    Link,
    /// A pipe, socket or device.
    Other,
}

/// The entries of a directory.
#[derive(Debug, Default)]
pub(crate) struct FolderEntries {
    pub(crate) entries: Vec<(OsString, EntryKind)>,
    /// Whether the directory has more entries.
    pub(crate) cut: bool,
}

/// The device and inode of a file; all are equal on systems without them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileId(u64, u64);

impl FileId {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            Self(metadata.dev(), metadata.ino())
        }
        #[cfg(not(unix))]
        {
            let _ = metadata;
            Self(0, 0)
        }
    }
}
