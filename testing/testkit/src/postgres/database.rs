//! A database of a server.

use std::io;
use std::path::Path;
use std::process::Command;

use super::endpoint::Endpoint;
use super::installation::Installation;
use crate::Relay;

/// A database. It exists until its server is dropped.
#[derive(Clone, Debug)]
pub struct Database {
    pub(crate) installation: Installation,
    pub(crate) endpoint: Endpoint,
    pub(crate) name: String,
}

impl Database {
    /// Returns the name of the database.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the URL of the database on the server's Unix socket.
    ///
    /// The host is the percent-encoded directory of the socket, which libpq, tokio-postgres and sqlx
    /// accept.
    pub fn url(&self) -> String {
        self.endpoint.url(&self.name)
    }

    /// Returns the URL of the database on the socket in another directory, such as that of a relay.
    pub fn url_on(&self, directory: &Path) -> String {
        self.endpoint.url_on(directory, &self.name)
    }

    /// Returns the URL of the database through a relay to the server's socket or port.
    pub fn url_through(&self, relay: &Relay) -> String {
        let address = Path::new(relay.address());
        match (address.is_absolute(), address.parent()) {
            (true, Some(directory)) => self.url_on(directory),
            _ => self.endpoint.url_at(relay.address(), &self.name),
        }
    }

    /// Returns the URL of the database on the server's port, if it has one.
    pub fn tcp_url(&self) -> Option<String> {
        self.endpoint.tcp_url(&self.name)
    }

    /// Runs SQL with `psql`, and returns its rows: fields are separated by `|`.
    ///
    /// # Errors
    /// Returns an error with the messages of `psql` if a statement fails.
    pub fn query(&self, sql: &str) -> io::Result<String> {
        let mut psql = self.psql(&self.url());
        output(psql.args(["-c", sql]))
    }

    /// Returns the command `psql` for a URL, which prints rows only and ends at the first error.
    pub fn psql(&self, url: &str) -> Command {
        let mut command = self.installation.command("psql");
        command.args(["-qAtX", "-v", "ON_ERROR_STOP=1", "-d", url]);
        command
    }

    /// Returns the benchmark program `pgbench`; its last argument must be a URL of the database.
    pub fn pgbench(&self) -> Command {
        self.installation.command("pgbench")
    }
}

/// Runs a command, and returns its output without the last line end.
pub(crate) fn output(command: &mut Command) -> io::Result<String> {
    let output = command.output()?;
    if output.status.success() {
        let text = String::from_utf8_lossy(&output.stdout);
        return Ok(text.trim_end().to_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(errors.into_owned()))
}
