//! `PgBouncer` in front of a server.

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Stdio};

use rustix::process::Signal;

use super::directory::{Place, ServerDirectory};
use super::endpoint::{SOCKET_PORT, socket_file};
use super::failures::start_relay;
use super::installation::Installation;
use super::processes::signal;
use super::server::PostgresServer;
use super::waiting::wait_until;
use crate::{Relay, RelayFaults};

/// A running `PgBouncer` with pools of transactions. It stops when it is dropped.
///
/// Clients connect to the URL that [`Database::url_on`](super::Database::url_on) returns for
/// [`Self::socket`]. Version 1.18 passes named prepared statements on as they are: a statement belongs to
/// the server's connection, so that the next transaction of a client may not find it, and another client
/// may find that its name is taken.
#[derive(Debug)]
pub struct PgBouncer {
    installation: Installation,
    process: Option<Child>,
    // Its drop ends the process.
    directory: ServerDirectory,
}

impl PgBouncer {
    /// Starts `PgBouncer` for all databases of a server, with parameters such as `default_pool_size`.
    ///
    /// Returns `None`, with a note, where it is not available.
    ///
    /// # Errors
    /// Returns an error if `PgBouncer` does not start.
    pub fn start(server: &PostgresServer, parameters: &[(&str, &str)]) -> io::Result<Option<Self>> {
        let Some(installation) = Installation::pgbouncer()? else {
            return Ok(None);
        };
        let directory = ServerDirectory::create(installation.account, Place::Memory)?;
        let (user, password) = (server.endpoint.user(), &server.endpoint.password);
        let (kind, password) = match password {
            Some(password) => ("scram-sha-256", password.as_str()),
            None => ("trust", ""),
        };
        let path = directory.path().display();
        let mut configuration = format!(
            "[databases]\n* = host={} port={}\n[pgbouncer]\npool_mode = transaction\n\
             listen_addr =\nlisten_port = {SOCKET_PORT}\nunix_socket_dir = {path}\n\
             auth_type = {kind}\nauth_file = {path}/users\nlogfile = {path}/log\n",
            server.endpoint.socket.display(),
            server.endpoint.socket_port(),
        );
        for (name, value) in parameters {
            configuration += &format!("{name} = {value}\n");
        }
        let users = format!("\"{user}\" \"{password}\"\n");
        for (name, content) in [("configuration", configuration), ("users", users)] {
            let file = directory.path().join(name);
            fs::write(&file, content)?;
            installation.account.own(&file)?;
        }
        let mut bouncer = Self {
            installation,
            process: None,
            directory,
        };
        bouncer.start_again()?;
        Ok(Some(bouncer))
    }

    /// Returns the directory of the Unix socket, whose port is 5432.
    pub fn socket(&self) -> &Path {
        self.directory.path()
    }

    /// Starts a relay to the Unix socket, as [`PostgresServer::relay`].
    ///
    /// # Errors
    /// Returns an error if the relay's socket cannot be created.
    pub fn relay(&self, faults: Option<RelayFaults>) -> io::Result<Relay> {
        let target = socket_file(self.socket(), SOCKET_PORT);
        start_relay(&self.directory, self.installation.account, &target, faults)
    }

    /// Stops `PgBouncer`, which cuts all connections, and starts it again.
    ///
    /// # Errors
    /// Returns an error if it does not stop or start.
    pub fn restart(&mut self) -> io::Result<()> {
        self.stop()?;
        self.start_again()
    }

    /// Stops `PgBouncer`, which cuts all connections.
    ///
    /// # Errors
    /// Returns an error if it does not stop within a minute.
    pub fn stop(&mut self) -> io::Result<()> {
        let Some(mut process) = self.process.take() else {
            return Ok(());
        };
        signal(process.id(), Signal::TERM)?;
        wait_until("PgBouncer does not stop", || {
            Ok(process.try_wait()?.is_some())
        })
    }

    /// Starts `PgBouncer` after [`Self::stop`].
    ///
    /// # Errors
    /// Returns an error, with the log, if it does not start.
    pub fn start_again(&mut self) -> io::Result<()> {
        if self.process.is_some() {
            return Ok(());
        }
        let directory = self.directory.path();
        let mut process = self
            .installation
            .command("pgbouncer")
            .args(["-q", "configuration"])
            // The supervisor finds the process by its working directory.
            .current_dir(directory)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let socket = socket_file(directory, SOCKET_PORT);
        wait_until("PgBouncer does not start", || {
            if let Some(status) = process.try_wait()? {
                let log = fs::read_to_string(directory.join("log")).unwrap_or_default();
                return Err(io::Error::other(format!(
                    "PgBouncer ended: {status}\n{log}"
                )));
            }
            Ok(UnixStream::connect(&socket).is_ok())
        })?;
        self.process = Some(process);
        Ok(())
    }
}
