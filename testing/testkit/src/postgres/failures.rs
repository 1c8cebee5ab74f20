//! Failures of a running server.

use std::fs;
use std::io;
use std::path::Path;

use rustix::process::Signal;

use super::account::Account;
use super::directory::ServerDirectory;
use super::disk;
use super::endpoint::{SOCKET_PORT, socket_file};
use super::processes::{signal, within};
use super::server::PostgresServer;
use crate::{Relay, RelayFaults};

impl PostgresServer {
    /// Stops all processes of the server without ending them: connections stay open and silent.
    ///
    /// # Errors
    /// Returns an error if the server does not run.
    pub fn pause(&self) -> io::Result<()> {
        let server = self.process_id()?;
        // The first one creates no other processes then.
        signal(server, Signal::STOP)?;
        self.signal_others(server, Signal::STOP)
    }

    /// Continues the processes after [`Self::pause`].
    ///
    /// # Errors
    /// Returns an error if the server does not run.
    pub fn resume(&self) -> io::Result<()> {
        let server = self.process_id()?;
        self.signal_others(server, Signal::CONT)?;
        signal(server, Signal::CONT)
    }

    /// Ends all connections of clients, and returns their number.
    ///
    /// # Errors
    /// Returns an error if the server does not run.
    pub fn terminate_backends(&self) -> io::Result<usize> {
        let count = self.maintenance().query(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity \
             where pid <> pg_backend_pid() and backend_type = 'client backend'",
        )?;
        count.parse().map_err(io::Error::other)
    }

    /// Makes the disk of the data full, until [`Self::free_disk`].
    ///
    /// Writes that enlarge a file of the data fail with `ENOSPC`, as on a full disk; the file system
    /// itself is not full. Files are still overwritten in place, and empty ones are created. A table that
    /// needs a new block fails with `53100` (disk full). A log that needs a new segment ends the server's
    /// processes, which is what PostgreSQL does on a full disk.
    ///
    /// # Errors
    /// Returns an error if the settings lack
    /// [`with_limited_disk`](super::PostgresSettings::with_limited_disk).
    pub fn fill_disk(&self) -> io::Result<()> {
        if !self.settings.limited_disk {
            return Err(io::Error::other("the settings lack `with_limited_disk`"));
        }
        fs::write(disk::switch(self.directory.path()), "")
    }

    /// Ends the effect of [`Self::fill_disk`].
    ///
    /// # Errors
    /// Returns an error if the disk is not full.
    pub fn free_disk(&self) -> io::Result<()> {
        fs::remove_file(disk::switch(self.directory.path()))
    }

    /// Starts a relay to the server's Unix socket.
    ///
    /// [`Database::url_through`](super::Database::url_through) returns the URL for clients. For a relay to
    /// the port, pass [`Self::tcp_address`] to [`Relay::start`].
    ///
    /// # Errors
    /// Returns an error if the relay's socket cannot be created.
    pub fn relay(&self, faults: Option<RelayFaults>) -> io::Result<Relay> {
        let account = self.installation.account;
        start_relay(
            &self.directory,
            account,
            &self.endpoint.socket_file(),
            faults,
        )
    }

    fn signal_others(&self, server: u32, kind: Signal) -> io::Result<()> {
        for process in within(&self.data())? {
            if process != server {
                // It may have ended meanwhile.
                drop(signal(process, kind));
            }
        }
        Ok(())
    }
}

/// Starts a relay to a socket, with its own socket in a new directory for an account.
pub(super) fn start_relay(
    parent: &ServerDirectory,
    account: Account,
    target: &Path,
    faults: Option<RelayFaults>,
) -> io::Result<Relay> {
    let directory = parent.create_within("relay")?;
    let socket = socket_file(&directory, SOCKET_PORT);
    let relay = Relay::start_socket(&socket, target, faults)?;
    account.own(&directory)?;
    account.own(&socket)?;
    Ok(relay)
}
