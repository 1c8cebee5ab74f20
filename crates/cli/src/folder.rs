//! The files of a folder.

use std::io;
use std::path::{Path, PathBuf};

use crate::exit::Failure;

/// The files below a folder that `wanted` wants, in the order of their names. Hidden folders, `target`
/// and links are not entered.
pub(crate) fn find_files(
    folder: &Path,
    wanted: impl Fn(&Path) -> bool,
) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        let unreadable = |error: io::Error| {
            let message = format!("`{}` cannot be searched: {error}", folder.display());
            Failure::user("E-SOURCE-READ", message)
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
