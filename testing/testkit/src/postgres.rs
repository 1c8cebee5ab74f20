//! Private PostgreSQL 15 servers.
//!
//! [`PostgresServer::start`] runs a server on a copy of a cached cluster, which takes about 0.1 s: a
//! test starts its own. [`PostgresServer::shared`] is one server for a process. Programs are those of
//! Debian's package if it is installed; otherwise `testing/testkit/postgres/fetch` unpacks them without
//! root. Where that fails, the functions return `None` and print a line that begins with `SKIPPED:`.
//!
//! A server ends, and its directory is removed, when its value is dropped and when the process ends,
//! even if it is killed.

mod account;
mod cluster;
mod database;
mod directory;
mod disk;
mod endpoint;
mod failures;
mod installation;
mod pgbouncer;
mod processes;
mod replica;
mod server;
mod settings;
mod waiting;

pub use database::Database;
pub use pgbouncer::PgBouncer;
pub use server::{PostgresServer, StopMode};
pub use settings::PostgresSettings;
