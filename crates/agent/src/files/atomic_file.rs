//! Private files and durable file names.
//!
//! A file is private from its creation, and its name survives a loss of power.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use logue_tools::FolderHandle;

/// Renames `temporary` to `name` unless that name is taken.
pub(crate) fn link_new(folder: &FolderHandle, temporary: &OsStr, name: &OsStr) -> io::Result<()> {
    match folder.hard_link(temporary, name) {
        Ok(()) => folder.remove_file(temporary),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        Err(error) => match folder.kind(name) {
            // A file system without hard links.
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => {
                folder.rename(temporary, name)
            }
            _ => Err(error),
        },
    }
}

/// Creates a hidden private file for the next content of the file `name`.
///
/// A file left behind by a killed run is removed: no other process uses it while the caller holds the
/// lock on `name`. Without a lock (`held` is false) the name contains the id of this process.
pub(crate) fn temporary(
    folder: &FolderHandle,
    name: &OsStr,
    held: bool,
) -> io::Result<(OsString, File)> {
    let mut hidden = OsString::from(".");
    hidden.push(name);
    if !held {
        hidden.push(format!(".{}", std::process::id()));
    }
    hidden.push(".logue-tmp");
    match folder.remove_file(&hidden) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let file = folder.create_file(&hidden, true)?;
    Ok((hidden, file))
}

pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Makes a rename or a new name in the file's directory durable.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(folder_of(path))?.sync_all()?;
    }
    Ok(())
}

/// Restricts new files to their owner, because transcripts contain parts hidden from users.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options
}
