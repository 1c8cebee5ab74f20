//! Private files and durable file names.
//!
//! A file is private from its creation, and its name survives a loss of power.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Moves `temporary` to `path` unless `path` exists.
pub(crate) fn link_new(temporary: &Path, path: &Path) -> io::Result<()> {
    match std::fs::hard_link(temporary, path) {
        Ok(()) => std::fs::remove_file(temporary),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // A file system without hard links.
        Err(_) if !path.exists() => std::fs::rename(temporary, path),
        Err(error) => Err(error),
    }
}

/// Creates a hidden private file beside `path`.
///
/// A file left behind by a killed run is removed: no other process uses it while the caller holds the
/// lock on `path`. Without a lock (`held` is false) the name contains the id of this process.
pub(crate) fn temporary(path: &Path, held: bool) -> io::Result<(PathBuf, File)> {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    if !held {
        name.push(format!(".{}", std::process::id()));
    }
    name.push(".logue-tmp");
    let path = path.with_file_name(name);
    match std::fs::remove_file(&path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let file = private(OpenOptions::new().read(true).write(true).create_new(true)).open(&path)?;
    Ok((path, file))
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
