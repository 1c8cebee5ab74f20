//! A server that is a program: started without a shell, in a process group that dies as a whole.

use std::collections::VecDeque;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessGroup};
use tokio::io::AsyncReadExt as _;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::task::JoinHandle;

use super::McpOptions;

/// Bytes of what a server says on standard error that are kept, the last ones.
const KEPT: usize = 4 * 1024;

/// Time that a server has to end by itself after its input was closed.
const GRACE: Duration = Duration::from_millis(500);

/// A running server.
pub(crate) struct Process {
    child: Box<dyn ChildWrapper>,
    said: Arc<Mutex<VecDeque<u8>>>,
    drain: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts a program; what it writes and reads comes with it.
    ///
    /// # Errors
    /// It could not be started: why.
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
        let mut child = command
            .spawn()
            .map_err(|error| format!("`{program}` could not be started: {error}"))?;
        let streams = (child.stdout().take(), child.stdin().take());
        let said = Arc::new(Mutex::new(VecDeque::new()));
        let drain = child.stderr().take().map(|mut stream| {
            let said = Arc::clone(&said);
            tokio::spawn(async move {
                let mut block = vec![0_u8; 4 * 1024];
                // Read for as long as it lives, so that a talkative server is never stopped by it.
                while let Ok(count @ 1..) = stream.read(&mut block).await {
                    let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                    said.extend(block.iter().take(count));
                    let over = said.len().saturating_sub(KEPT);
                    said.drain(..over);
                }
            })
        });
        let process = Self { child, said, drain };
        match streams {
            (Some(out), Some(into)) => Ok((process, out, into)),
            _ => Err(format!("`{program}` has no standard input and output")),
        }
    }

    /// What there is to say about a server that failed: how it ended, and its last words.
    pub(crate) async fn post_mortem(&mut self) -> String {
        // A moment for the end and the last words to arrive.
        let leader = self.child.inner_mut().wait();
        let ended = tokio::time::timeout(GRACE, leader).await;
        if ended.is_ok()
            && let Some(drain) = &mut self.drain
        {
            drop(tokio::time::timeout(GRACE, drain).await);
        }
        let status = match ended {
            Ok(Ok(status)) => format!("it ended with {status}"),
            _ => "it still runs".to_owned(),
        };
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = said.iter().copied().collect();
        let words = String::from_utf8_lossy(&bytes);
        let words = words.trim();
        if words.is_empty() {
            status
        } else {
            format!("{status}; it said: {words}")
        }
    }

    /// Waits a moment for the program to end by itself, its input being closed, and then ends it.
    pub(crate) async fn end(mut self) {
        drop(tokio::time::timeout(GRACE, self.child.inner_mut().wait()).await);
        drop(self.child.start_kill());
        drop(tokio::time::timeout(GRACE, self.child.wait()).await);
    }
}

impl Drop for Process {
    /// Whatever it started goes with it. A group that is gone already is as wished.
    fn drop(&mut self) {
        drop(self.child.start_kill());
        if let Some(drain) = &self.drain {
            drain.abort();
        }
    }
}
