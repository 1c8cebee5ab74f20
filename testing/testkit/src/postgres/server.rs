//! A server with its cluster.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::database::{Database, socket_url};
use super::directory::{ServerDirectory, copy};
use super::installation::{Installation, cache};
use super::processes::{signal, within};
use super::settings::PostgresSettings;

/// The longest wait for a server.
const PATIENCE: Duration = Duration::from_secs(60);
/// The interval between two looks at a server.
const LOOK: Duration = Duration::from_millis(5);

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
    installation: Installation,
    settings: PostgresSettings,
    process: Option<Child>,
    databases: AtomicU32,
    // Dropped last: it ends the processes.
    directory: ServerDirectory,
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
        let template = template(&installation)?;
        let directory = ServerDirectory::create(installation.account)?;
        copy(&template, &directory.path().join("data"))?;
        let mut server = Self {
            installation,
            settings,
            process: None,
            databases: AtomicU32::new(0),
            directory,
        };
        server.start_again()?;
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
        self.maintenance()
            .query(&format!("create database {name}"))?;
        Ok(self.named(&name))
    }

    /// Returns the database `postgres`, for statements that concern the whole server.
    pub fn maintenance(&self) -> Database {
        self.named("postgres")
    }

    /// Returns the directory of the Unix socket, which has the port 5432.
    pub fn socket(&self) -> &Path {
        self.directory.path()
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
        let log = File::options()
            .append(true)
            .create(true)
            .open(self.directory.path().join("log"))?;
        let mut command = self.installation.command("postgres");
        command
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(self.directory.path());
        for (name, value) in [("listen_addresses", ""), ("jit", "off")] {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        for (name, value) in &self.settings.parameters {
            command.arg("-c").arg(format!("{name}={value}"));
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
        self.process = Some(process);
        ready.map_err(|error| {
            let log = self.log().unwrap_or_default();
            let lines: Vec<&str> = log.lines().rev().take(10).collect();
            let lines: Vec<&str> = lines.into_iter().rev().collect();
            io::Error::other(format!("{error}\n{}", lines.join("\n")))
        })
    }

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

    fn named(&self, database: &str) -> Database {
        Database {
            installation: self.installation.clone(),
            url: socket_url(self.directory.path(), database),
        }
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn process_id(&self) -> io::Result<u32> {
        let process = self.process.as_ref().map(Child::id);
        process.ok_or_else(|| io::Error::other("the server does not run"))
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

/// Returns whether a server accepts connections, by the state that it writes for `pg_ctl`.
fn is_ready(data: &Path, process: u32) -> bool {
    let state = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    let mut lines = state.lines();
    let is_own = lines.next() == Some(process.to_string().as_str());
    is_own && lines.nth(6).is_some_and(|state| state.trim() == "ready")
}

/// Waits until a condition is true.
fn wait_until(failure: &str, mut is_true: impl FnMut() -> io::Result<bool>) -> io::Result<()> {
    let begin = Instant::now();
    while !is_true()? {
        if begin.elapsed() > PATIENCE {
            return Err(io::Error::new(io::ErrorKind::TimedOut, failure));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Returns a new cluster that servers copy; it is created once for a machine and version.
fn template(installation: &Installation) -> io::Result<PathBuf> {
    let cache = cache()?;
    let template = cache.join(format!("template-{}", installation.identity()?));
    let lock = File::create(cache.join("template.lock"))?;
    lock.lock()?;
    if template.is_dir() {
        return Ok(template);
    }
    let directory = ServerDirectory::create(installation.account)?;
    let data = directory.path().join("data");
    let output = installation
        .command("initdb")
        .arg("-D")
        .arg(&data)
        .args([
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
        ])
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other(
            String::from_utf8_lossy(&output.stderr).into_owned(),
        ));
    }
    let new = template.with_extension("new");
    if new.exists() {
        fs::remove_dir_all(&new)?;
    }
    copy(&data, &new)?;
    fs::rename(new, &template)?;
    Ok(template)
}
