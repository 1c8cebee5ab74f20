//! Namespaces of a command: mounts that are read-only outside its directories, and own objects.
//!
//! Landlock has no rights for modes, owners, times and extended attributes of files. The kernel
//! refuses to change them on read-only mounts, so all mounts of the command are read-only but those
//! of its writable directories. Objects of System V and message queues are its own as well.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use nix::sched::{CloneFlags, unshare};
use rustix::fs::{Mode, OFlags, Stat, fstat, open};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount_bind_recursive, mount_change, mount_remount,
};
use rustix::process::{getegid, geteuid};
use rustix::thread::{CapabilitySet, capabilities};

/// The second argument that makes a launcher try the namespaces of a command.
pub(super) const PROBE_ARG: &str = "namespaces";

/// Returns whether a launcher, with its argument, can create the namespaces of a command.
///
/// A user other than root needs a process with one thread, so the launcher tries it, once.
pub(super) fn are_possible(launcher: &Path, argument: &str) -> bool {
    static KNOWN: Mutex<BTreeMap<PathBuf, bool>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.get(launcher) {
        return *known;
    }
    let tried = if geteuid().is_root() {
        may_mount() && std::thread::spawn(try_isolation).join().unwrap_or(false)
    } else {
        let mut command = Command::new(launcher);
        command
            .args([argument, PROBE_ARG])
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    known.insert(launcher.to_owned(), tried);
    tried
}

/// Tries to create the namespaces of a command in this process, which ends after it.
pub(super) fn probe() -> bool {
    permit_mounts().is_ok() && std::thread::spawn(try_isolation).join().unwrap_or(false)
}

fn try_isolation() -> bool {
    isolate([], Path::new("/tmp")).is_ok()
}

/// Returns whether this process may create mount namespaces.
fn may_mount() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN))
}

/// Creates a user namespace for this process, unless it needs none.
///
/// The process must have one thread.
///
/// # Errors
/// Returns an error if the system forbids it.
pub(super) fn permit_mounts() -> io::Result<()> {
    if may_mount() {
        return Ok(());
    }
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    // Files of other users would become unreachable for root.
    if user == 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    unshare(CloneFlags::CLONE_NEWUSER)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// Gives this thread mounts that are read-only outside `writable`, and objects of its own.
///
/// # Errors
/// Returns an error if the system forbids it.
pub(super) fn isolate<'a>(
    writable: impl IntoIterator<Item = &'a OwnedFd>,
    private: &Path,
) -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC)?;
    mount_change(
        "/",
        MountPropagationFlags::REC | MountPropagationFlags::PRIVATE,
    )?;
    let private = open(private, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let mut folders: Vec<Located> = writable.into_iter().filter_map(locate).collect();
    folders.extend(locate(&private));
    folders.sort_by(|one, other| one.path.cmp(&other.path));
    // A directory in another one is writable with it; a mount of its own could not be renamed.
    folders.dedup_by(|inner, outer| inner.path.starts_with(&outer.path));
    for folder in &folders {
        let name = format!("/proc/self/fd/{}", folder.handle.as_raw_fd());
        mount_bind_recursive(&name, &name)?;
    }
    for mount in mounts()? {
        if mount.is_writable && !folders.iter().any(|one| mount.path.starts_with(&one.path)) {
            match mount_remount(&mount.path, mount.flags | MountFlags::RDONLY, c"") {
                // A command does not reach it either, or another mount covers it.
                Ok(()) | Err(Errno::ACCESS | Errno::NOENT | Errno::INVAL) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// A file or directory in the mounts of this thread.
pub(super) struct Located {
    path: PathBuf,
    pub(super) handle: OwnedFd,
}

/// Finds what is open in the mounts of this thread.
///
/// `None` if it was removed or is moved at this moment: it is not writable then.
pub(super) fn locate(descriptor: &OwnedFd) -> Option<Located> {
    let path = fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd())).ok()?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = open(&path, flags, Mode::empty()).ok()?;
    let id = |stat: Stat| (stat.st_dev, stat.st_ino);
    let (here, there) = (fstat(&handle).ok()?, fstat(descriptor).ok()?);
    (id(here) == id(there)).then_some(Located { path, handle })
}

/// A mount of this thread.
struct MountPoint {
    path: PathBuf,
    flags: MountFlags,
    is_writable: bool,
}

/// Reads the mounts of this thread.
fn mounts() -> io::Result<Vec<MountPoint>> {
    let table = fs::read("/proc/thread-self/mountinfo")?;
    let lines = table.split(|byte| *byte == b'\n');
    Ok(lines.filter_map(mount_point).collect())
}

/// Parses a line of the table of mounts.
///
/// `None` for places that mount something when they are used.
fn mount_point(line: &[u8]) -> Option<MountPoint> {
    let mut fields = line.split(|byte| *byte == b' ');
    let path = unescaped(fields.nth(4)?);
    let options = std::str::from_utf8(fields.next()?).ok()?;
    let mut kind = fields.skip_while(|field| *field != b"-").skip(1);
    if kind.next() == Some(b"autofs") {
        return None;
    }
    let mut flags = MountFlags::BIND;
    let mut is_writable = true;
    for option in options.split(',') {
        match option {
            "ro" => is_writable = false,
            "nosuid" => flags |= MountFlags::NOSUID,
            "nodev" => flags |= MountFlags::NODEV,
            "noexec" => flags |= MountFlags::NOEXEC,
            "noatime" => flags |= MountFlags::NOATIME,
            "nodiratime" => flags |= MountFlags::NODIRATIME,
            "relatime" => flags |= MountFlags::RELATIME,
            "nosymfollow" => flags |= MountFlags::NOSYMFOLLOW,
            _ => {}
        }
    }
    Some(MountPoint {
        path,
        flags,
        is_writable,
    })
}

/// Replaces octal escapes, such as `\040` for a space.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            bytes.push(byte);
            rest = after.get(3..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}
