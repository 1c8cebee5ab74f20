//! Supervision of the processes started by a command.
//!
//! This process is the *subreaper* of its descendants: a process that forks twice or creates a
//! session remains a descendant. While a descendant exists, waiting for children finds one, so "no
//! children" means that all processes have ended.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, set_child_subreaper, wait,
};

/// Time limit of ending all processes.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Time for remaining processes to end on their own, such as helpers of Git.
const GRACE: Duration = Duration::from_millis(250);

/// The resource usage of a command at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// Number of processes.
    pub(super) processes: usize,
    /// Unshared memory in bytes.
    pub(super) memory: u64,
}

/// Makes this process the parent of orphaned descendants.
///
/// # Errors
/// Returns an error if the kernel refuses.
pub(super) fn become_subreaper() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Returns the current resource usage.
pub(super) fn usage() -> Usage {
    let processes = descendants();
    let memory = processes.iter().map(|pid| memory(*pid)).sum();
    Usage {
        processes: processes.len(),
        memory,
    }
}

/// Returns whether there seem to be more than `most` descendants.
///
/// It reads only the lists of children, which not all kernels have and which include ended ones.
pub(super) fn has_more_than(most: usize) -> bool {
    let mut found = 0;
    let mut open = vec![std::process::id()];
    while let Some(parent) = open.pop() {
        let threads = std::fs::read_dir(format!("/proc/{parent}/task"));
        for thread in threads.into_iter().flatten().flatten() {
            let children = std::fs::read_to_string(thread.path().join("children"));
            let children = children.unwrap_or_default();
            let known = open.len();
            open.extend(
                children
                    .split_ascii_whitespace()
                    .flat_map(str::parse::<u32>),
            );
            found += open.len() - known;
            if found > most {
                return true;
            }
        }
    }
    false
}

/// Returns the number of bytes that the descendants wrote, including to pipes.
///
/// The kernel adds what a process wrote to its parent's number when the parent waits for it.
pub(super) fn written() -> u64 {
    let living = descendants().into_iter().chain([std::process::id()]);
    living.map(written_by).sum()
}

/// Returns the bytes passed to writing calls, or those for a disk if more.
fn written_by(pid: u32) -> u64 {
    let counts = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let counts = counts.lines().filter_map(|line| {
        let count = line
            .strip_prefix("wchar:")
            .or(line.strip_prefix("write_bytes:"))?;
        count.trim().parse().ok()
    });
    counts.max().unwrap_or(0)
}

/// Reaps ended children.
///
/// Returns the status of `pid`, if it ended, and whether no child remains.
pub(super) fn reap(pid: Pid) -> (Option<WaitStatus>, bool) {
    let mut found = None;
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((ended, status))) if ended == pid => found = Some(status),
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return (found, false),
            Err(_) => return (found, true),
        }
    }
}

/// Waits briefly for descendants that end on their own.
pub(super) fn settle(pid: Pid) {
    let started = Instant::now();
    while started.elapsed() < GRACE {
        let (_, is_done) = reap(pid);
        if is_done {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Ends every descendant.
///
/// Returns their number and the status of `pid`, if it was one of them.
///
/// All of them are stopped before they are killed, so that none starts another process in between.
pub(super) fn end(pid: Pid) -> (usize, Option<WaitStatus>) {
    let started = Instant::now();
    let mut seen = BTreeSet::new();
    let mut status = None;
    loop {
        let (ended, is_done) = reap(pid);
        status = ended.or(status);
        if is_done || started.elapsed() > TIMEOUT {
            return (seen.len(), status);
        }
        let mut stopped = BTreeSet::new();
        loop {
            let fresh: Vec<u32> = descendants()
                .into_iter()
                .filter(|pid| !stopped.contains(pid))
                .collect();
            if fresh.is_empty() || started.elapsed() > TIMEOUT {
                break;
            }
            for pid in fresh {
                signal(pid, Signal::STOP);
                stopped.insert(pid);
            }
        }
        for pid in &stopped {
            signal(*pid, Signal::KILL);
        }
        seen.append(&mut stopped);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Ends the remaining processes of a session whose first process has exited.
pub(super) fn end_session(session: u32) {
    for pid in running() {
        if process_info(pid).is_some_and(|process| process.session == session) {
            signal(pid, Signal::KILL);
        }
    }
}

/// A process that has ended in the meantime needs no signal.
fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = kill_process(pid, signal);
    }
}

/// Returns the descendants of this process that have not ended.
fn descendants() -> BTreeSet<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut ended = BTreeSet::new();
    for pid in running() {
        let Some(process) = process_info(pid) else {
            continue;
        };
        children.entry(process.parent).or_default().push(pid);
        if matches!(process.state, 'Z' | 'X') {
            ended.insert(pid);
        }
    }
    let mut found = BTreeSet::new();
    let mut open = vec![std::process::id()];
    while let Some(parent) = open.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            found.insert(child);
            open.push(child);
        }
    }
    found.retain(|pid| !ended.contains(pid));
    found
}

/// Returns the ids of all visible processes.
fn running() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The state and relations of a process.
struct ProcessInfo {
    state: char,
    parent: u32,
    session: u32,
}

/// Parses the kernel's status line; the process name may contain any character.
fn process_info(pid: u32) -> Option<ProcessInfo> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    Some(ProcessInfo {
        state: fields.next()?.chars().next()?,
        parent: fields.next()?.parse().ok()?,
        session: fields.nth(1)?.parse().ok()?,
    })
}

/// Returns the memory of a process in bytes, without file mappings.
fn memory(pid: u32) -> u64 {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else {
        return 0;
    };
    let own = status.lines().filter_map(|line| {
        line.strip_prefix("RssAnon:")
            .or(line.strip_prefix("RssShmem:"))
    });
    let kibibytes = own.filter_map(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kibibytes.sum::<u64>().saturating_mul(1024)
}
