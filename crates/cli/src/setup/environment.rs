//! Environment variables and the user's directories.

use std::path::PathBuf;

use etcetera::BaseStrategy;
use logue_tools::FileOwners;

/// Returns the value of an environment variable that is not empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the directory of a cache, below the user's XDG cache directory.
pub(crate) fn cache_folder(name: &str) -> Option<PathBuf> {
    let folders = etcetera::choose_base_strategy().ok()?;
    Some(folders.cache_dir().join("logue").join(name))
}

/// Returns the directory of persistent state, below the user's XDG state directory.
pub(crate) fn state_folder() -> Option<PathBuf> {
    let folders = etcetera::choose_base_strategy().ok()?;
    let folder = folders.state_dir().unwrap_or_else(|| folders.data_dir());
    Some(folder.join("logue"))
}

/// Returns the directory of the user's data, below the XDG data directory.
pub(crate) fn data_folder() -> Option<PathBuf> {
    let folders = etcetera::choose_base_strategy().ok()?;
    Some(folders.data_dir().join("logue"))
}

/// Returns the users whose files are obeyed as those of this user.
pub(crate) fn file_owners() -> FileOwners {
    let folders = etcetera::choose_base_strategy().ok();
    FileOwners::new(folders.as_ref().map(BaseStrategy::home_dir))
}
