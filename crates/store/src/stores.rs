//! Stores by their addresses: one branch for each scheme.

use std::borrow::Cow;
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

/// Returns an address for messages, without its user name, password and query.
///
/// ```
/// use logue_store::redacted_address;
///
/// assert_eq!(redacted_address("postgres://ana:secret@host/db"), "postgres://[redacted]@host/db");
/// assert_eq!(redacted_address("postgres://host/db?password=x"), "postgres://host/db?[redacted]");
/// assert_eq!(redacted_address("sqlite:a@b.db"), "sqlite:a@b.db");
/// ```
pub fn redacted_address(url: &str) -> Cow<'_, str> {
    let Some((scheme, location)) = url.split_once("://") else {
        return url.into();
    };
    // A password may contain any of `@/?`; the host follows the last `@`.
    let (user, location) = match location.rsplit_once('@') {
        Some((_, location)) => ("[redacted]@", location),
        None => ("", location),
    };
    match location.split_once('?') {
        Some((location, _)) => format!("{scheme}://{user}{location}?[redacted]").into(),
        None if user.is_empty() => url.into(),
        None => format!("{scheme}://{user}{location}").into(),
    }
}
