//! Running a program through the sandbox launcher.

use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::Command;

use super::program::{ExitReason, Pipes, Program, Streams, piped};
use crate::sandbox::{
    LaunchRequest, LaunchResult, LimitExceeded, Start, end_session, send_descriptors,
};

/// Time for the launcher to end all processes and report.
const FAREWELL: Duration = Duration::from_secs(10);

/// Runs the program; returns its exit reason and the number of processes it left running.
///
/// The launcher holds one end of a socket and this future the other. Dropping the future closes the
/// socket, and the launcher ends all processes.
pub(super) async fn run(
    program: &Program<'_>,
    start: Start,
    streams: &mut Streams,
) -> (ExitReason, usize) {
    let Start {
        program: path,
        arguments,
        confinement,
        descriptors,
    } = start;
    let order = LaunchRequest {
        words: program.words.clone(),
        folder: program.folder.clone().map(Into::into),
        environment: program.options.environment.clone(),
        input: program.input.clone(),
        limits: program.sandbox.limits,
        confinement,
    };
    let lost = |why: String| (ExitReason::Lost(why), 0);
    let socket = || {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        send_descriptors(&ours, &descriptors)?;
        ours.set_nonblocking(true)?;
        Ok::<_, std::io::Error>((UnixStream::from_std(ours)?, theirs))
    };
    let (ours, theirs) = match socket() {
        Ok(pair) => pair,
        Err(error) => return lost(error.to_string()),
    };
    let mut command = Command::new(&path);
    command.args(arguments).env_clear();
    piped(&mut command, Stdio::from(OwnedFd::from(theirs)));
    let mut launcher = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let why = format!("the launcher {} does not start: {error}", path.display());
            return (ExitReason::Refused(why), 0);
        }
    };
    let session = launcher.id();
    // The other end must belong to the launcher alone, or its exit would go unnoticed.
    drop(command);
    let mut pipes = Pipes::new(launcher.stdout.take(), launcher.stderr.take());
    let (reading, writing) = ours.into_split();
    let mut control = Control {
        reading: BufReader::new(reading),
        writing: Some(writing),
        line: Vec::new(),
    };
    if let Err(error) = control.send(&order).await {
        return lost(format!("the launcher takes no order: {error}"));
    }
    let deadline = tokio::time::sleep(program.options.timeout);
    tokio::pin!(deadline);
    let mut stopped = None;
    let report = loop {
        tokio::select! {
            report = control.report() => break report,
            () = &mut deadline => {
                if stopped.is_some() {
                    break None;
                }
                stopped = Some(ExitReason::TimedOut);
                control.stop();
                deadline.as_mut().reset(tokio::time::Instant::now() + FAREWELL);
            }
            () = pipes.read(streams) => if stopped.is_none() && streams.is_flooded() {
                stopped = Some(ExitReason::Flooded);
                control.stop();
                deadline.as_mut().reset(tokio::time::Instant::now() + FAREWELL);
            }
        }
    };
    // Output written before the end is still in the pipes.
    pipes.drain(streams).await;
    if report.is_none() {
        // The launcher always reports, so it is dead or dying. Its processes are not.
        drop(launcher.start_kill());
        if let Some(session) = session {
            end_session(session);
        }
    }
    drop(control);
    drop(tokio::time::timeout(FAREWELL, launcher.wait()).await);
    match (report, stopped) {
        (Some(LaunchResult::Ended { left, .. }), Some(end)) => (end, left),
        (Some(report), _) => exit_reason(report),
        (None, Some(end)) => (end, 0),
        (None, None) => {
            let why = "the process that watched the command is gone".to_owned();
            (ExitReason::Lost(why), 0)
        }
    }
}

fn exit_reason(report: LaunchResult) -> (ExitReason, usize) {
    match report {
        LaunchResult::NotStarted(why) => (
            ExitReason::NotStarted(format!("the command could not be started: {why}")),
            0,
        ),
        LaunchResult::NotConfined(why) => (ExitReason::Refused(why), 0),
        LaunchResult::Ended {
            code,
            signal,
            stopped,
            left,
        } => {
            let end = match (stopped, code, signal) {
                (Some(LimitExceeded::Memory), ..) => ExitReason::Excessive("memory"),
                (Some(LimitExceeded::Processes), ..) => ExitReason::Excessive("processes"),
                (None, Some(code), _) => ExitReason::Exited(code),
                (None, None, Some(signal)) => ExitReason::Signalled(signal),
                (None, None, None) => ExitReason::Lost("its exit status is unknown".to_owned()),
            };
            (end, left)
        }
    }
}

/// This end of the socket.
struct Control {
    reading: BufReader<OwnedReadHalf>,
    /// Closing it makes the launcher end all processes.
    writing: Option<OwnedWriteHalf>,
    line: Vec<u8>,
}

impl Control {
    async fn send(&mut self, order: &LaunchRequest) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(order)?;
        line.push(b'\n');
        match &mut self.writing {
            Some(writing) => writing.write_all(&line).await,
            None => Ok(()),
        }
    }

    /// Waits for the report of the launcher; `None` if it is gone. Cancel safe.
    async fn report(&mut self) -> Option<LaunchResult> {
        self.reading.read_until(b'\n', &mut self.line).await.ok()?;
        serde_json::from_slice(&self.line).ok()
    }

    fn stop(&mut self) {
        self.writing = None;
    }
}
