//! Stores of chat sessions, and a conformance suite for any store.
//!
//! [`SqliteStore`] stores sessions in a file, and `PostgresStore`, with the feature `postgres`, in a
//! database that many nodes share. The module `conformance`, which requires the feature of
//! that name, checks any store.
//!
//! The port is [`logue_harness::store::Store`]. A store on another medium implements that trait and
//! runs the suite in its tests; the suite does not depend on the medium, and has one case per promise
//! of the port.
//!
//! ```
//! use logue_harness::Timestamp;
//! use logue_store::open_store;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let url = format!("sqlite:{}", folder.path().join("sessions.db").display());
//! let store = open_store(&url)?;
//! store.set_label("s1", "agent", "critic.chat".into(), Timestamp(0)).await?;
//! drop(store);
//!
//! let store = open_store(&url)?;
//! let session = store.session("s1").await?.ok_or("no session")?;
//! assert_eq!(session.labels.get("agent"), Some(&"critic.chat".into()));
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! - `sqlite` (default): the store in a file.
//! - `postgres`: the store in a PostgreSQL database.
//! - `conformance`: the suite that checks a store.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod encoding;
#[cfg(feature = "postgres")]
mod postgres;
mod redacted;
#[cfg(feature = "sqlite")]
mod search;
#[cfg(feature = "sqlite")]
mod sqlite;
mod stores;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod transfer;

#[cfg(feature = "postgres")]
pub use postgres::{LeaseTime, PostgresEventLog, PostgresOptions, PostgresStore};
pub use redacted::redacted_address;
#[cfg(feature = "sqlite")]
pub use search::{SearchHit, SearchIndex};
#[cfg(feature = "sqlite")]
pub use sqlite::{
    RestoreReport, SqliteEventLog, SqliteOptions, SqliteStore, back_up, is_session_store,
    mend_schema, restore, vacuum,
};
pub use stores::{OpenedStore, StoreOptions, is_store_address, open_store, open_store_with};
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use transfer::{
    SessionComparison, Transfer, TransferEnd, TransferError, TransferResult, TransferSize,
};
