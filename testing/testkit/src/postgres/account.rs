//! The account of the servers, which refuse to run as root.

use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// The user and group of the account `nobody`, if `/etc/passwd` has no such entry.
const NOBODY: u32 = 65534;

/// The account that servers run as.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Account {
    /// The account of this process.
    Own,
    /// Another user and group, which this process runs programs as because it is root.
    Other(u32, u32),
}

impl Account {
    /// Returns the account `nobody` for a process of root, and the own account for others.
    pub(crate) fn current() -> Self {
        if !rustix::process::geteuid().is_root() {
            return Self::Own;
        }
        let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let ids = accounts.lines().find_map(|line| {
            let mut fields = line.strip_prefix("nobody:")?.split(':').skip(1);
            let user = fields.next()?.parse().ok()?;
            Some((user, fields.next()?.parse().ok()?))
        });
        let (user, group) = ids.unwrap_or((NOBODY, NOBODY));
        Self::Other(user, group)
    }

    /// Returns the number of the user.
    pub(crate) fn user(self) -> u32 {
        match self {
            Self::Own => rustix::process::geteuid().as_raw(),
            Self::Other(user, _) => user,
        }
    }

    /// Makes a command run as the account.
    pub(crate) fn apply(self, command: &mut Command) {
        if let Self::Other(user, group) = self {
            command.uid(user).gid(group);
        }
    }

    /// Makes the account the owner of a file or directory.
    pub(crate) fn own(self, path: &Path) -> io::Result<()> {
        match self {
            Self::Own => Ok(()),
            Self::Other(user, group) => chown(path, Some(user), Some(group)),
        }
    }
}
