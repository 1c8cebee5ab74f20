//! The supervision of a running command: its end, its resource usage, and its requester.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, fstatvfs, open};
use rustix::process::{Pid, PidfdFlags, WaitStatus, pidfd_open};

use super::process_tree;
use super::protocol::LimitExceeded;

/// The shortest interval between two looks at the number of processes and the free space.
const GLANCE: Duration = Duration::from_millis(10);

/// The shortest interval between two checks of all usage.
const TICK: Duration = Duration::from_millis(100);

/// The maximum share of time spent on each kind of checks, as a divisor.
const SHARE: u32 = 30;

/// The supervision of a running command.
pub(super) struct Watch {
    pub(super) pid: Pid,
    pub(super) processes: Option<usize>,
    pub(super) memory: Option<u64>,
    pub(super) disk: Option<Disk>,
}

impl Watch {
    /// Waits until the command ends, exceeds a limit, or the requesting program goes away.
    pub(super) fn until_the_end(
        &self,
        control: &UnixStream,
    ) -> (Option<WaitStatus>, Option<LimitExceeded>) {
        // Kernels before 5.3 have no process handles; polling replaces them.
        let handle = pidfd_open(self.pid, PidfdFlags::empty()).ok();
        let mut due = Instant::now();
        loop {
            let (status, _) = process_tree::reap(self.pid);
            if status.is_some() {
                return (status, None);
            }
            let looked = Instant::now();
            let is_suspect = self.is_suspect();
            let mut cost = looked.elapsed();
            if is_suspect || looked >= due {
                let checked = Instant::now();
                if let Some(excess) = self.excess() {
                    return (None, Some(excess));
                }
                due = Instant::now() + (checked.elapsed() * SHARE).max(TICK);
                if is_suspect {
                    cost = looked.elapsed();
                }
            }
            let pause = (cost * SHARE).max(GLANCE);
            if !wait_for(control, handle.as_ref(), pause) {
                return (None, None);
            }
        }
    }

    /// Returns whether a limit seems to be exceeded, at little cost.
    fn is_suspect(&self) -> bool {
        let is_above = |most| process_tree::has_more_than(most);
        self.processes.is_some_and(is_above) || self.disk.as_ref().is_some_and(Disk::is_lost)
    }

    fn excess(&self) -> Option<LimitExceeded> {
        let usage = process_tree::usage();
        if self.processes.is_some_and(|most| usage.processes > most) {
            return Some(LimitExceeded::Processes);
        }
        if self.memory.is_some_and(|most| usage.memory > most) {
            return Some(LimitExceeded::Memory);
        }
        let disk = self.disk.as_ref().filter(|disk| disk.is_lost())?;
        (process_tree::written() > disk.most).then_some(LimitExceeded::Disk)
    }
}

/// The free space where a command can write.
///
/// Others use it as well, so a loss counts only if the command wrote as much.
pub(super) struct Disk {
    /// One descriptor of each file system, with its free bytes when the command started.
    places: Vec<(OwnedFd, u64)>,
    /// The limit in bytes.
    most: u64,
}

impl Disk {
    /// Notes the free space at these files and directories.
    pub(super) fn new<'a>(
        writable: impl Iterator<Item = &'a OwnedFd>,
        private: Option<&Path>,
        most: u64,
    ) -> Self {
        let opened = |path: &Path| open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok();
        let places = writable.filter_map(|place| place.try_clone().ok());
        let places = places.chain(private.and_then(opened));
        let places = places.filter_map(|place| {
            let free = free(&place)?;
            Some((place, free))
        });
        Self {
            places: places.collect(),
            most,
        }
    }

    /// Returns whether a file system lost more than the limit.
    fn is_lost(&self) -> bool {
        self.places.iter().any(|(place, before)| {
            free(place).is_some_and(|now| before.saturating_sub(now) > self.most)
        })
    }
}

fn free(place: &OwnedFd) -> Option<u64> {
    let state = fstatvfs(place).ok()?;
    Some(state.f_bfree.saturating_mul(state.f_frsize))
}

/// Waits for the end of the process within a time limit.
///
/// Returns `false` if the requester is gone.
fn wait_for(control: &UnixStream, handle: Option<&OwnedFd>, pause: Duration) -> bool {
    let mut watched = vec![PollFd::new(control, PollFlags::IN)];
    watched.extend(handle.map(|handle| PollFd::new(handle, PollFlags::IN)));
    let pause = if handle.is_some() {
        pause
    } else {
        Duration::from_millis(5)
    };
    let timeout = Timespec::try_from(pause).ok();
    let _ = poll(&mut watched, timeout.as_ref());
    // Nothing follows the request: readable means closed.
    watched
        .first()
        .is_none_or(|control| control.revents().is_empty())
}
