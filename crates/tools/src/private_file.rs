//! Files of this user's own: trust, records, settings, sessions and caches.
//!
//! Such a file is obeyed, so no other user may have written it. Kind, owner and mode are those of
//! the open file, not of a path that is looked up again.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::roots::{EntryKind, FolderHandle};

/// The users whose files are obeyed as those of this user.
///
/// They are the effective user and root. Root obeys the files of another user only in that user's
/// own directories, while `HOME` is that user's home.
#[derive(Clone, Copy, Debug)]
pub struct FileOwners {
    #[cfg(unix)]
    user: u32,
    /// The owner of the home directory, if root uses it.
    #[cfg(unix)]
    home: Option<u32>,
}

/// The reason why a file is not obeyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PrivateFileError {
    /// A link is in its place.
    Link,
    /// A directory is in its place.
    Folder,
    /// A pipe, socket or device is in its place.
    Special,
    /// It belongs to another user.
    Owner(u32),
    /// Other users may write to it.
    Writable(u32),
    /// Its directory belongs to another user.
    FolderOwner(u32),
    /// Other users may replace the files of its directory.
    FolderWritable(u32),
}

impl std::fmt::Display for PrivateFileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Link => write!(f, "it is a link, not a file"),
            Self::Folder => write!(f, "it is a directory, not a file"),
            Self::Special => write!(f, "it is a pipe, socket or device, not a file"),
            Self::Owner(user) => write!(f, "it belongs to another user, number {user}"),
            Self::Writable(mode) => write!(f, "other users may write to it (mode {mode:o})"),
            Self::FolderOwner(user) => {
                write!(f, "its directory belongs to another user, number {user}")
            }
            Self::FolderWritable(mode) => write!(
                f,
                "other users may replace files of its directory (mode {mode:o})"
            ),
        }
    }
}

impl std::error::Error for PrivateFileError {}

impl PrivateFileError {
    /// Returns the refusal in an error of this module; `None` for other errors.
    pub fn in_error(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }

    /// Returns the remedy, for the user.
    pub const fn help(self) -> &'static str {
        match self {
            Self::Link | Self::Folder | Self::Special => {
                "remove it; if you did not put it there, find out who did"
            }
            Self::Owner(_) => {
                "remove it, or, if you know its content, take it over with `sudo chown`"
            }
            Self::Writable(_) => "examine its content, then run `chmod go-w` on it",
            Self::FolderOwner(_) => "use a directory of your own",
            Self::FolderWritable(_) => {
                "use a directory of your own, or run `chmod go-w` on the directory"
            }
        }
    }
}

impl From<PrivateFileError> for io::Error {
    fn from(refusal: PrivateFileError) -> Self {
        Self::other(refusal)
    }
}

/// The way to treat a link in the place of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Links {
    Refused,
    /// Followed if it belongs to the same users.
    Followed,
}

impl Default for FileOwners {
    fn default() -> Self {
        Self::new(None)
    }
}

