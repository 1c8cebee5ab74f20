//! Signals to a server and its processes.

use std::fs;
use std::io;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// Sends a signal to a process.
pub(crate) fn signal(process: u32, signal: Signal) -> io::Result<()> {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    let process = process.ok_or_else(|| io::Error::other("invalid number of a process"))?;
    Ok(kill_process(process, signal)?)
}

/// Returns the processes that work in a directory, in ascending order.
pub(crate) fn within(directory: &Path) -> io::Result<Vec<u32>> {
    let mut processes = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(process) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        // A process that has ended, or that belongs to another user, has no such link.
        if fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == directory) {
            processes.push(process);
        }
    }
    processes.sort_unstable();
    Ok(processes)
}
