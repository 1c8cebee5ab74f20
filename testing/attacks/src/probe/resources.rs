//! Use of resources, and changes to those of other processes.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Write as _};

use nix::mqueue::{MQ_OFlag, mq_open, mq_send};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::stat::Mode;
use rustix::process::{Pid, Resource, Rlimit, prlimit, setpriority_process};

const MEBIBYTE: usize = 1024 * 1024;

/// Carries out an action of this module; `None` for another one.
pub(super) fn act(words: &[&str]) -> Option<io::Result<()>> {
    Some(match words {
        ["limit", pid] => limit(pid),
        ["priority", pid] => process(pid).and_then(|pid| Ok(setpriority_process(Some(pid), 11)?)),
        ["affinity", pid] => affinity(pid),
        ["queue", name] => queue(name),
        ["allocate", mebibytes] => allocate(mebibytes),
        ["file", path, mebibytes] => file(path, mebibytes),
        ["print", bytes] => number(bytes).and_then(print),
        ["endless"] => endless(),
        _ => return None,
    })
}

fn process(pid: &str) -> io::Result<Pid> {
    let pid = pid.parse().ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::other("no process id"))
}

fn number(text: &str) -> io::Result<usize> {
    text.parse().map_err(io::Error::other)
}

/// Lowers the number of files that another process can open.
fn limit(pid: &str) -> io::Result<()> {
    let limit = Rlimit {
        current: Some(7),
        maximum: Some(7),
    };
    prlimit(Some(process(pid)?), Resource::Nofile, limit)?;
    Ok(())
}

/// Moves another process to the first processor.
fn affinity(pid: &str) -> io::Result<()> {
    let mut first = CpuSet::new();
    first.set(0)?;
    let pid = nix::unistd::Pid::from_raw(process(pid)?.as_raw_nonzero().get());
    Ok(sched_setaffinity(pid, &first)?)
}

/// Sends a message to a queue of POSIX.
fn queue(name: &str) -> io::Result<()> {
    let name = CString::new(name).map_err(io::Error::other)?;
    let flags = MQ_OFlag::O_WRONLY | MQ_OFlag::O_NONBLOCK;
    let queue = mq_open(name.as_c_str(), flags, Mode::empty(), None)?;
    Ok(mq_send(&queue, b"hello", 1)?)
}

/// Uses memory, and leaves a file if that was possible.
fn allocate(mebibytes: &str) -> io::Result<()> {
    let bytes = number(mebibytes)?.saturating_mul(MEBIBYTE);
    let mut memory = Vec::new();
    memory.try_reserve(bytes).map_err(io::Error::other)?;
    memory.resize(bytes, 1_u8);
    fs::write("allocated", [memory[bytes / 2]])
}

fn file(path: &str, mebibytes: &str) -> io::Result<()> {
    let mut file = File::create(path)?;
    let block = vec![b'x'; MEBIBYTE];
    for _ in 0..number(mebibytes)? {
        file.write_all(&block)?;
    }
    Ok(())
}

fn print(bytes: usize) -> io::Result<()> {
    io::stdout().write_all(&vec![b'x'; bytes])
}

fn endless() -> io::Result<()> {
    loop {
        print(MEBIBYTE)?;
    }
}
