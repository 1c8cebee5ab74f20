//! The identity of a file and the detection of changes.

use std::fs::{File, Metadata};
use std::io;
use std::time::SystemTime;

/// The identity and the change marks of a file at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    file: (u64, u64),
    owner: (u32, u32),
    len: u64,
    modified: Option<SystemTime>,
    /// Seconds and nanoseconds of the last status change, which programs cannot set back.
    changed: (i64, i64),
}

impl FileStamp {
    pub(crate) fn from_metadata(metadata: &Metadata) -> Self {
        let (len, modified) = (metadata.len(), metadata.modified().ok());
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            Self {
                file: (metadata.dev(), metadata.ino()),
                owner: (metadata.uid(), metadata.gid()),
                len,
                modified,
                changed: (metadata.ctime(), metadata.ctime_nsec()),
            }
        }
        #[cfg(not(unix))]
        Self {
            file: (0, 0),
            owner: (0, 0),
            len,
            modified,
            changed: (0, 0),
        }
    }

    pub(crate) fn from_file(file: &File) -> io::Result<Self> {
        Ok(Self::from_metadata(&file.metadata()?))
    }

    /// Returns whether both are the same file, changed or not.
    pub(crate) fn is_same_file(self, other: Self) -> bool {
        self.file == other.file
    }

    /// Copies the mode of the replaced file, and its owner as far as permitted.
    pub(crate) fn give_owner_and_mode(self, replaced: &File, replacement: &File) -> io::Result<()> {
        #[cfg(unix)]
        if Self::from_file(replacement)?.owner != self.owner {
            let (user, group) = self.owner;
            // Only root may give files away; others may be able to set the group.
            if std::os::unix::fs::fchown(replacement, Some(user), Some(group)).is_err() {
                drop(std::os::unix::fs::fchown(replacement, None, Some(group)));
            }
        }
        replacement.set_permissions(replaced.metadata()?.permissions())
    }
}
