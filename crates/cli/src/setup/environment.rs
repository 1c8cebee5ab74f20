//! Variables of the environment, and the user's folders.

use std::path::PathBuf;

use etcetera::BaseStrategy as _;

/// An environment variable with something in it.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// A folder for what can be had again, below the user's XDG cache folder.
pub(crate) fn cache_folder(name: &str) -> Option<PathBuf> {
    let folders = etcetera::choose_base_strategy().ok()?;
    Some(folders.cache_dir().join("logue").join(name))
}

/// The folder for what belongs to the user and outlives a run, below the user's XDG state folder.
pub(crate) fn state_folder() -> Option<PathBuf> {
    let folders = etcetera::choose_base_strategy().ok()?;
    let folder = folders.state_dir().unwrap_or_else(|| folders.data_dir());
    Some(folder.join("logue"))
}

/// The folder for what belongs to the user, below their XDG data folder.
pub(crate) fn data_folder() -> Option<PathBuf> {
    let folders = etcetera::choose_base_strategy().ok()?;
    Some(folders.data_dir().join("logue"))
}
