//! The directory of servers, which is removed however its owner ends.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::account::Account;
use super::installation::scripts;

/// The longest path of a directory: a socket's path has at most 107 bytes.
const LONGEST: usize = 80;

static COUNT: AtomicU32 = AtomicU32::new(0);

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
    pub(crate) fn create(account: Account) -> io::Result<Self> {
        let mut parent = std::env::temp_dir();
        if parent.as_os_str().len() > LONGEST - 30 {
            parent = "/tmp".into();
        }
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
}

impl Drop for ServerDirectory {
    fn drop(&mut self) {
        drop(self.owner.take());
        drop(self.supervisor.wait());
    }
}

/// Copies a directory with its owners and permissions.
pub(crate) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let output = Command::new("cp").arg("-a").arg(from).arg(to).output()?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(errors.into_owned()))
}
