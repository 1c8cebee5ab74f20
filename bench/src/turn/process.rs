//! A whole process from its start to its end: how long, and how much memory.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What a process took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Took {
    pub(crate) time: Duration,
    /// Most memory that was resident, in KiB. It is looked at while the process runs, so what it
    /// takes in its very last moment may be missing; 0 where the system does not tell.
    pub(crate) memory: u64,
}

/// Runs a process to its end.
///
/// # Errors
/// It cannot be started, or it fails.
pub(crate) fn run(command: &mut Command) -> Result<Took, String> {
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{command:?}: {error}"))?;
    let status_file = PathBuf::from(format!("/proc/{}/status", child.id()));
    let mut memory = 0;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => {}
            Err(error) => return Err(format!("{command:?}: {error}")),
        }
        memory = memory.max(resident(&status_file));
        std::thread::sleep(Duration::from_micros(100));
    };
    let time = started.elapsed();
    if status.success() {
        return Ok(Took { time, memory });
    }
    let output = child.wait_with_output();
    let said = output.map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
    Err(format!("{command:?} failed: {}", said.unwrap_or_default()))
}

/// The greatest resident memory of a process in KiB, from its file `status`.
pub(crate) fn resident(status: &PathBuf) -> u64 {
    let text = std::fs::read_to_string(status).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.unwrap_or(0)
}

/// The median of the times, and of the memory.
pub(crate) fn median(all: &mut [Took]) -> Took {
    let middle = all.len() / 2;
    all.sort_by_key(|took| took.memory);
    let memory = all.get(middle).map_or(0, |took| took.memory);
    all.sort_by_key(|took| took.time);
    let time = all.get(middle).map_or(Duration::ZERO, |took| took.time);
    Took { time, memory }
}
