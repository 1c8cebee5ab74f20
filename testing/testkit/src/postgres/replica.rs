//! Replicas of a server.

use std::fs::File;
use std::io;

use super::database::output;
use super::directory::ServerDirectory;
use super::server::{PostgresServer, StopMode};
use super::waiting::wait_until;

impl PostgresServer {
    /// Starts a replica, which receives every change and permits reads.
    ///
    /// It has the settings and users of this server, and sockets of its own.
    ///
    /// # Errors
    /// Returns an error if the server cannot be copied, or if the replica does not start.
    pub fn replica(&self) -> io::Result<Self> {
        let directory = ServerDirectory::create(self.installation.account, self.settings.place())?;
        let mut command = self.installation.command("pg_basebackup");
        let url = self.maintenance().url();
        command
            .current_dir(directory.path())
            .args(["-d", &url, "-D"]);
        command.arg(directory.path().join("data"));
        // The configuration of the copy names this server as its source.
        output(command.args(["-X", "stream", "-c", "fast", "-R", "--no-sync"]))?;
        let (installation, settings) = (self.installation.clone(), self.settings.clone());
        let password = self.endpoint.password.clone();
        let mut replica = Self::stopped(installation, settings, password, directory);
        replica.start_on_free_port()?;
        Ok(replica)
    }

    /// Waits until this replica has applied what its source has written until now.
    ///
    /// # Errors
    /// Returns an error if one of the servers does not run, or after a minute.
    pub fn catch_up_with(&self, source: &Self) -> io::Result<()> {
        let position = source.maintenance().query("select pg_current_wal_lsn()")?;
        let replica = self.maintenance();
        let sql = format!("select pg_last_wal_replay_lsn() >= '{position}'");
        wait_until("the replica does not catch up", || {
            Ok(replica.query(&sql)? == "t")
        })
    }

    /// Starts the server again as a standby, which permits reads only until [`Self::promote`].
    ///
    /// # Errors
    /// Returns an error if the server does not stop or start.
    pub fn demote(&mut self) -> io::Result<()> {
        self.stop(StopMode::Fast)?;
        File::create(self.data().join("standby.signal"))?;
        self.start_again()
    }

    /// Makes this replica a server of its own, and waits until it accepts writes.
    ///
    /// # Errors
    /// Returns an error if the server is not a replica.
    pub fn promote(&self) -> io::Result<()> {
        let promoted = self.maintenance().query("select pg_promote(true, 60)")?;
        if promoted == "t" {
            return Ok(());
        }
        Err(io::Error::other(
            "the replica was not promoted within a minute",
        ))
    }
}
