//! A database of a server.

use std::io;
use std::path::Path;
use std::process::Command;

use super::installation::Installation;

/// A database. It exists until its server is dropped.
#[derive(Clone, Debug)]
pub struct Database {
    pub(crate) installation: Installation,
    pub(crate) url: String,
}

impl Database {
    /// Returns the URL of the database, for the user `postgres` on the Unix socket.
    ///
    /// The host is the percent-encoded directory of the socket, which libpq, tokio-postgres and sqlx
    /// accept.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Runs SQL with `psql`, and returns its rows: fields are separated by `|`.
    ///
    /// # Errors
    /// Returns an error with the messages of `psql` if a statement fails.
    pub fn query(&self, sql: &str) -> io::Result<String> {
        let mut command = self.psql();
        let output = command
            .args(["-qAtX", "-v", "ON_ERROR_STOP=1", "-c", sql])
            .output()?;
        if !output.status.success() {
            return Err(io::Error::other(
                String::from_utf8_lossy(&output.stderr).into_owned(),
            ));
        }
        Ok(String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned())
    }

    /// Returns the command `psql`, connected to the database.
    pub fn psql(&self) -> Command {
        let mut command = self.installation.command("psql");
        command.args(["-d", &self.url]);
        command
    }
}

/// Returns the URL of a database on the socket in a directory.
pub(crate) fn socket_url(directory: &Path, database: &str) -> String {
    let directory = directory
        .to_string_lossy()
        .replace('%', "%25")
        .replace('/', "%2F");
    format!("postgresql://postgres@{directory}/{database}")
}
