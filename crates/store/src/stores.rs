//! Stores by their addresses.

use std::sync::Arc;

use logue_harness::store::{MemoryStore, SharedStore, StoreError};

/// Opens stores by address. See [`open`](Self::open).
#[derive(Clone, Copy, Debug)]
pub struct Stores;

impl Stores {
    /// Opens the store at an address.
    ///
    /// `sqlite:PATH` is a file, relative to the working directory unless the path is absolute, and
    /// `memory:` is a new store that is dropped with its last reference. Blocks while a file is
    /// opened, which may include waiting for another process.
    ///
    /// # Errors
    /// Returns [`StoreError::NotFound`] for other addresses, and the errors of
    /// [`SqliteStore::open`](crate::SqliteStore::open).
    pub fn open(url: &str) -> Result<SharedStore, StoreError> {
        if url == "memory:" {
            return Ok(Arc::new(MemoryStore::new()));
        }
        #[cfg(feature = "sqlite")]
        if let Some(path) = url.strip_prefix("sqlite:").filter(|path| !path.is_empty()) {
            return Ok(Arc::new(crate::SqliteStore::open(path)?));
        }
        // An address may contain a password after its scheme.
        let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
        Err(StoreError::NotFound {
            what: format!(
                "store at an address of the kind `{scheme}:` (known are `sqlite:PATH` and `memory:`)"
            ),
        })
    }
}
