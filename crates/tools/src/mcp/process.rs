//! Servers that are programs, started without a shell and confined like commands.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessGroup};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::process::{ChildStderr, ChildStdout};
use tokio::task::JoinHandle;

use crate::ShellOptions;
#[cfg(target_os = "linux")]
use crate::sandbox::{LaunchInput, LaunchRequest, LaunchResult, Launcher, LauncherError, Start};
use crate::shell::locate;

/// Number of bytes kept of the end of standard error.
const STDERR_BYTES: usize = 4 * 1024;

/// Time for a server to exit after its input is closed.
const GRACE: Duration = Duration::from_millis(500);

/// The output stream of a server.
pub(crate) type Output = ChildStdout;

/// The input stream of a server.
pub(crate) type Input = Box<dyn AsyncWrite + Send + Sync + Unpin>;

/// A running server.
pub(crate) struct Process {
    runner: Runner,
    stderr: Arc<Mutex<VecDeque<u8>>>,
    drain: Option<JoinHandle<()>>,
}

/// The way in which a server runs.
enum Runner {
    /// In a process group.
    Group(Box<dyn ChildWrapper>),
    /// In a sandbox, watched by a launcher; with the description of its end.
    #[cfg(target_os = "linux")]
    Sandbox(Box<Launcher>, Option<String>),
}

impl Process {
    /// Starts a program and returns its output and input streams.
    ///
    /// The sandbox of `options` is complete: the working directory is one of its paths.
    ///
    /// # Errors
    /// Returns the reason if the program cannot be started or confined.
    pub(crate) async fn start(
        words: &[String],
        folder: &Path,
        options: &ShellOptions,
    ) -> Result<(Self, Output, Input), String> {
        let mut words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let Some(program) = words.first_mut() else {
            return Err("the address names no command".to_owned());
        };
        let shown = program.display().to_string();
        let start = options.sandbox.start().map_err(|error| error.to_string())?;
        match locate(program, folder, &options.sandbox, options) {
            Ok(path) if !path.exists() => {
                return Err(format!("`{shown}` could not be started: it does not exist"));
            }
            Ok(path) => *program = path.into(),
            Err(None) => return Err(format!("`{shown}` could not be started: it is not in PATH")),
            Err(Some(closed)) => {
                return Err(format!(
                    "{} is outside of what the sandbox can read; name its directory under \
                     `readable` of this server in `[mcp.servers]` of your own configuration",
                    closed.display()
                ));
            }
        }
        #[cfg(target_os = "linux")]
        if let Some(start) = start {
            return Self::launch(words, folder, options, start).await;
        }
        #[cfg(not(target_os = "linux"))]
        debug_assert!(start.is_none(), "only Linux has launchers");
        Self::start_group(&words, folder, options)
            .map_err(|reason| format!("`{shown}` could not be started: {reason}"))
    }

    /// Starts a program in a process group.
    fn start_group(
        words: &[OsString],
        folder: &Path,
        options: &ShellOptions,
    ) -> Result<(Self, Output, Input), String> {
        let (program, arguments) = words.split_first().ok_or("the command is empty")?;
        let environment = options.environment.iter();
        let mut command = CommandWrap::with_new(program, |command| {
            command
                .args(arguments)
                .current_dir(folder)
                .env_clear()
                .envs(environment.map(|(name, value)| (name, value)))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
        });
        command.wrap(ProcessGroup::leader());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let streams = (child.stdout().take(), child.stdin().take());
        let stderr = child.stderr().take();
        let process = Self::new(Runner::Group(child), stderr);
        match streams {
            (Some(out), Some(into)) => Ok((process, out, Box::new(into))),
            _ => Err("it has no standard input and output".to_owned()),
        }
    }

    /// Starts a program through the launcher of its sandbox.
    #[cfg(target_os = "linux")]
    async fn launch(
        words: Vec<OsString>,
        folder: &Path,
        options: &ShellOptions,
        mut start: Start,
    ) -> Result<(Self, Output, Input), String> {
        let piped = || {
            let (theirs, ours) = std::io::pipe()?;
            let ours = tokio::net::unix::pipe::Sender::from_owned_fd(ours.into())?;
            Ok::<_, std::io::Error>((theirs, ours))
        };
        let (theirs, ours) = piped().map_err(|error| error.to_string())?;
        let order = LaunchRequest {
            words,
            folder: Some(folder.into()),
            environment: options.environment.clone(),
            input: LaunchInput::Descriptor,
            limits: options.sandbox.limits,
            confinement: start.confinement.take(),
        };
        let launcher = Launcher::start(start, &order, Some(theirs.into())).await;
        let mut launcher = launcher.map_err(|error| match error {
            LauncherError::NotStarted(reason) | LauncherError::Lost(reason) => reason,
        })?;
        let (out, stderr) = launcher.take_output();
        let process = Self::new(Runner::Sandbox(Box::new(launcher), None), stderr);
        match out {
            Some(out) => Ok((process, out, Box::new(ours))),
            None => Err("the server has no standard output".to_owned()),
        }
    }

