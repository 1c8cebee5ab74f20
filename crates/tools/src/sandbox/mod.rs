//! Sandboxes: programs with access to specified files and networks only.
//!
//! A [`Sandbox`] describes the access of a program. Nothing in this process is confined. A
//! *launcher*, which is the executable of this program (or another one that calls [`launch`]), runs
//! in a separate process. It confines one of its threads with Landlock and a system call filter and
//! starts the program from that thread, so the program is confined from its first instruction. If
//! the kernel has no Landlock, or on request, the launcher runs in the namespaces of bubblewrap.
//! The launcher stays outside, watches the resource usage and ends all processes that the program
//! leaves running.
//!
//! [`probe`] reports the capabilities of the machine and [`Sandbox::status`] the protections in
//! effect.

mod bubblewrap;
#[cfg(target_os = "linux")]
mod confine;
#[cfg(target_os = "linux")]
mod control;
#[cfg(target_os = "linux")]
mod descriptors;
#[cfg(target_os = "linux")]
mod filter;
mod granted;
#[cfg(target_os = "linux")]
mod launch;
#[cfg(target_os = "linux")]
mod namespaces;
mod places;
#[cfg(target_os = "linux")]
mod process_tree;
mod protocol;
mod status;
#[cfg(target_os = "linux")]
mod watch;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use crate::Roots;

#[cfg(target_os = "linux")]
pub(crate) use control::{FAREWELL, Launcher, LauncherError};
pub use granted::GrantedPath;
use protocol::{Grant, Mounts};
pub(crate) use protocol::{LaunchInput, LaunchRequest, LaunchResult, LimitExceeded, SandboxPolicy};
use status::Machine;
pub use status::{Mechanism, Protection, SandboxProbe, SandboxStatus, probe};

/// The first argument that makes the executable act as a launcher.
pub const LAUNCHER_ARG: &str = "__sandbox";

/// Runs the launcher: executes the command requested on standard input and ends its processes.
///
/// A program calls this function at the start of `main`, before it has a second thread, if its
/// first argument is [`LAUNCHER_ARG`]. Its executable can then be the launcher of a [`Sandbox`].
pub fn launch() -> ExitCode {
    #[cfg(target_os = "linux")]
    {
        launch::launch()
    }
    #[cfg(not(target_os = "linux"))]
    {
        ExitCode::FAILURE
    }
}

/// Ends the processes of a dead launcher.
///
/// A launcher creates a session, so its process id is the session id as well.
#[cfg(target_os = "linux")]
pub(crate) fn end_session(launcher: u32) {
    process_tree::end_session(launcher);
}

/// The choice of the confinement mechanism.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SandboxMode {
    /// Landlock if the kernel has it, else bubblewrap if it works, else nothing.
    #[default]
    Auto,
    /// Landlock; without it programs are not run.
    Landlock,
    /// Bubblewrap, plus Landlock if available; without bubblewrap programs are not run.
    Bubblewrap,
    /// No confinement. Remaining processes are still ended.
    Off,
}

/// The resource limits of a command; `None` keeps the limits of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ResourceLimits {
    /// Memory in bytes, per process by the kernel and in total by periodic checks.
    pub memory_bytes: Option<u64>,
    /// Size in bytes of the largest written file.
    pub file_bytes: Option<u64>,
    /// Number of concurrent processes, by periodic checks.
    pub processes: Option<usize>,
    /// Free space in bytes that the command may use up, by periodic checks.
    pub disk_bytes: Option<u64>,
}

impl Default for ResourceLimits {
    fn default() -> Self {
        Self {
            memory_bytes: Some(4 << 30),
            file_bytes: Some(1 << 30),
            processes: Some(512),
            disk_bytes: Some(4 << 30),
        }
    }
}

/// The access of a program to files, network and resources.
///
/// Without a [launcher](Self::with_launcher) nothing is confined; [`Sandbox::status`] reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sandbox {
    /// The confinement mechanism.
    pub mode: SandboxMode,
    /// Whether a program is refused if it cannot be confined.
    pub required: bool,
    /// Readable files and directories, in addition to those of the system.
    pub readable: Vec<GrantedPath>,
    /// Files and directories with read and write access.
    pub writable: Vec<GrantedPath>,
    /// Whether the network is open.
    pub network: bool,
    /// The home directory of the user.
    ///
    /// Programs get a private empty directory as `HOME` instead, unless `readable`, `writable` or
    /// the roots of the run contain a part of the home directory.
    pub home: Option<PathBuf>,
    /// The resource limits.
    pub limits: ResourceLimits,
    /// The roots of the run, with read and write access.
    roots: Vec<GrantedPath>,
    launcher: Option<PathBuf>,
}

