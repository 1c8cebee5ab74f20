//! Servers that are programs, started without a shell in a process group.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessGroup};
use tokio::io::AsyncReadExt as _;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::task::JoinHandle;

use super::options::McpOptions;

/// Number of bytes kept of the end of standard error.
const STDERR_BYTES: usize = 4 * 1024;

/// Time for a server to exit after its input is closed.
const GRACE: Duration = Duration::from_millis(500);

/// A running server.
pub(crate) struct Process {
    child: Box<dyn ChildWrapper>,
    stderr: Arc<Mutex<VecDeque<u8>>>,
    drain: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts a program and returns its output and input streams.
    ///
    /// # Errors
    /// Returns the reason if the program cannot be started.
    pub(crate) fn start(
        words: &[String],
        folder: &Path,
        options: &McpOptions,
    ) -> Result<(Self, ChildStdout, ChildStdin), String> {
        let Some((program, arguments)) = words.split_first() else {
            return Err("the address names no command".to_owned());
        };
        let mut command = CommandWrap::with_new(program, |command| {
            command
                .args(arguments)
                .current_dir(folder)
                .env_clear()
                .envs(
                    options
                        .environment
                        .iter()
                        .map(|(name, value)| (name, value)),
                )
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
        });
        command.wrap(ProcessGroup::leader());
        let mut child = command.spawn().map_err(|error| match error.kind() {
            ErrorKind::NotFound if program.contains('/') => {
                format!("`{program}` could not be started: it does not exist")
            }
            ErrorKind::NotFound => {
                format!("`{program}` could not be started: it is not in PATH")
            }
            _ => format!("`{program}` could not be started: {error}"),
        })?;
        let streams = (child.stdout().take(), child.stdin().take());
        let stderr = Arc::new(Mutex::new(VecDeque::new()));
        let drain = child.stderr().take().map(|mut stream| {
            let stderr = Arc::clone(&stderr);
            tokio::spawn(async move {
                let mut block = vec![0_u8; 4 * 1024];
                // Reading continues until the end, so that a full pipe never blocks the server.
                while let Ok(count @ 1..) = stream.read(&mut block).await {
                    let mut stderr = stderr.lock().unwrap_or_else(PoisonError::into_inner);
                    stderr.extend(block.iter().take(count));
                    let over = stderr.len().saturating_sub(STDERR_BYTES);
                    stderr.drain(..over);
                }
            })
        });
        let process = Self {
            child,
            stderr,
            drain,
        };
        match streams {
            (Some(out), Some(into)) => Ok((process, out, into)),
            _ => Err(format!("`{program}` has no standard input and output")),
        }
    }

    /// Describes a failed server: its exit status and the end of its standard error.
    pub(crate) async fn post_mortem(&mut self) -> String {
        // The exit status and the last output may arrive shortly after.
        let leader = self.child.inner_mut().wait();
        let ended = tokio::time::timeout(GRACE, leader).await;
        if ended.is_ok()
            && let Some(drain) = &mut self.drain
            // Calls that fail together each request the report, and a finished task panics if polled.
            && !drain.is_finished()
        {
            drop(tokio::time::timeout(GRACE, drain).await);
        }
        let status = match ended {
            Ok(Ok(status)) => format!("it ended with {status}"),
            _ => "it still runs".to_owned(),
        };
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
        drop(tokio::time::timeout(GRACE, self.child.inner_mut().wait()).await);
        drop(self.child.start_kill());
        drop(tokio::time::timeout(GRACE, self.child.wait()).await);
    }
}

impl Drop for Process {
    /// Kills all processes of the group. A group without processes is not an error.
    fn drop(&mut self) {
        drop(self.child.start_kill());
        if let Some(drain) = &self.drain {
            drain.abort();
        }
    }
}