    fn new(runner: Runner, stderr: Option<ChildStderr>) -> Self {
        let kept = Arc::new(Mutex::new(VecDeque::new()));
        let drain = stderr.map(|stream| tokio::spawn(keep_end(stream, Arc::clone(&kept))));
        Self {
            runner,
            stderr: kept,
            drain,
        }
    }

    /// Describes a failed server: its exit status and the end of its standard error.
    pub(crate) async fn post_mortem(&mut self) -> String {
        // The exit status and the last output may arrive shortly after.
        let ended = tokio::time::timeout(GRACE, self.runner.ended()).await;
        if ended.is_ok()
            && let Some(drain) = &mut self.drain
            // Calls that fail together each request the report, and a finished task panics if polled.
            && !drain.is_finished()
        {
            drop(tokio::time::timeout(GRACE, drain).await);
        }
        let status = ended.unwrap_or_else(|_| "it still runs".to_owned());
        let stderr = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = stderr.iter().copied().collect();
        let words = String::from_utf8_lossy(&bytes);
        let words = words.trim();
        if words.is_empty() {
            status
        } else {
            format!("{status}; its standard error: {words}")
        }
    }

    /// Waits briefly for the program to exit after its input is closed, then kills it.
    pub(crate) async fn end(mut self) {
        drop(tokio::time::timeout(GRACE, self.runner.ended()).await);
        match &mut self.runner {
            Runner::Group(child) => {
                drop(child.start_kill());
                drop(tokio::time::timeout(GRACE, child.wait()).await);
            }
            #[cfg(target_os = "linux")]
            Runner::Sandbox(launcher, _) => launcher.wait().await,
        }
    }
}

impl Runner {
    /// Waits until the server has ended, and describes its end. Cancel safe.
    async fn ended(&mut self) -> String {
        match self {
            Self::Group(child) => match child.inner_mut().wait().await {
                Ok(status) => format!("it ended with {status}"),
                Err(_) => "it still runs".to_owned(),
            },
            #[cfg(target_os = "linux")]
            Self::Sandbox(launcher, end) => {
                if let Some(end) = end {
                    return end.clone();
                }
                let text = describe(launcher.report().await);
                end.insert(text).clone()
            }
        }
    }
}

/// Describes the end of a server in a sandbox.
#[cfg(target_os = "linux")]
fn describe(report: Option<LaunchResult>) -> String {
    match report {
        None => "the process that watched it is gone".to_owned(),
        Some(LaunchResult::NotStarted(reason)) => format!("it could not be started: {reason}"),
        Some(LaunchResult::NotConfined(reason)) => format!("it was not started: {reason}"),
        Some(LaunchResult::Ended {
            stopped: Some(limit),
            ..
        }) => format!("it was killed because it used too much: {limit:?}").to_lowercase(),
        Some(LaunchResult::Ended { code, signal, .. }) => match (code, signal) {
            (Some(code), _) => format!("it ended with exit status: {code}"),
            (None, Some(signal)) => format!("it ended with signal: {signal}"),
            (None, None) => "its exit status is unknown".to_owned(),
        },
    }
}

/// Keeps the end of standard error.
///
/// Reading continues until the end, so that a full pipe never blocks the server.
async fn keep_end(mut stream: impl AsyncRead + Unpin, kept: Arc<Mutex<VecDeque<u8>>>) {
    let mut block = vec![0_u8; 4 * 1024];
    while let Ok(count @ 1..) = stream.read(&mut block).await {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(block.iter().take(count));
        let over = kept.len().saturating_sub(STDERR_BYTES);
        kept.drain(..over);
    }
}

impl Drop for Process {
    /// Kills all processes of the server. A launcher does so when its socket is closed.
    fn drop(&mut self) {
        // A group without processes is not an error.
        if let Runner::Group(child) = &mut self.runner {
            drop(child.start_kill());
        }
        if let Some(drain) = &self.drain {
            drain.abort();
        }
    }
}