impl FileOwners {
    /// Returns the owners for this process; `home` is the home directory.
    pub fn new(home: Option<&Path>) -> Self {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            let user = rustix::process::geteuid().as_raw();
            let home = home
                .filter(|_| user == 0)
                .and_then(|home| home.metadata().ok());
            Self {
                user,
                home: home.map(|metadata| metadata.uid()),
            }
        }
        #[cfg(not(unix))]
        {
            let _ = home;
            Self {}
        }
    }

    /// Opens a file for reading; a link is refused.
    ///
    /// # Errors
    /// Returns [`PrivateFileError`] in an I/O error if the file is not obeyed, and errors of the
    /// operating system.
    pub fn open(self, path: &Path) -> io::Result<File> {
        self.find(path, Links::Refused, FolderHandle::open_file)
    }

    /// Opens a file for reading, also through a link of this user.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_linked(self, path: &Path) -> io::Result<File> {
        self.find(path, Links::Followed, FolderHandle::open_file)
    }

    /// Opens a file for reading and appending, created if it is missing.
    ///
    /// A new file is accessible to this user only. Returns whether it was created. A link is refused.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_to_append(self, path: &Path) -> io::Result<(File, bool)> {
        loop {
            match self.find(path, Links::Refused, FolderHandle::open_to_append) {
                Ok(file) => return Ok((file, false)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            let (folder, name) = place(path)?;
            match folder.create_file(name, true) {
                Ok(file) => return Ok((file, true)),
                // Another process has created it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Checks a file, and a link to it, without opening it for access.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn check(self, path: &Path) -> io::Result<()> {
        self.find(path, Links::Followed, |folder, name| {
            Ok(((), folder.metadata(name)?))
        })
    }

    /// Checks that no other user can replace the files of a directory.
    ///
    /// A directory of root in which users replace only their own files, as `/tmp`, is accepted.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn check_folder(self, path: &Path) -> io::Result<()> {
        let folder = FolderHandle::open(path)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            let metadata = folder.own_metadata()?;
            let (owner, mode) = (metadata.uid(), metadata.mode() & 0o7777);
            if !self.contains(owner) && self.home != Some(owner) {
                return Err(PrivateFileError::FolderOwner(owner).into());
            }
            // An administrator decides about the groups of root's directories.
            let by_group = owner != 0 && is_writable_by_group(&metadata);
            if mode & STICKY == 0 && (by_group || mode & 0o002 != 0) {
                return Err(PrivateFileError::FolderWritable(mode).into());
            }
        }
        #[cfg(not(unix))]
        drop(folder);
        Ok(())
    }

    /// Opens a file and checks what was opened.
    fn find<T>(
        self,
        path: &Path,
        links: Links,
        open: fn(&FolderHandle, &OsStr) -> io::Result<(T, Metadata)>,
    ) -> io::Result<T> {
        let (folder, name) = place(path)?;
        match folder.kind(name)? {
            EntryKind::File => {}
            EntryKind::Link if links == Links::Followed => {
                self.check_owner(&folder, &path.symlink_metadata()?)?;
                return self.find(&path.canonicalize()?, Links::Refused, open);
            }
            EntryKind::Link => return Err(PrivateFileError::Link.into()),
            EntryKind::Folder => return Err(PrivateFileError::Folder.into()),
            EntryKind::Other => return Err(PrivateFileError::Special.into()),
        }
        let (file, metadata) = open(&folder, name)?;
        self.check_owner(&folder, &metadata)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            let mode = metadata.mode() & 0o777;
            if mode & 0o002 != 0 || is_writable_by_group(&metadata) {
                return Err(PrivateFileError::Writable(mode).into());
            }
        }
        Ok(file)
    }

    #[cfg(unix)]
    fn check_owner(self, folder: &FolderHandle, metadata: &Metadata) -> io::Result<()> {
        use std::os::unix::fs::MetadataExt as _;
        let owner = metadata.uid();
        if self.contains(owner) {
            return Ok(());
        }
        if self.home == Some(owner) && folder.own_metadata()?.uid() == owner {
            return Ok(());
        }
        Err(PrivateFileError::Owner(owner).into())
    }

    #[cfg(not(unix))]
    fn check_owner(self, _: &FolderHandle, _: &Metadata) -> io::Result<()> {
        Ok(())
    }

    #[cfg(unix)]
    fn contains(self, user: u32) -> bool {
        user == self.user || user == 0
    }
}

/// Replaces a file as a whole by a private one.
///
/// What was in its place is replaced, also a link. The directory must exist.
///
/// # Errors
/// Returns an error of the operating system.
pub fn replace_private_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let (folder, name) = place(path)?;
    let mut unfinished = name.to_owned();
    let number = REPLACEMENTS.fetch_add(1, Ordering::Relaxed);
    unfinished.push(format!(".{}.{number}", std::process::id()));
    match folder.remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    folder.create_file(&unfinished, true)?.write_all(content)?;
    folder.rename(&unfinished, name)
}

/// The number of replacements, so that threads write to different files.
static REPLACEMENTS: AtomicU64 = AtomicU64::new(0);

/// Opens the directory of a file.
fn place(path: &Path) -> io::Result<(FolderHandle, &OsStr)> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let invalid = || io::Error::from(io::ErrorKind::InvalidFilename);
    let name = path.file_name().ok_or_else(invalid)?;
    Ok((FolderHandle::open(folder)?, name))
}

/// Directories in which users replace only their own files.
#[cfg(unix)]
const STICKY: u32 = 0o1000;

/// Returns whether a group of other users may write.
///
/// A group with the number of the owner is that user's alone.
#[cfg(unix)]
fn is_writable_by_group(metadata: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    metadata.mode() & 0o020 != 0 && metadata.gid() != metadata.uid()
}
