//! A program that runs once and ends with all of its processes.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{ChildStderr, ChildStdout};

use super::ShellOptions;
use crate::output::BoundedBuffer;
use crate::sandbox::Sandbox;

/// Number of bytes above the output limit after which a program is killed.
const FLOOD: u64 = 16 * 1024 * 1024;

/// Time for pending output to arrive after the program has ended.
pub(super) const DRAIN: Duration = Duration::from_millis(500);

/// A program to run.
#[derive(Debug)]
pub(crate) struct Program<'a> {
    /// The program and its arguments.
    pub(crate) words: Vec<OsString>,
    /// The working directory; `None` is a private empty directory, which requires a launcher.
    pub(crate) folder: Option<PathBuf>,
    /// The standard input.
    pub(crate) input: Option<String>,
    /// The sandbox.
    pub(crate) sandbox: Sandbox,
    /// The limits and the environment.
    pub(crate) options: &'a ShellOptions,
}

/// The reason why a program ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ExitReason {
    /// It exited with a status.
    Exited(i32),
    /// It was killed by a foreign signal.
    Signalled(i32),
    /// It could not be started.
    NotStarted(String),
    /// It was not started because it could not be confined.
    Refused(String),
    /// It exceeded its time limit.
    TimedOut,
    /// It wrote too much output.
    Flooded,
    /// It exceeded another limit.
    Excessive(&'static str),
    /// Its end is unknown.
    Lost(String),
}

/// The captured output and exit reason of a run.
#[derive(Debug)]
pub(crate) struct ProgramOutput {
    pub(crate) streams: Streams,
    pub(crate) end: ExitReason,
    /// Number of processes that it left running.
    pub(crate) left: usize,
}

impl ProgramOutput {
    fn never(end: ExitReason) -> Self {
        Self {
            streams: Streams::new(0),
            end,
            left: 0,
        }
    }
}

impl Program<'_> {
    /// Runs the program. Dropping the future ends it.
    pub(crate) async fn run(mut self) -> ProgramOutput {
        let start = match self.sandbox.start() {
            Ok(start) => start,
            Err(error) => return ProgramOutput::never(ExitReason::Refused(error.to_string())),
        };
        if let Err(end) = self.resolve() {
            return ProgramOutput::never(end);
        }
        let mut streams = Streams::new(self.options.output_bytes);
        #[cfg(target_os = "linux")]
        let (end, left) = match start {
            Some(start) => super::launcher::run(&self, start, &mut streams).await,
            None => (super::process_group::run(&self, &mut streams).await, 0),
        };
        #[cfg(not(target_os = "linux"))]
        let (end, left) = {
            debug_assert!(start.is_none(), "only Linux has launchers");
            (super::process_group::run(&self, &mut streams).await, 0)
        };
        ProgramOutput { streams, end, left }
    }

    /// Replaces the name of the program by its path, if known.
    ///
    /// A program outside the sandbox then gets a specific error instead of "not found".
    fn resolve(&mut self) -> Result<(), ExitReason> {
        let Some(name) = self.words.first_mut() else {
            return Err(ExitReason::NotStarted("no command is named".to_owned()));
        };
        let folder = self.folder.clone().unwrap_or_default();
        match locate(name, &folder, &self.sandbox, self.options) {
            Ok(path) => {
                *name = path.into();
                Ok(())
            }
            Err(None) => Err(ExitReason::NotStarted(format!(
                "`{}` could not be started: it is not in PATH",
                name.display()
            ))),
            Err(Some(closed)) => Err(ExitReason::Refused(format!(
                "{} is outside of what the sandbox can read; name its directory under `readable` in \
                 `[tools]` of your own configuration",
                closed.display()
            ))),
        }
    }
}

/// Returns the path of the program `name`: in the directory, or in `PATH` for a name without `/`.
///
/// The error contains a program that exists and that the sandbox cannot read.
pub(crate) fn locate(
    name: &OsStr,
    folder: &Path,
    sandbox: &Sandbox,
    options: &ShellOptions,
) -> Result<PathBuf, Option<PathBuf>> {
    if name.as_encoded_bytes().contains(&b'/') {
        let path = folder.join(name);
        return if path.is_file() && !sandbox.can_read(&path) {
            Err(Some(path))
        } else {
            Ok(path)
        };
    }
    let is_path = |(name, _): &&(OsString, OsString)| name == "PATH";
    let path = options.environment.iter().find(is_path);
    sandbox.find(name, path.map(|(_, value)| OsStr::new(value)))
}

/// Both output streams, separate and limited.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) out: BoundedBuffer,
    pub(crate) err: BoundedBuffer,
}

impl Streams {
    fn new(limit: usize) -> Self {
        Self {
            out: BoundedBuffer::new(limit),
            err: BoundedBuffer::new(limit),
        }
    }

    pub(super) fn is_flooded(&self) -> bool {
        self.out.dropped().saturating_add(self.err.dropped()) > FLOOD
    }
}

/// The read ends of the output streams.
pub(super) struct Pipes {
    out: Option<ChildStdout>,
    err: Option<ChildStderr>,
    blocks: (Vec<u8>, Vec<u8>),
}

impl Pipes {
    pub(super) fn new(out: Option<ChildStdout>, err: Option<ChildStderr>) -> Self {
        let block = || vec![0; 16 * 1024];
        Self {
            out,
            err,
            blocks: (block(), block()),
        }
    }

    /// Returns whether both streams have ended.
    pub(super) fn is_closed(&self) -> bool {
        self.out.is_none() && self.err.is_none()
    }

    /// Reads the next output; pending forever after the end. Cancel safe.
    pub(super) async fn read(&mut self, streams: &mut Streams) {
        let (out_block, err_block) = &mut self.blocks;
        // A stream that cannot be read has ended.
        tokio::select! {
            read = read_some(&mut self.out, out_block), if self.out.is_some() => match read {
                Ok(count @ 1..) => streams.out.push(out_block.get(..count).unwrap_or_default()),
                _ => self.out = None,
            },
            read = read_some(&mut self.err, err_block), if self.err.is_some() => match read {
                Ok(count @ 1..) => streams.err.push(err_block.get(..count).unwrap_or_default()),
                _ => self.err = None,
            },
            else => std::future::pending().await,
        }
    }

    /// Reads output that is already written, within a time limit.
    pub(super) async fn drain(&mut self, streams: &mut Streams) {
        let rest = async {
            while !self.is_closed() && !streams.is_flooded() {
                self.read(streams).await;
            }
        };
        drop(tokio::time::timeout(DRAIN, rest).await);
    }
}

async fn read_some<R: AsyncRead + Unpin>(
    stream: &mut Option<R>,
    block: &mut [u8],
) -> std::io::Result<usize> {
    match stream {
        Some(stream) => stream.read(block).await,
        None => Ok(0),
    }
}

/// Connects the streams of a command.
pub(super) fn piped(command: &mut tokio::process::Command, stdin: Stdio) {
    command
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
}