/// The error for a program that cannot be confined as required (`E-SANDBOX-UNAVAILABLE`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxError {
    reason: &'static str,
}

impl std::fmt::Display for SandboxError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the command cannot be confined: {}", self.reason)
    }
}

impl std::error::Error for SandboxError {}

/// The command line of a launcher.
#[derive(Debug)]
pub(crate) struct Start {
    /// The executable: bubblewrap or the launcher.
    pub(crate) program: PathBuf,
    /// Its arguments.
    pub(crate) arguments: Vec<OsString>,
    /// The policy that the launcher enforces.
    pub(crate) confinement: Option<SandboxPolicy>,
    /// The descriptors of the granted paths, in their order.
    #[cfg(target_os = "linux")]
    pub(crate) descriptors: Vec<std::sync::Arc<std::os::fd::OwnedFd>>,
}

impl Sandbox {
    /// Creates a sandbox with the launcher at `path`.
    ///
    /// The launcher is a program that calls [`launch`], such as `logue` itself.
    pub fn with_launcher(path: impl Into<PathBuf>) -> Self {
        Self {
            launcher: Some(path.into()),
            ..Self::default()
        }
    }

    /// Sets the confinement mechanism.
    #[must_use]
    pub fn with_mode(mut self, mode: SandboxMode) -> Self {
        self.mode = mode;
        self
    }

    /// Gives read and write access to these directories.
    pub(crate) fn working_on(mut self, roots: &Roots) -> Self {
        let folders = roots.handles().map(|folder| GrantedPath::of_folder(folder));
        self.roots.extend(folders);
        self
    }

    /// Gives read access to these directories.
    pub(crate) fn looking_at(mut self, roots: &Roots) -> Self {
        let folders = roots.handles().map(|folder| GrantedPath::of_folder(folder));
        self.readable.extend(folders);
        self
    }

    /// Takes all write access away and keeps read access.
    ///
    /// A program is refused if it cannot be confined.
    pub(crate) fn read_only(mut self) -> Self {
        self.readable.append(&mut self.writable);
        self.readable.append(&mut self.roots);
        self.required = true;
        self
    }

    /// Returns the protections in effect on this machine.
    pub fn status(&self) -> SandboxStatus {
        let (by, reason) = match self.enforcer() {
            Ok(by) => (by, None),
            Err(error) => (None, Some(error.reason)),
        };
        let machine = Machine {
            supervised: cfg!(target_os = "linux") && self.launcher.is_some(),
            filter: probe().filter,
            mounts: by.as_ref().map(|by| self.mounts(by)),
        };
        SandboxStatus::new(by, &machine, self.network, reason)
    }

