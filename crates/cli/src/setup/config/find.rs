//! The search for the project's `logue.toml`.

use std::path::{Path, PathBuf};

/// The name of a project's file.
pub(crate) const PROJECT_FILE: &str = "logue.toml";

/// Finds the nearest `logue.toml` in `folder` and above.
///
/// The search ends at the directory of the repository or the home directory, and ignores files of
/// other users.
pub(super) fn project_file(folder: &Path, home: Option<&Path>) -> Option<PathBuf> {
    for folder in folder.ancestors() {
        let file = folder.join(PROJECT_FILE);
        if std::fs::metadata(&file).is_ok_and(|metadata| metadata.is_file() && is_own(&metadata)) {
            return Some(file);
        }
        if folder.join(".git").exists() || Some(folder) == home {
            return None;
        }
    }
    None
}

/// Returns whether a file belongs to this user or to the system.
///
/// A file of another user in a shared parent directory must not configure this program.
fn is_own(metadata: &std::fs::Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let this_user = std::fs::metadata("/proc/self").map(|own| own.uid());
        metadata.uid() == 0 || this_user.is_ok_and(|user| user == metadata.uid())
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        true
    }
}
