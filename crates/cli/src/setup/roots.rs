//! The folders that a prompt and its tools may read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use logue_tools::Roots;

use crate::arguments::Asking;
use crate::exit::Failure;
use crate::setup::config::Config;

/// The folders that may be read: the prompt's own, then flags, then configuration.
pub(crate) fn roots(
    folder: &Path,
    asking: &Asking,
    config: &Config,
) -> Result<Arc<Roots>, Failure> {
    let folders = std::iter::once(folder.to_owned())
        .chain(asking.roots.iter().cloned())
        .chain(config.roots());
    let folders: Vec<PathBuf> = folders.collect();
    Roots::new(folders).map(Arc::new).map_err(|error| {
        Failure::user("E-SOURCE-READ", format!("a root cannot be used: {error}"))
            .with_help("--root and `[tools] roots` name folders that exist")
    })
}
