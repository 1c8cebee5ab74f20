//! The processes that a command has started, and their end.
//!
//! This process adopts what its descendants leave behind (it is their *subreaper*), so whatever a
//! program does to get away — a second fork, a session of its own — it stays a descendant. As long
//! as there is one, waiting for children finds one; so "no children" means that nobody is left.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, set_child_subreaper, wait,
};

/// Time after which what does not die is left to die by itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// Time that what a command left behind has to end by itself, as a helper of Git does.
const GRACE: Duration = Duration::from_millis(250);

/// What a command's processes cost at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// How many there are.
    pub(super) processes: usize,
    /// Bytes of memory that are theirs alone.
    pub(super) memory: u64,
}

/// Makes this process the one that orphans of its descendants go to.
///
/// # Errors
/// The kernel refuses.
pub(super) fn become_subreaper() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// What runs, and what it costs.
pub(super) fn usage() -> Usage {
    let processes = descendants();
    let memory = processes.iter().map(|pid| memory(*pid)).sum();
    Usage {
        processes: processes.len(),
        memory,
    }
}

/// Takes leave of the children that have ended; the status of `pid`, if it is one of them. `Ok(true)`
/// in the second place: there is no child left at all.
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

/// Waits a moment for descendants that end by themselves.
pub(super) fn settle(pid: Pid) {
    let started = Instant::now();
    while started.elapsed() < GRACE {
        let (_, nobody) = reap(pid);
        if nobody {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Ends every descendant: how many there were, and the status of `pid` if it was one of them.
///
/// They are stopped before they are killed, all of them, so that none makes another one in the
/// meantime.
pub(super) fn end(pid: Pid) -> (usize, Option<WaitStatus>) {
    let started = Instant::now();
    let mut seen = BTreeSet::new();
    let mut status = None;
    loop {
        let (ended, nobody) = reap(pid);
        status = ended.or(status);
        if nobody || started.elapsed() > PATIENCE {
            return (seen.len(), status);
        }
        let mut stopped = BTreeSet::new();
        loop {
            let fresh: Vec<u32> = descendants()
                .into_iter()
                .filter(|pid| !stopped.contains(pid))
                .collect();
            if fresh.is_empty() || started.elapsed() > PATIENCE {
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

/// Ends what is left of a session whose first process is gone.
pub(super) fn end_session(session: u32) {
    for pid in running() {
        if kinship(pid).is_some_and(|kin| kin.session == session) {
            signal(pid, Signal::KILL);
        }
    }
}

/// One that has ended in the meantime needs no signal.
fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = kill_process(pid, signal);
    }
}

/// The descendants of this process that have not ended.
fn descendants() -> BTreeSet<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut ended = BTreeSet::new();
    for pid in running() {
        let Some(kin) = kinship(pid) else { continue };
        children.entry(kin.parent).or_default().push(pid);
        if matches!(kin.state, 'Z' | 'X') {
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

/// Every process that can be seen.
fn running() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// What a process is, and whose.
struct Kinship {
    state: char,
    parent: u32,
    session: u32,
}

/// What the kernel says of a process. Its name may hold anything, brackets included.
fn kinship(pid: u32) -> Option<Kinship> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    Some(Kinship {
        state: fields.next()?.chars().next()?,
        parent: fields.next()?.parse().ok()?,
        session: fields.nth(1)?.parse().ok()?,
    })
}

/// Bytes of memory that a process does not share with a file.
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
