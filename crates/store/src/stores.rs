//! Stores by their addresses: one branch for each scheme.

use std::sync::Arc;

use logue_harness::store::{MemoryStore, SharedStore, StoreError};

/// Opens the store at an address.
///
/// `sqlite:PATH` is a file, relative to the working directory unless the path is absolute, and
/// `memory:` is a new store that is dropped with its last reference. `postgres://…` is a database.
/// Blocks while a store is opened, which may include waiting for another process or a server.
///
/// # Errors
/// Returns [`StoreError::InvalidAddress`] for other addresses, and the errors of
/// [`SqliteStore::open`](crate::SqliteStore::open) and of
/// [`PostgresStore::open`](crate::PostgresStore::open).
pub fn open_store(url: &str) -> Result<SharedStore, StoreError> {
    if url == "memory:" {
        return Ok(Arc::new(MemoryStore::new()));
    }
    #[cfg(feature = "sqlite")]
    if let Some(path) = url.strip_prefix("sqlite:").filter(|path| !path.is_empty()) {
        return Ok(Arc::new(crate::SqliteStore::open(path)?));
    }
    #[cfg(feature = "postgres")]
    if crate::postgres::is_address(url) {
        return Ok(Arc::new(crate::PostgresStore::open(url)?));
    }
    Err(StoreError::InvalidAddress(shown_address(url)))
}

/// Returns an invalid address for messages.
///
/// After an unknown scheme, an address may contain a password.
fn shown_address(url: &str) -> String {
    match url.split_once(':') {
        Some((scheme @ ("sqlite" | "memory"), path)) => format!("{scheme}:{path}"),
        Some((scheme, _)) => format!("{scheme}:…"),
        None => url.to_owned(),
    }
}

/// Returns whether [`open_store`] accepts an address of this kind.
pub fn is_store_address(url: &str) -> bool {
    let is_file = || {
        url.strip_prefix("sqlite:")
            .is_some_and(|path| !path.is_empty())
    };
    #[cfg(feature = "postgres")]
    if crate::postgres::is_address(url) {
        return true;
    }
    url == "memory:" || (cfg!(feature = "sqlite") && is_file())
}
