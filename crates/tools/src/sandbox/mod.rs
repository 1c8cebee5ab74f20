//! Programs that reach only what they were given.
//!
//! A [`Sandbox`] says what a program may reach. Nothing in this process is confined: the program is
//! started by a *launcher*, the executable of this very program (or another one that calls
//! [`launch`]) in a process of its own. The launcher confines a thread of its own by Landlock and a
//! filter of system calls and starts the program from it, so the program is confined from its first
//! instruction and cannot undo it. Where the kernel has no Landlock, or if that is asked for, the
//! launcher runs in the namespaces of bubblewrap. The launcher stays outside, watches what the
//! program costs and ends everything that it leaves behind.
//!
//! [`probe`] says what the machine has, [`Sandbox::status`] what is enforced of the promise.

mod bubblewrap;
#[cfg(target_os = "linux")]
mod confine;
#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod launch;
mod places;
#[cfg(target_os = "linux")]
mod process_tree;
mod protocol;
mod status;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

pub(crate) use protocol::{LaunchRequest, LaunchResult, LimitExceeded, SandboxPolicy};
pub use status::{Mechanism, Protection, SandboxProbe, SandboxStatus, probe};

/// The first argument by which a launcher knows that it is one.
pub const LAUNCHER_ARG: &str = "__sandbox";

/// Runs the command that the standard input orders, confined as ordered, and ends what it leaves
/// behind. A program calls it at the beginning of `main`, before there is a second thread, when its
/// first argument is [`LAUNCHER_ARG`]; then its executable can be the launcher of a [`Sandbox`].
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

/// Ends what a launcher that is gone has left in its session. It makes a session of its own, so that
/// `launcher` is the session's number as well.
#[cfg(target_os = "linux")]
pub(crate) fn end_session(launcher: u32) {
    process_tree::end_session(launcher);
}

/// What confines programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SandboxMode {
    /// Landlock where the kernel has it, else bubblewrap where it works, else nothing.
    #[default]
    Auto,
    /// Landlock, or the program is not run.
    Landlock,
    /// Bubblewrap, or the program is not run; Landlock beside it where there is one.
    Bubblewrap,
    /// Nothing. Processes left behind are still ended.
    Off,
}

/// What all processes of one command may cost; `None` is what the user may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// Bytes of memory: of each process by the kernel, of all together as they are looked at.
    pub memory_bytes: Option<u64>,
    /// Bytes of the largest file that is written.
    pub file_bytes: Option<u64>,
    /// Processes at one time, as they are looked at.
    pub processes: Option<usize>,
}

impl Default for ResourceLimits {
    fn default() -> Self {
        Self {
            memory_bytes: Some(4 << 30),
            file_bytes: Some(1 << 30),
            processes: Some(512),
        }
    }
}

/// What a program may reach.
///
/// Without a [launcher](Self::with_launcher) nothing is confined, which [`Sandbox::status`] says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sandbox {
    /// What confines.
    pub mode: SandboxMode,
    /// Whether a program is not run rather than run without confinement.
    pub required: bool,
    /// Files and folders that can be read beside those of the system.
    pub readable: Vec<PathBuf>,
    /// Files and folders that can be read and written.
    pub writable: Vec<PathBuf>,
    /// Whether the network is open.
    pub network: bool,
    /// The user's home folder. Programs are told a private empty one instead, unless `readable` or
    /// `writable` name something in it or the run's folders hold it.
    pub home: Option<PathBuf>,
    /// What the program may cost.
    pub limits: ResourceLimits,
    /// Folders of the run, read and written.
    roots: Vec<PathBuf>,
    launcher: Option<PathBuf>,
}

/// Why a program is not run: it would not be confined as it has to be (`E-SANDBOX-UNAVAILABLE`).
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

/// How a program is started.
#[derive(Debug)]
pub(crate) struct Start {
    /// The process to start: bubblewrap or the launcher.
    pub(crate) program: PathBuf,
    /// Its arguments.
    pub(crate) arguments: Vec<OsString>,
    /// What the launcher confines the command to.
    pub(crate) confinement: Option<SandboxPolicy>,
}

