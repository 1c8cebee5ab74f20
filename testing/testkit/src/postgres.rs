//! Private PostgreSQL 15 servers.
//!
//! [`PostgresServer::start`] runs a server on a copy of a cached cluster, which takes less than 0.1 s: a
//! test starts its own. [`PostgresServer::shared`] is one server for a process. Programs are those of
//! Debian's package if it is installed; otherwise `testing/testkit/postgres/fetch` unpacks them without
//! root. Where that fails, the functions return `None` and print a line that begins with `SKIPPED:`.
//!
//! A server ends, and its directory is removed, when its value is dropped and when the process ends,
//! even if it is killed.

mod account;
mod database;
mod directory;
mod installation;
mod processes;
mod server;
mod settings;

pub use database::Database;
pub use server::{PostgresServer, StopMode};
pub use settings::PostgresSettings;

/// Returns the command `pgbench`; `None`, with a note, where it is not available.
///
/// # Errors
/// Returns an error if the programs cannot be inspected.
pub fn pgbench() -> std::io::Result<Option<std::process::Command>> {
    let installation = installation::Installation::server()?;
    Ok(installation.map(|installation| installation.command("pgbench")))
}
