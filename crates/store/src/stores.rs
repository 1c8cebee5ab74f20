//! Stores by their addresses: one branch for each scheme.

use std::sync::Arc;

use logue_harness::events::EventLog;
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
    open_store_with(url, &StoreOptions::default()).map(|opened| opened.store)
}

/// Opens the store at an address with the log of events that belongs to it.
///
/// # Errors
/// As [`open_store`].
pub fn open_store_with(url: &str, options: &StoreOptions) -> Result<OpenedStore, StoreError> {
    let alone = |store| OpenedStore {
        store,
        events: None,
    };
    if url == "memory:" {
        return Ok(alone(Arc::new(MemoryStore::new())));
    }
    #[cfg(feature = "sqlite")]
    if let Some(path) = url.strip_prefix("sqlite:").filter(|path| !path.is_empty()) {
        return Ok(alone(Arc::new(crate::SqliteStore::open(path)?)));
    }
    #[cfg(feature = "postgres")]
    if crate::postgres::is_address(url) {
        let own = crate::PostgresOptions::default().listen(options.listen.clone());
        let store = Arc::new(crate::PostgresStore::open_with(url, own)?);
        let events = Arc::new(crate::PostgresEventLog::new(Arc::clone(&store)));
        return Ok(OpenedStore {
            store,
            events: Some(events),
        });
    }
    Err(StoreError::InvalidAddress(shown_address(url)))
}

/// Options for opening a store of any kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreOptions {
    /// The address for notifications of a database, if its own leads to a pooler.
    pub listen: Option<String>,
}

impl StoreOptions {
    /// Sets the address for notifications of a database.
    #[must_use]
    pub fn listen(mut self, listen: Option<String>) -> Self {
        self.listen = listen;
        self
    }
}

/// An open store.
#[derive(Clone)]
#[non_exhaustive]
pub struct OpenedStore {
    /// The store.
    pub store: SharedStore,
    /// The log of events that all users of the store share, if it has one.
    pub events: Option<Arc<dyn EventLog>>,
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