    /// Checks whether programs may run.
    ///
    /// # Errors
    /// Returns an error if the requested mechanism, or any mechanism if one is required, is
    /// unavailable.
    pub fn check(&self) -> Result<(), SandboxError> {
        match self.enforcer() {
            Ok(None) if self.required => Err(SandboxError {
                reason: "a sandbox is required, and this tool's is switched off",
            }),
            Ok(_) => Ok(()),
            Err(_) if self.mode == SandboxMode::Auto && !self.required => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns the mechanism; `None` if confinement is off.
    fn enforcer(&self) -> Result<Option<Mechanism>, SandboxError> {
        if self.mode == SandboxMode::Off {
            return Ok(None);
        }
        let lacks = |reason| Err(SandboxError { reason });
        if self.launcher.is_none() {
            return lacks("there is no launcher to confine it");
        }
        let SandboxProbe {
            landlock,
            bubblewrap,
            filter: _,
        } = probe();
        let by_landlock = landlock.map(Mechanism::Landlock);
        let by_bubblewrap = || {
            let path = bubblewrap.clone()?;
            Some(Mechanism::Bubblewrap(path, *landlock))
        };
        let found = match self.mode {
            SandboxMode::Landlock => by_landlock,
            SandboxMode::Bubblewrap => by_bubblewrap(),
            SandboxMode::Auto | SandboxMode::Off => by_landlock.or_else(by_bubblewrap),
        };
        match (found, self.mode) {
            (Some(by), _) => Ok(Some(by)),
            (None, SandboxMode::Landlock) => lacks("this kernel has no Landlock"),
            (None, SandboxMode::Bubblewrap) => {
                lacks("there is no bubblewrap that works here (bwrap in /usr/bin)")
            }
            (None, _) => lacks("this machine has neither Landlock nor a bubblewrap that works"),
        }
    }

    /// Returns the command line of the launcher; `None` if there is no launcher.
    pub(crate) fn start(&self) -> Result<Option<Start>, SandboxError> {
        self.check()?;
        let launcher = self.launcher.as_deref();
        let Some(launcher) = launcher.filter(|_| cfg!(target_os = "linux")) else {
            return Ok(None);
        };
        let by = self.enforcer().unwrap_or(None);
        let system = places::system(self.network);
        let granted = self.granted();
        let mut program = launcher.to_owned();
        let mut arguments = Vec::new();
        if let Some(Mechanism::Bubblewrap(path, _)) = &by {
            arguments = bubblewrap::arguments(launcher, &system, &granted, self.network);
            arguments.push(launcher.into());
            program.clone_from(path);
        }
        arguments.push(LAUNCHER_ARG.into());
        #[cfg(target_os = "linux")]
        let descriptors = if by.is_some() {
            let open = granted.iter().filter_map(|(path, _)| path.descriptor());
            open.collect()
        } else {
            Vec::new()
        };
        let grants = granted.iter().map(|(path, writable)| Grant {
            path: path.path().into(),
            writable: *writable,
        });
        let confinement = by.map(|by| SandboxPolicy {
            system: system.into_iter().map(Into::into).collect(),
            granted: grants.collect(),
            mounts: self.mounts(&by),
            network: self.network,
            home: self.opens_home(),
        });
        Ok(Some(Start {
            program,
            arguments,
            confinement,
            #[cfg(target_os = "linux")]
            descriptors,
        }))
    }

    /// Returns the granted paths that are open, each with whether it is writable.
    fn granted(&self) -> Vec<(&GrantedPath, bool)> {
        let writable = self.writable.iter().chain(&self.roots);
        let readable = self.readable.iter().map(|path| (path, false));
        let granted = readable.chain(writable.map(|path| (path, true)));
        #[cfg(target_os = "linux")]
        let granted = granted.filter(|(path, _)| path.descriptor().is_some());
        granted.collect()
    }

    /// Returns the mounts of a command.
    fn mounts(&self, by: &Mechanism) -> Mounts {
        match by {
            Mechanism::Bubblewrap(..) => Mounts::Granted,
            Mechanism::Landlock(_) if self.has_namespaces() => Mounts::ReadOnly,
            Mechanism::Landlock(_) => Mounts::Shared,
        }
    }

    /// Returns whether the launcher can create namespaces for a command.
    fn has_namespaces(&self) -> bool {
        #[cfg(target_os = "linux")]
        {
            let launcher = self.launcher.as_deref();
            launcher.is_some_and(|launcher| namespaces::are_possible(launcher, LAUNCHER_ARG))
        }
        #[cfg(not(target_os = "linux"))]
        {
            false
        }
    }

    fn opens_home(&self) -> bool {
        let Some(home) = &self.home else { return false };
        let mut given = self.readable.iter().chain(&self.writable);
        given.any(|granted| granted.path().starts_with(home))
            || self.roots.iter().any(|root| home.starts_with(root.path()))
    }

    /// Returns whether a program at `path` can be started in the sandbox.
    pub(crate) fn can_read(&self, path: &Path) -> bool {
        if !matches!(self.enforcer(), Ok(Some(_))) {
            return true;
        }
        // A link is resolved to its target.
        let Ok(real) = path.canonicalize() else {
            return false;
        };
        let given = [&self.readable, &self.writable, &self.roots];
        let given = given.into_iter().flatten();
        let given = given.map(|granted| granted.path().to_owned());
        let given = places::of_programs().chain(given);
        let mut given = given.filter_map(|folder| folder.canonicalize().ok());
        given.any(|folder| real.starts_with(folder))
    }

    /// Searches `PATH` for a program that can be started in the sandbox.
    ///
    /// The error contains the first program found that cannot be started.
    pub(crate) fn find(
        &self,
        name: &OsStr,
        path: Option<&OsStr>,
    ) -> Result<PathBuf, Option<PathBuf>> {
        let mut closed = None;
        for folder in std::env::split_paths(path.unwrap_or_default()) {
            let candidate = folder.join(name);
            if !folder.is_absolute() || !candidate.is_file() {
                continue;
            }
            if self.can_read(&candidate) {
                return Ok(candidate);
            }
            closed.get_or_insert(candidate);
        }
        Err(closed)
    }
}
