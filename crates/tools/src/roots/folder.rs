//! Open directories and their entries (Unix).
//!
//! A directory is opened once. Its entries are reached from the descriptor by one name, and a link
//! in the place of an entry is never followed, so a directory cannot be exchanged after it was
//! examined.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags};

use super::entry::{EntryKind, FileId, FolderEntries};

/// A descriptor that only names a file or directory needs no permission to read it.
#[cfg(any(target_os = "linux", target_os = "android"))]
const NAMED: OFlags = OFlags::PATH;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const NAMED: OFlags = OFlags::RDONLY;

/// The mode of files and directories that only their owner may use.
const OWNER_FILE: u32 = 0o600;
const OWNER_FOLDER: u32 = 0o700;

/// An open directory.
///
/// Names passed to its functions are single names of entries. Links are never followed.
#[derive(Clone, Debug)]
pub struct FolderHandle {
    handle: Arc<OwnedFd>,
    path: PathBuf,
    id: FileId,
}

impl FolderHandle {
    /// Opens the directory at a path of the user, in which links are followed.
    ///
    /// # Errors
    /// Returns an error if the path does not exist or is not a directory.
    pub fn open(path: &Path) -> io::Result<Self> {
        let real = path.canonicalize()?;
        let flags = NAMED | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = fs::open(&real, flags, Mode::empty())?;
        Self::from_handle(handle, real)
    }

    fn from_handle(handle: OwnedFd, path: PathBuf) -> io::Result<Self> {
        let file = File::from(handle);
        let id = FileId::of(&file.metadata()?);
        Ok(Self {
            handle: Arc::new(file.into()),
            path,
            id,
        })
    }

