//! A server with its cluster.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::Signal;

use super::cluster;
use super::database::Database;
use super::directory::ServerDirectory;
use super::disk;
use super::endpoint::{CLIENT, Endpoint, free_port, password};
use super::installation::Installation;
use super::processes::signal;
use super::settings::{Access, PostgresSettings};
use super::waiting::wait_until;

/// The number of ports that are tried: another process may take a free one first.
const PORTS: usize = 5;

/// The way in which a server stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMode {
    /// Ends the connections, rolls their transactions back and writes a checkpoint.
    Fast,
    /// Ends all processes at once; the next start recovers from the log.
    Immediate,
}

/// A running server. It stops, and its data is removed, when it is dropped.
#[derive(Debug)]
pub struct PostgresServer {
    pub(super) installation: Installation,
    pub(super) settings: PostgresSettings,
    pub(super) endpoint: Endpoint,
    process: Option<Child>,
    databases: AtomicU32,
    // Its drop ends the processes.
    pub(super) directory: ServerDirectory,
}

impl PostgresServer {
    /// Starts a server with an empty cluster; `None`, with a note, where PostgreSQL is not available.
    ///
    /// # Errors
    /// Returns an error, with the end of the server's log, if the server does not start.
    pub fn start() -> io::Result<Option<Self>> {
        Self::start_with(PostgresSettings::default())
    }

