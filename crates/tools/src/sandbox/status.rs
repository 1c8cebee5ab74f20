//! Sandbox capabilities of the machine and the protections in effect.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::protocol::Mounts;

/// Locations of bubblewrap. Directories in `PATH` may be untrusted; these belong to the system.
const BUBBLEWRAP: [&str; 3] = ["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap"];

/// The sandbox capabilities of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SandboxProbe {
    /// The Landlock version; `None` if the kernel has no Landlock or it is disabled.
    pub landlock: Option<u32>,
    /// A bubblewrap that can create namespaces.
    pub bubblewrap: Option<PathBuf>,
    /// Whether system calls can be filtered, which closes networks other than TCP, and keys.
    pub filter: bool,
}

/// Probes the kernel once per process.
///
/// The first call costs a thread that restricts itself and, if bubblewrap is installed, a process
/// that ends at once.
pub fn probe() -> &'static SandboxProbe {
    static PROBE: OnceLock<SandboxProbe> = OnceLock::new();
    PROBE.get_or_init(|| SandboxProbe {
        landlock: landlock_version(),
        bubblewrap: BUBBLEWRAP
            .iter()
            .map(Path::new)
            .find(|path| bubblewrap_works(path))
            .map(Path::to_owned),
        filter: filters(),
    })
}

/// Returns whether this bubblewrap can create namespaces, which the system may forbid.
pub(super) fn bubblewrap_works(path: &Path) -> bool {
    use std::process::{Command, Stdio};
    if !path.is_file() {
        return false;
    }
    let mut command = Command::new(path);
    command
        .args(["--unshare-pid", "--unshare-net", "--unshare-ipc"])
        .args(["--ro-bind", "/", "/", "--", "true"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(target_os = "linux")]
fn landlock_version() -> Option<u32> {
    super::confine::landlock_version()
}

#[cfg(target_os = "linux")]
fn filters() -> bool {
    super::filter::is_possible()
}

#[cfg(not(target_os = "linux"))]
fn landlock_version() -> Option<u32> {
    None
}

#[cfg(not(target_os = "linux"))]
fn filters() -> bool {
    false
}

/// A protection that a sandbox provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Protection {
    /// Access to files outside the allowed paths.
    Files,
    /// Modes, owners, times and extended attributes of files outside.
    Attributes,
    /// Truncation of files outside by name.
    Truncation,
    /// TCP in both directions.
    Tcp,
    /// Other networks: UDP, raw packets.
    OtherNetwork,
    /// Sockets of local services.
    LocalSockets,
    /// Signals to processes outside.
    Signals,
    /// Keys of the kernel, shared memory and message queues.
    Objects,
    /// Open descriptors of the calling program.
    Descriptors,
    /// Processes that outlive the command.
    Leftovers,
    /// Memory, file size and number of processes.
    Limits,
}

impl Protection {
    const ALL: [Self; 11] = [
        Self::Files,
        Self::Attributes,
        Self::Truncation,
        Self::Tcp,
        Self::OtherNetwork,
        Self::LocalSockets,
        Self::Signals,
        Self::Objects,
        Self::Descriptors,
        Self::Leftovers,
        Self::Limits,
    ];
}

impl Protection {
    /// Returns whether runs do not warn if it is missing; `logue doctor` reports it.
    ///
    /// Systems that forbid users to create namespaces are common.
    pub fn is_minor(self) -> bool {
        matches!(self, Self::Attributes)
    }
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Files => "files outside its directories",
            Self::Attributes => "modes, owners and times of files outside",
            Self::Truncation => "truncation of files outside",
            Self::Tcp => "TCP",
            Self::OtherNetwork => "UDP and other networks",
            Self::LocalSockets => "sockets of local services",
            Self::Signals => "signals to other processes",
            Self::Objects => "kernel keys and shared memory",
            Self::Descriptors => "open descriptors",
            Self::Leftovers => "leftover processes",
            Self::Limits => "memory and processes",
        })
    }
}

/// A confinement mechanism.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mechanism {
    /// Landlock of the kernel, with its version.
    Landlock(u32),
    /// Bubblewrap at this path, with the Landlock version if both are in effect.
    Bubblewrap(PathBuf, Option<u32>),
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Landlock(version) => write!(f, "Landlock {version}"),
            Self::Bubblewrap(_, None) => f.write_str("bubblewrap"),
            Self::Bubblewrap(_, Some(version)) => write!(f, "bubblewrap and Landlock {version}"),
        }
    }
}

/// The capabilities of a sandbox on this machine besides its mechanism.
pub(super) struct Machine {
    /// Whether there is a launcher that watches the program.
    pub(super) supervised: bool,
    /// Whether system calls can be filtered.
    pub(super) filter: bool,
    /// The mounts of the program.
    pub(super) mounts: Option<Mounts>,
}

/// The protections of a sandbox on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SandboxStatus {
    /// The confinement mechanism; `None` if there is none.
    pub mechanism: Option<Mechanism>,
    /// Protections in effect.
    pub enforced: Vec<Protection>,
    /// Protections that the settings request and that are not in effect.
    pub missing: Vec<Protection>,
    /// The reason why no mechanism is in effect.
    pub reason: Option<&'static str>,
}

impl SandboxStatus {
    /// Creates the status of a mechanism. Allowed networks are neither enforced nor missing.
    pub(super) fn new(
        by: Option<Mechanism>,
        machine: &Machine,
        network: bool,
        reason: Option<&'static str>,
    ) -> Self {
        let (landlock, wrapped) = match &by {
            Some(Mechanism::Landlock(version)) => (*version, false),
            Some(Mechanism::Bubblewrap(_, version)) => (version.unwrap_or(0), true),
            None => (0, false),
        };
        let filtered = by.is_some() && machine.filter;
        let wanted = Protection::ALL.into_iter().filter(|guard| {
            !(network
                && matches!(
                    guard,
                    Protection::Tcp | Protection::OtherNetwork | Protection::LocalSockets
                ))
        });
        let holds = |guard: &Protection| match guard {
            Protection::Files => landlock >= 1 || wrapped,
            Protection::Attributes => {
                matches!(machine.mounts, Some(Mounts::ReadOnly | Mounts::Granted))
            }
            Protection::Truncation => landlock >= 3 || wrapped,
            Protection::Tcp => landlock >= 4 || wrapped || filtered,
            Protection::OtherNetwork => wrapped || filtered,
            Protection::LocalSockets | Protection::Objects => filtered,
            Protection::Signals => landlock >= 6 || wrapped,
            Protection::Descriptors | Protection::Leftovers | Protection::Limits => {
                machine.supervised
            }
        };
        let (enforced, missing) = wanted.partition(holds);
        Self {
            mechanism: by,
            enforced,
            missing,
            reason,
        }
    }

    /// Returns whether files are confined, the minimum for a sandbox.
    pub fn confines(&self) -> bool {
        self.mechanism.is_some()
    }
}

impl fmt::Display for SandboxStatus {
    /// Writes one line: mechanism, enforced protections, missing protections.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |guards: &[Protection]| {
            let names: Vec<String> = guards.iter().map(ToString::to_string).collect();
            names.join(", ")
        };
        match &self.mechanism {
            Some(by) => write!(f, "sandbox: {by}")?,
            None => write!(
                f,
                "no sandbox: {}",
                self.reason.unwrap_or("it is switched off")
            )?,
        }
        if !self.enforced.is_empty() {
            write!(f, "; confined: {}", list(&self.enforced))?;
        }
        if !self.missing.is_empty() {
            write!(f, "; NOT confined: {}", list(&self.missing))?;
        }
        Ok(())
    }
}
