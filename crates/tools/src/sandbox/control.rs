//! The requesting side of a launcher: its process and the socket to it.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

use super::descriptors::send;
use super::{LaunchRequest, LaunchResult, Start, end_session};

/// Time for the launcher to end all processes and report.
pub(crate) const FAREWELL: Duration = Duration::from_secs(10);

/// The reason why a launcher does not run.
#[derive(Debug)]
pub(crate) enum LauncherError {
    /// Its executable could not be started.
    NotStarted(String),
    /// It did not receive its request.
    Lost(String),
}

/// A running launcher.
///
/// The launcher holds one end of a socket and this value the other. Dropping the value closes the
/// socket, and the launcher ends all processes of its program.
pub(crate) struct Launcher {
    child: Child,
    reading: BufReader<OwnedReadHalf>,
    /// Closing it makes the launcher end all processes.
    writing: Option<OwnedWriteHalf>,
    line: Vec<u8>,
}

impl Launcher {
    /// Starts a launcher and sends it the request.
    ///
    /// `input` becomes the standard input of the program if the request says so.
    ///
    /// # Errors
    /// Returns an error if the launcher cannot be started or does not take the request.
    pub(crate) async fn start(
        start: Start,
        order: &LaunchRequest,
        input: Option<OwnedFd>,
    ) -> Result<Self, LauncherError> {
        let lost = |error: io::Error| LauncherError::Lost(error.to_string());
        let mut descriptors = start.descriptors;
        descriptors.extend(input.map(Arc::new));
        let socket = || {
            let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
            send(&ours, &descriptors)?;
            ours.set_nonblocking(true)?;
            Ok::<_, io::Error>((UnixStream::from_std(ours)?, theirs))
        };
        let (ours, theirs) = socket().map_err(lost)?;
        // The launcher has its own copies now.
        drop(descriptors);
        let mut command = Command::new(&start.program);
        command
            .args(start.arguments)
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| {
            let path = start.program.display();
            LauncherError::NotStarted(format!("the launcher {path} does not start: {error}"))
        })?;
        // The other end must belong to the launcher alone, or its exit would go unnoticed.
        drop(command);
        let (reading, writing) = ours.into_split();
        let mut launcher = Self {
            child,
            reading: BufReader::new(reading),
            writing: Some(writing),
            line: Vec::new(),
        };
        launcher.send(order).await.map_err(|error| {
            LauncherError::Lost(format!("the launcher takes no order: {error}"))
        })?;
        Ok(launcher)
    }

    async fn send(&mut self, order: &LaunchRequest) -> io::Result<()> {
        let mut line = serde_json::to_vec(order)?;
        line.push(b'\n');
        match &mut self.writing {
            Some(writing) => writing.write_all(&line).await,
            None => Ok(()),
        }
    }

    /// Takes the output streams of the program.
    pub(crate) fn take_output(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdout.take(), self.child.stderr.take())
    }

    /// Waits for the report of the launcher; `None` if it is gone. Cancel safe.
    pub(crate) async fn report(&mut self) -> Option<LaunchResult> {
        self.reading.read_until(b'\n', &mut self.line).await.ok()?;
        serde_json::from_slice(&self.line).ok()
    }

    /// Makes the launcher end all processes of its program.
    pub(crate) fn stop(&mut self) {
        self.writing = None;
    }

    /// Ends a launcher that did not report, and the processes of its program.
    pub(crate) fn kill(&mut self) {
        let session = self.child.id();
        drop(self.child.start_kill());
        if let Some(session) = session {
            end_session(session);
        }
    }

    /// Waits until the launcher is gone, for a limited time.
    pub(crate) async fn wait(&mut self) {
        self.stop();
        drop(tokio::time::timeout(FAREWELL, self.child.wait()).await);
    }
}
