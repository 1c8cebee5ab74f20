//! The directory of servers, which is removed however its owner ends.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{StatVfsMountFlags, statvfs};

use super::account::Account;
use super::installation::scripts;

/// The longest path of a directory: a socket's path has at most 107 bytes.
const LONGEST: usize = 80;

/// The file system in memory.
const MEMORY: &str = "/dev/shm";
/// The free space, in bytes, without which the disk is used.
const LEAST_FREE: u64 = 1 << 30;

static COUNT: AtomicU32 = AtomicU32::new(0);

/// The file system of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Place {
    /// The one in memory, if it has enough space.
    #[default]
    Memory,
    /// The same, if it permits programs and libraries.
    ExecutableMemory,
    /// The one of temporary files.
    Disk,
}

impl Place {
    fn path(self) -> PathBuf {
        let temporary = std::env::temp_dir();
        let state = statvfs(MEMORY).ok().filter(|_| self != Self::Disk);
        let is_suitable = state.is_some_and(|state| {
            let is_executable = !state.f_flag.contains(StatVfsMountFlags::NOEXEC);
            let is_large = state.f_bavail.saturating_mul(state.f_frsize) >= LEAST_FREE;
            is_large && (is_executable || self == Self::Memory)
        });
        if is_suitable {
            return MEMORY.into();
        }
        if temporary.as_os_str().len() > LONGEST - 30 {
            return "/tmp".into();
        }
        temporary
    }
}

/// A directory, with the process that ends its servers and removes it.
#[derive(Debug)]
pub(crate) struct ServerDirectory {
    path: PathBuf,
    /// The lock that the supervisor waits for.
    owner: Option<File>,
    supervisor: Child,
}

impl ServerDirectory {
    /// Creates a directory for the servers of an account; other users have no access.
    pub(crate) fn create(account: Account, place: Place) -> io::Result<Self> {
        let parent = place.path();
        let path = loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("logue-pg-{}-{count}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => break path,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        };
        fs::set_permissions(&path, Permissions::from_mode(0o700))?;
        let owner = File::create(path.join("owner"))?;
        owner.lock()?;
        let supervisor = Command::new(scripts().join("supervise"))
            .arg(&path)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A runner ends the group of a test that takes too long.
            .process_group(0)
            .spawn()?;
        account.own(&path)?;
        Ok(Self {
            path,
            owner: Some(owner),
            supervisor,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a directory with a new name within this one.
    pub(crate) fn create_within(&self, name: &str) -> io::Result<PathBuf> {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = self.path.join(format!("{name}{count}"));
        fs::create_dir(&path)?;
        Ok(path)
    }
}

impl Drop for ServerDirectory {
    fn drop(&mut self) {
        drop(self.owner.take());
        drop(self.supervisor.wait());
    }
}
