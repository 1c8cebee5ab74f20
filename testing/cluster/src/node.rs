//! A server process.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The number of attempts of a first start.
const ATTEMPTS: usize = 5;
/// The time that a server has until it listens, also while the database fails.
const START: Duration = Duration::from_secs(60);

/// A server process at an address that it keeps. It is killed when it is dropped.
#[derive(Debug)]
pub struct Node {
    program: PathBuf,
    folder: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(String, OsString)>,
    log: PathBuf,
    address: String,
    process: Option<Child>,
    is_paused: bool,
    /// The number of starts that failed.
    failed: usize,
}

impl Node {
    /// Starts a server on a free port.
    ///
    /// # Errors
    /// Returns an error, with what it printed, if it does not listen.
    pub(crate) fn start(
        name: &str,
        (program, folder): (&Path, &Path),
        arguments: Vec<OsString>,
        environment: Vec<(String, OsString)>,
    ) -> io::Result<Self> {
        let mut node = Self {
            program: program.to_owned(),
            folder: folder.to_owned(),
            arguments,
            environment,
            log: folder.join(format!("{name}.log")),
            address: "127.0.0.1:0".to_owned(),
            process: None,
            is_paused: false,
            failed: 0,
        };
        // The relay may cut the first connections, as it does later ones.
        for _ in 1..ATTEMPTS {
            if node.start_again().is_ok() {
                return Ok(node);
            }
        }
        node.run()?;
        Ok(node)
    }

    /// Returns the address with its port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns whether the process runs, also if it is paused.
    ///
    /// # Errors
    /// Returns an error if its state cannot be read.
    pub fn runs(&mut self) -> io::Result<bool> {
        match &mut self.process {
            Some(process) => Ok(process.try_wait()?.is_none()),
            None => Ok(false),
        }
    }

    /// Returns the number of starts that failed.
    pub fn failed_starts(&self) -> usize {
        self.failed
    }

    /// Returns what the server has printed since its first start.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Kills the process as `kill -9` does.
    ///
    /// # Errors
    /// Returns an error if the signal cannot be sent.
    pub fn kill(&mut self) -> io::Result<()> {
        if let Some(mut process) = self.process.take() {
            process.kill()?;
            process.wait()?;
        }
        self.is_paused = false;
        Ok(())
    }

    /// Starts the process after [`Self::kill`], at the same address.
    ///
    /// # Errors
    /// As for the first start; a later call tries again.
    pub fn start_again(&mut self) -> io::Result<()> {
        let started = self.run();
        if started.is_err() {
            self.failed += 1;
        }
        started
    }

    /// Stops the process without ending it: its connections stay open and silent.
    ///
    /// # Errors
    /// Returns an error if the signal cannot be sent.
    pub fn pause(&mut self) -> io::Result<()> {
        self.signal(Signal::STOP)?;
        self.is_paused = true;
        Ok(())
    }

    /// Continues the process after [`Self::pause`].
    ///
    /// # Errors
    /// Returns an error if the signal cannot be sent.
    pub fn resume(&mut self) -> io::Result<()> {
        if self.is_paused {
            self.signal(Signal::CONT)?;
        }
        self.is_paused = false;
        Ok(())
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        let process = self.process.as_ref();
        if let Some(process) =
            process.and_then(|process| Pid::from_raw(i32::try_from(process.id()).ok()?))
        {
            kill_process(process, signal)?;
        }
        Ok(())
    }

    fn run(&mut self) -> io::Result<()> {
        self.kill()?;
        let before = fs::metadata(&self.log).map_or(0, |log| log.len());
        let log = File::options().append(true).create(true).open(&self.log)?;
        let process = command(&self.program, &self.folder)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .arg("serve")
            .args(["--listen", &self.address])
            .args(&self.arguments)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        self.process = Some(process);
        let begun = Instant::now();
        loop {
            let said = self.log();
            let said = said.get(usize::try_from(before).unwrap_or(0)..);
            let mut lines = said.unwrap_or_default().lines();
            let address = lines.find_map(|line| line.strip_prefix("listening on http://"));
            if let Some(address) = address {
                address.trim().clone_into(&mut self.address);
                return Ok(());
            }
            if !self.runs()? || begun.elapsed() > START {
                let error = format!("the server does not listen: {}", said.unwrap_or_default());
                self.kill()?;
                return Err(io::Error::other(error));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // A process that has ended is no longer there.
        drop(self.kill());
    }
}

/// Returns a command of the program without the settings of this machine.
pub(crate) fn command(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).stdin(Stdio::null());
    let prefixes = ["ANTHROPIC_", "LOGUE_", "OPENAI_", "OTEL_", "PG", "XDG_"];
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if prefixes.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command.env("HOME", folder).env("NO_COLOR", "1");
    command.env("LOGUE_TRUST", "all");
    command
}
