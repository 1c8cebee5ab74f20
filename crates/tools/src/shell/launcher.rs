//! Running a program through the sandbox launcher.

use super::program::{ExitReason, Pipes, Program, Streams};
use crate::sandbox::{
    FAREWELL, LaunchInput, LaunchRequest, LaunchResult, Launcher, LauncherError, LimitExceeded,
    Start,
};

/// Runs the program; returns its exit reason and the number of processes it left running.
///
/// Dropping the future ends all processes.
pub(super) async fn run(
    program: &Program<'_>,
    mut start: Start,
    streams: &mut Streams,
) -> (ExitReason, usize) {
    let order = LaunchRequest {
        words: program.words.clone(),
        folder: program.folder.clone().map(Into::into),
        environment: program.options.environment.clone(),
        input: program
            .input
            .clone()
            .map_or(LaunchInput::Empty, LaunchInput::Text),
        limits: program.sandbox.limits,
        confinement: start.confinement.take(),
    };
    let mut launcher = match Launcher::start(start, &order, None).await {
        Ok(launcher) => launcher,
        Err(LauncherError::NotStarted(reason)) => return (ExitReason::Refused(reason), 0),
        Err(LauncherError::Lost(reason)) => return (ExitReason::Lost(reason), 0),
    };
    let (out, err) = launcher.take_output();
    let mut pipes = Pipes::new(out, err);
    let deadline = tokio::time::sleep(program.options.timeout);
    tokio::pin!(deadline);
    let mut stopped = None;
    let report = loop {
        tokio::select! {
            report = launcher.report() => break report,
            () = &mut deadline => {
                if stopped.is_some() {
                    break None;
                }
                stopped = Some(ExitReason::TimedOut);
                launcher.stop();
                deadline.as_mut().reset(tokio::time::Instant::now() + FAREWELL);
            }
            () = pipes.read(streams) => if stopped.is_none() && streams.is_flooded() {
                stopped = Some(ExitReason::Flooded);
                launcher.stop();
                deadline.as_mut().reset(tokio::time::Instant::now() + FAREWELL);
            }
        }
    };
    // Output written before the end is still in the pipes.
    pipes.drain(streams).await;
    if report.is_none() {
        // The launcher always reports, so it is dead or dying. Its processes are not.
        launcher.kill();
    }
    launcher.wait().await;
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
                (Some(LimitExceeded::Disk), ..) => ExitReason::Excessive("disk space"),
                (None, Some(code), _) => ExitReason::Exited(code),
                (None, None, Some(signal)) => ExitReason::Signalled(signal),
                (None, None, None) => ExitReason::Lost("its exit status is unknown".to_owned()),
            };
            (end, left)
        }
    }
}