    /// Starts a server with settings.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with(settings: PostgresSettings) -> io::Result<Option<Self>> {
        let Some(installation) = Installation::server()? else {
            return Ok(None);
        };
        let directory = ServerDirectory::create(installation.account, settings.place())?;
        cluster::create(&installation, &directory.path().join("data"), &settings)?;
        let has_password = settings.access >= Access::Password;
        let password = has_password.then(password).transpose()?;
        let mut server = Self::stopped(installation, settings, password, directory);
        server.start_on_free_port()?;
        if let Some(password) = &server.endpoint.password {
            let statement = format!("create role {CLIENT} login password '{password}'");
            server.maintenance().query(&statement)?;
        }
        Ok(Some(server))
    }

    /// Returns the server that the tests of this process share.
    ///
    /// It ends with the process. A runner with a process for each test starts one for each.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn shared() -> io::Result<Option<&'static Self>> {
        static SHARED: OnceLock<Result<Option<PostgresServer>, String>> = OnceLock::new();
        let server = SHARED.get_or_init(|| Self::start().map_err(|error| error.to_string()));
        server
            .as_ref()
            .map(Option::as_ref)
            .map_err(|error| io::Error::other(error.clone()))
    }

    /// Creates an empty database with a new name.
    ///
    /// # Errors
    /// Returns an error if the server does not create it.
    pub fn database(&self) -> io::Result<Database> {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let user = self.endpoint.user();
        let statement = format!("create database {name} owner {user}");
        self.maintenance().query(&statement)?;
        Ok(self.existing(&name))
    }

    /// Returns a database that exists, such as one of the primary on a replica.
    pub fn existing(&self, name: &str) -> Database {
        Database {
            installation: self.installation.clone(),
            endpoint: self.endpoint.clone(),
            name: name.to_owned(),
        }
    }

    /// Returns the database `postgres` for the superuser, for statements that concern the server.
    pub fn maintenance(&self) -> Database {
        Database {
            endpoint: self.endpoint.administration(),
            ..self.existing("postgres")
        }
    }

    /// Returns the directory of the Unix socket.
    pub fn socket(&self) -> &Path {
        &self.endpoint.socket
    }

    /// Returns the address of the TCP port, if the settings have one.
    pub fn tcp_address(&self) -> Option<String> {
        let port = self.endpoint.port?;
        Some(format!("127.0.0.1:{port}"))
    }

    /// Returns the text that the server has logged.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    pub fn log(&self) -> io::Result<String> {
        let bytes = fs::read(self.directory.path().join("log"))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Stops the server and starts it again with the same data.
    ///
    /// # Errors
    /// Returns an error if the server does not stop or start.
    pub fn restart(&mut self, mode: StopMode) -> io::Result<()> {
        self.stop(mode)?;
        self.start_again()
    }

    /// Stops the server; its data remains.
    ///
    /// # Errors
    /// Returns an error if the server does not stop within a minute.
    pub fn stop(&mut self, mode: StopMode) -> io::Result<()> {
        let Some(mut process) = self.process.take() else {
            return Ok(());
        };
        let kind = match mode {
            StopMode::Fast => Signal::INT,
            StopMode::Immediate => Signal::QUIT,
        };
        signal(process.id(), kind)?;
        wait_until("the server does not stop", || {
            Ok(process.try_wait()?.is_some())
        })
    }

    /// Starts the server after [`Self::stop`].
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_again(&mut self) -> io::Result<()> {
        if self.process.is_some() {
            return Ok(());
        }
        let data = self.data();
        let log = self.directory.path().join("log");
        let log = File::options().append(true).create(true).open(log)?;
        let mut command = self.installation.command("postgres");
        command.arg("-D").arg(&data);
        for (name, value) in self.parameters() {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        if self.settings.limited_disk {
            command.envs(disk::environment(self.directory.path()));
        }
        let mut process = command
            // The supervisor finds the server by its working directory.
            .current_dir(&data)
            .stdout(Stdio::null())
            .stderr(log)
            .process_group(0)
            .spawn()?;
        let ready = wait_until("the server does not start", || {
            if let Some(status) = process.try_wait()? {
                return Err(io::Error::other(format!("the server ended: {status}")));
            }
            Ok(is_ready(&data, process.id()))
        });
        ready.map_err(|error| self.with_log(&error))?;
        self.process = Some(process);
        Ok(())
    }

    /// Returns a server that has a cluster and does not run.
    pub(super) fn stopped(
        installation: Installation,
        settings: PostgresSettings,
        password: Option<String>,
        directory: ServerDirectory,
    ) -> Self {
        let endpoint = Endpoint {
            socket: directory.path().to_owned(),
            password,
            port: None,
            tls: settings.access == Access::Tls,
        };
        Self {
            installation,
            settings,
            endpoint,
            process: None,
            databases: AtomicU32::new(0),
            directory,
        }
    }

    /// Starts the server for the first time.
    pub(super) fn start_on_free_port(&mut self) -> io::Result<()> {
        if self.settings.limited_disk {
            disk::prepare(self.directory.path())?;
        }
        let mut result = Ok(());
        for _ in 0..PORTS {
            let has_port = self.settings.access >= Access::Tcp;
            self.endpoint.port = has_port.then(free_port).transpose()?;
            result = self.start_again();
            match &result {
                Err(error) if error.to_string().contains("Address already in use") => {}
                _ => break,
            }
        }
        result
    }

    pub(super) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub(super) fn process_id(&self) -> io::Result<u32> {
        let process = self.process.as_ref().map(Child::id);
        process.ok_or_else(|| io::Error::other("the server does not run"))
    }

    /// Returns the parameters of the server; later ones take precedence.
    fn parameters(&self) -> Vec<(&str, String)> {
        let socket = self.endpoint.socket.to_string_lossy().into_owned();
        let mut parameters = vec![
            ("unix_socket_directories", socket),
            ("listen_addresses", String::new()),
            // The library of compilers is not unpacked.
            ("jit", "off".to_owned()),
        ];
        if let Some(port) = self.endpoint.port {
            // The name of the socket contains the port, too.
            parameters.push(("listen_addresses", "127.0.0.1".to_owned()));
            parameters.push(("port", port.to_string()));
        }
        if self.endpoint.tls {
            parameters.push(("ssl", "on".to_owned()));
        }
        let given = self.settings.parameters.iter();
        parameters.extend(given.map(|(name, value)| (name.as_str(), value.clone())));
        parameters
    }

    /// Returns an error with the end of the log.
    fn with_log(&self, error: &io::Error) -> io::Error {
        let log = self.log().unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let end = lines[lines.len().saturating_sub(10)..].join("\n");
        io::Error::new(error.kind(), format!("{error}\n{end}"))
    }
}

/// Returns whether a server accepts connections, by the state that it writes for `pg_ctl`.
fn is_ready(data: &Path, process: u32) -> bool {
    let state = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    let mut lines = state.lines();
    let is_own = lines.next() == Some(process.to_string().as_str());
    is_own && lines.nth(6).is_some_and(|state| state.trim() == "ready")
}