    /// Returns the location at which the directory was opened, without links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    /// Returns the descriptor, shared with this handle.
    #[cfg(target_os = "linux")]
    pub(crate) fn descriptor(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.handle)
    }

    /// Opens a directory in this one.
    ///
    /// # Errors
    /// Returns an error if it does not exist or is not a directory. A link is not a directory.
    pub fn enter(&self, name: &OsStr) -> io::Result<Self> {
        let flags = NAMED | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = fs::openat(self, single(name)?, flags, Mode::empty())?;
        Self::from_handle(handle, self.path.join(name))
    }

    /// Returns the kind of an entry.
    ///
    /// # Errors
    /// Returns an error if it does not exist.
    pub fn kind(&self, name: &OsStr) -> io::Result<EntryKind> {
        let stat = fs::statat(self, single(name)?, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(kind(FileType::from_raw_mode(stat.st_mode)))
    }

    /// Returns the text of a link.
    pub(crate) fn link(&self, name: &OsStr) -> io::Result<PathBuf> {
        let text = fs::readlinkat(self, single(name)?, Vec::new())?;
        Ok(PathBuf::from(OsStr::from_bytes(text.as_bytes())))
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// Returns an error if the entry does not exist or is not a regular file.
    pub fn open_file(&self, name: &OsStr) -> io::Result<(File, Metadata)> {
        self.open_regular(name, OFlags::RDONLY)
    }

    /// Opens a regular file for reading and writing.
    ///
    /// # Errors
    /// Returns an error if the entry does not exist or is not a regular file.
    pub fn open_to_write(&self, name: &OsStr) -> io::Result<(File, Metadata)> {
        self.open_regular(name, OFlags::RDWR)
    }

    /// Opens a regular file for reading and appending.
    pub(crate) fn open_to_append(&self, name: &OsStr) -> io::Result<(File, Metadata)> {
        self.open_regular(name, OFlags::RDWR | OFlags::APPEND)
    }

    /// Returns the metadata of the directory.
    pub(crate) fn own_metadata(&self) -> io::Result<Metadata> {
        File::from(self.handle.try_clone()?).metadata()
    }

    /// Returns the metadata of a regular file.
    ///
    /// # Errors
    /// Returns an error if the entry does not exist or is not a regular file.
    pub fn metadata(&self, name: &OsStr) -> io::Result<Metadata> {
        Ok(self.open_regular(name, NAMED)?.1)
    }

    fn open_regular(&self, name: &OsStr, access: OFlags) -> io::Result<(File, Metadata)> {
        // Opening a pipe or a device can have effects.
        if self.kind(name)? != EntryKind::File {
            return Err(not_a_file());
        }
        let flags = access | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(fs::openat(self, single(name)?, flags, Mode::empty())?);
        let metadata = file.metadata()?;
        if metadata.is_file() {
            Ok((file, metadata))
        } else {
            Err(not_a_file())
        }
    }

    /// Returns at most `most` entries in no particular order.
    pub(crate) fn entries(&self, most: usize) -> io::Result<FolderEntries> {
        let mut found = FolderEntries::default();
        for entry in Dir::new(self.listed()?)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            if found.entries.len() >= most {
                found.cut = true;
                break;
            }
            let kind = match entry.file_type() {
                // Some file systems do not report it with the name.
                FileType::Unknown => self.kind(name).unwrap_or(EntryKind::Other),
                known => kind(known),
            };
            found.entries.push((name.to_owned(), kind));
        }
        Ok(found)
    }

    /// Creates a file for reading and writing; `private` restricts it to its owner.
    ///
    /// # Errors
    /// Returns an error if the name is taken.
    pub fn create_file(&self, name: &OsStr, private: bool) -> io::Result<File> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(if private { OWNER_FILE as _ } else { 0o666 });
        Ok(fs::openat(self, single(name)?, flags, mode)?.into())
    }

    /// Creates a directory; `private` restricts it to its owner.
    ///
    /// # Errors
    /// Returns an error if the name is taken.
    pub fn create_folder(&self, name: &OsStr, private: bool) -> io::Result<()> {
        let mode = Mode::from_raw_mode(if private { OWNER_FOLDER as _ } else { 0o777 });
        Ok(fs::mkdirat(self, single(name)?, mode)?)
    }

    /// Renames an entry within the directory; an existing file or link is replaced.
    ///
    /// # Errors
    /// Returns an error of the operating system.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(fs::renameat(self, single(from)?, self, single(to)?)?)
    }

    /// Gives a file a second name within the directory.
    ///
    /// # Errors
    /// Returns an error if the name is taken or the file system has no hard links.
    pub fn hard_link(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(fs::linkat(
            self,
            single(from)?,
            self,
            single(to)?,
            AtFlags::empty(),
        )?)
    }

    /// Removes an entry that is not a directory.
    ///
    /// # Errors
    /// Returns an error of the operating system.
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(fs::unlinkat(self, single(name)?, AtFlags::empty())?)
    }

    /// Removes an empty directory.
    pub(crate) fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(fs::unlinkat(self, single(name)?, AtFlags::REMOVEDIR)?)
    }

    /// Makes the names of the directory durable.
    ///
    /// # Errors
    /// Returns an error of the operating system.
    pub fn sync(&self) -> io::Result<()> {
        File::from(self.listed()?).sync_all()
    }

    /// Opens the same directory with permission to list it.
    fn listed(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(fs::openat(self, ".", flags, Mode::empty())?)
    }
}

impl AsFd for FolderHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

fn kind(file_type: FileType) -> EntryKind {
    match file_type {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Folder,
        FileType::Symlink => EntryKind::Link,
        _ => EntryKind::Other,
    }
}

fn not_a_file() -> io::Error {
    io::Error::other("it is not a regular file")
}

/// Returns a name that the system looks up in the directory itself.
fn single(name: &OsStr) -> io::Result<&OsStr> {
    let bytes = name.as_bytes();
    if matches!(bytes, b"" | b"." | b"..") || bytes.contains(&b'/') {
        return Err(io::Error::from(io::ErrorKind::InvalidFilename));
    }
    Ok(name)
}
