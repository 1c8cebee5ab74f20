//! Directories and their entries on systems without descriptors of directories.
//!
//! Entries are examined before they are opened. A program that exchanges them in between is not
//! detected here.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::entry::{EntryKind, FileId, FolderEntries};

/// A directory.
///
/// Names passed to its functions are single names of entries. Links are never followed.
#[derive(Clone, Debug)]
pub struct FolderHandle {
    path: PathBuf,
    id: FileId,
}

impl FolderHandle {
    /// Opens the directory at a path of the user, in which links are followed.
    ///
    /// # Errors
    /// Returns an error if the path does not exist or is not a directory.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::at(path.canonicalize()?)
    }

    fn at(path: PathBuf) -> io::Result<Self> {
        let metadata = fs::symlink_metadata(&path)?;
        if !metadata.is_dir() {
            return Err(io::Error::from(io::ErrorKind::NotADirectory));
        }
        let id = FileId::of(&metadata);
        Ok(Self { path, id })
    }

    /// Returns the location at which the directory was opened, without links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    /// Opens a directory in this one.
    ///
    /// # Errors
    /// Returns an error if it does not exist or is not a directory. A link is not a directory.
    pub fn enter(&self, name: &OsStr) -> io::Result<Self> {
        Self::at(self.path.join(name))
    }

    /// Returns the kind of an entry.
    ///
    /// # Errors
    /// Returns an error if it does not exist.
    pub fn kind(&self, name: &OsStr) -> io::Result<EntryKind> {
        Ok(kind(
            fs::symlink_metadata(self.path.join(name))?.file_type(),
        ))
    }

    /// Returns the text of a link.
    pub(crate) fn link(&self, name: &OsStr) -> io::Result<PathBuf> {
        fs::read_link(self.path.join(name))
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// Returns an error if the entry does not exist or is not a regular file.
    pub fn open_file(&self, name: &OsStr) -> io::Result<(File, Metadata)> {
        self.open_regular(name, OpenOptions::new().read(true))
    }

    /// Opens a regular file for reading and writing.
    ///
    /// # Errors
    /// Returns an error if the entry does not exist or is not a regular file.
    pub fn open_to_write(&self, name: &OsStr) -> io::Result<(File, Metadata)> {
        self.open_regular(name, OpenOptions::new().read(true).write(true))
    }

    /// Opens a regular file for reading and appending.
    pub(crate) fn open_to_append(&self, name: &OsStr) -> io::Result<(File, Metadata)> {
        self.open_regular(name, OpenOptions::new().read(true).append(true))
    }

    /// Returns the metadata of a regular file.
    ///
    /// # Errors
    /// Returns an error if the entry does not exist or is not a regular file.
    pub fn metadata(&self, name: &OsStr) -> io::Result<Metadata> {
        Ok(self.open_file(name)?.1)
    }

    fn open_regular(&self, name: &OsStr, options: &OpenOptions) -> io::Result<(File, Metadata)> {
        if self.kind(name)? != EntryKind::File {
            return Err(io::Error::other("it is not a regular file"));
        }
        let file = options.open(self.path.join(name))?;
        let metadata = file.metadata()?;
        Ok((file, metadata))
    }

    /// Returns at most `most` entries in no particular order.
    pub(crate) fn entries(&self, most: usize) -> io::Result<FolderEntries> {
        let mut found = FolderEntries::default();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if found.entries.len() >= most {
                found.cut = true;
                break;
            }
            let kind = entry.file_type().map_or(EntryKind::Other, kind);
            found.entries.push((entry.file_name(), kind));
        }
        Ok(found)
    }

    /// Creates a file for reading and writing; `private` has no effect here.
    ///
    /// # Errors
    /// Returns an error if the name is taken.
    pub fn create_file(&self, name: &OsStr, private: bool) -> io::Result<File> {
        let _ = private;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        options.open(self.path.join(name))
    }

    /// Creates a directory; `private` has no effect here.
    ///
    /// # Errors
    /// Returns an error if the name is taken.
    pub fn create_folder(&self, name: &OsStr, private: bool) -> io::Result<()> {
        let _ = private;
        fs::create_dir(self.path.join(name))
    }

    /// Renames an entry within the directory; an existing file or link is replaced.
    ///
    /// # Errors
    /// Returns an error of the operating system.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    /// Gives a file a second name within the directory.
    ///
    /// # Errors
    /// Returns an error if the name is taken or the file system has no hard links.
    pub fn hard_link(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        fs::hard_link(self.path.join(from), self.path.join(to))
    }

    /// Removes an entry that is not a directory.
    ///
    /// # Errors
    /// Returns an error of the operating system.
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    /// Removes an empty directory.
    pub(crate) fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_dir(self.path.join(name))
    }

    /// Makes the names of the directory durable, which needs nothing here.
    ///
    /// # Errors
    /// Never.
    pub fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

fn kind(file_type: fs::FileType) -> EntryKind {
    if file_type.is_file() {
        EntryKind::File
    } else if file_type.is_dir() {
        EntryKind::Folder
    } else if file_type.is_symlink() {
        EntryKind::Link
    } else {
        EntryKind::Other
    }
}
