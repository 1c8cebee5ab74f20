//! The files of a directory, and those that a document in it may reference.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use logue_agent::FileLoader;
use logue_tools::{RootError, Roots};

use crate::exit::CliError;

/// Returns a loader for the files that a document at `path` may reference.
///
/// These are the files in its directory and below; for standard input, in the current directory.
pub(crate) fn file_world(path: &Path) -> Result<FileLoader, RootError> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let roots = Roots::new([folder.to_owned()])?;
    Ok(FileLoader::new(Arc::new(roots), folder).of_file(path))
}

/// Returns the files below a directory that `wanted` accepts, sorted by name.
///
/// Hidden directories, `target` and links are not entered.
pub(crate) fn find_files(
    folder: &Path,
    wanted: impl Fn(&Path) -> bool,
) -> Result<Vec<PathBuf>, CliError> {
    let mut files = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        let unreadable = |error: io::Error| {
            let message = format!("cannot search `{}`: {error}", folder.display());
            CliError::user("E-SOURCE-READ", message)
        };
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(&folder).map_err(unreadable)? {
            entries.push(entry.map_err(unreadable)?);
        }
        entries.sort_by_key(std::fs::DirEntry::file_name);
        let mut folders = Vec::new();
        for entry in entries {
            let name = entry.file_name();
            let kind = entry.file_type().map_err(unreadable)?;
            let hidden = name.to_string_lossy().starts_with('.');
            if kind.is_file() && wanted(&entry.path()) {
                files.push(entry.path());
            } else if kind.is_dir() && name != "target" && !hidden {
                folders.push(entry.path());
            }
        }
        waiting.extend(folders.into_iter().rev());
    }
    Ok(files)
}

pub(crate) fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}