impl Sandbox {
    /// A sandbox whose launcher is the executable at `path`: a program that calls [`launch`], such
    /// as `logue` itself.
    pub fn with_launcher(path: impl Into<PathBuf>) -> Self {
        Self {
            launcher: Some(path.into()),
            ..Self::default()
        }
    }

    /// The same by other means.
    #[must_use]
    pub fn with_mode(mut self, mode: SandboxMode) -> Self {
        self.mode = mode;
        self
    }

    /// The same for programs that work on these folders.
    pub(crate) fn working_on(mut self, folders: &[PathBuf]) -> Self {
        self.roots.extend_from_slice(folders);
        self
    }

    /// The same for programs that look at these folders.
    pub(crate) fn looking_at(mut self, folders: &[PathBuf]) -> Self {
        self.readable.extend_from_slice(folders);
        self
    }

    /// What is enforced of what this sandbox promises, on this machine.
    pub fn status(&self) -> SandboxStatus {
        let supervised = cfg!(target_os = "linux") && self.launcher.is_some();
        match self.enforcer() {
            Ok(by) => {
                let reason = None;
                SandboxStatus::new(by, supervised, self.network, probe(), reason)
            }
            Err(error) => {
                SandboxStatus::new(None, supervised, self.network, probe(), Some(error.reason))
            }
        }
    }

    /// Whether a program is run at all.
    ///
    /// # Errors
    /// What is asked for, or any confinement if it is required, is not to be had.
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

    /// What confines; `None` if that is what is asked for.
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

    /// How a command is started; `None` where there is no launcher.
    pub(crate) fn start(&self) -> Result<Option<Start>, SandboxError> {
        self.check()?;
        let launcher = self.launcher.as_deref();
        let Some(launcher) = launcher.filter(|_| cfg!(target_os = "linux")) else {
            return Ok(None);
        };
        let by = self.enforcer().unwrap_or(None);
        let readable = self.all_readable();
        let writable = [self.writable.as_slice(), &self.roots].concat();
        let mut program = launcher.to_owned();
        let mut arguments = Vec::new();
        if let Some(Mechanism::Bubblewrap(path, _)) = &by {
            arguments = bubblewrap::arguments(launcher, &readable, &writable, self.network);
            arguments.push(launcher.into());
            program.clone_from(path);
        }
        arguments.push(LAUNCHER_ARG.into());
        let texts = |paths: &[PathBuf]| -> Vec<OsString> {
            paths.iter().map(|path| path.clone().into()).collect()
        };
        let confinement = by.map(|by| SandboxPolicy {
            readable: texts(&readable),
            writable: texts(&writable),
            network: self.network,
            home: self.opens_home(),
            landlock: matches!(by, Mechanism::Landlock(_)),
        });
        Ok(Some(Start {
            program,
            arguments,
            confinement,
        }))
    }

    fn all_readable(&self) -> Vec<PathBuf> {
        let mut all = places::system(self.network);
        all.extend(self.readable.iter().cloned());
        all
    }

    fn opens_home(&self) -> bool {
        let Some(home) = &self.home else { return false };
        let mut given = self.readable.iter().chain(&self.writable);
        given.any(|path| path.starts_with(home))
            || self.roots.iter().any(|root| home.starts_with(root))
    }

    /// Whether a program at `path` can be started inside.
    pub(crate) fn can_read(&self, path: &Path) -> bool {
        if !matches!(self.enforcer(), Ok(Some(_))) {
            return true;
        }
        // A link leads where it leads.
        let Ok(real) = path.canonicalize() else {
            return false;
        };
        let given = [&self.readable, &self.writable, &self.roots];
        let given = places::of_programs().chain(given.into_iter().flatten().cloned());
        let mut given = given.filter_map(|folder| folder.canonicalize().ok());
        given.any(|folder| real.starts_with(folder))
    }

    /// Where `PATH` finds a program that can be started inside, or else where it finds one that
    /// cannot.
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
