//! What the machine can enforce, and what a sandbox enforces of what it promises.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Where bubblewrap is looked for. A folder of `PATH` may be anybody's; these are the system's.
const BUBBLEWRAP: [&str; 3] = ["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap"];

/// What this machine has to confine programs with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SandboxProbe {
    /// The version of Landlock's interface; `None` where the kernel has no Landlock or it is
    /// switched off.
    pub landlock: Option<u32>,
    /// A bubblewrap that can make namespaces here.
    pub bubblewrap: Option<PathBuf>,
    /// Whether system calls can be filtered, which closes the network beside TCP.
    pub filter: bool,
}

/// Looks at the kernel, once per process; the same answer afterwards. It costs a thread that
/// restricts itself and, where bubblewrap is installed, a process that ends at once.
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

/// Whether this bubblewrap starts a program in namespaces of its own. It may not where users may
/// make none.
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

/// Something that a sandbox keeps a program from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Protection {
    /// Reading and writing files outside the folders that were given.
    Files,
    /// Cutting files outside to no length by their name.
    Truncation,
    /// TCP, both ways.
    Tcp,
    /// Every other network: UDP, raw packets.
    OtherNetwork,
    /// Sockets of services on this machine.
    LocalSockets,
    /// Signals to processes outside.
    Signals,
    /// Processes that outlive the command, whatever they did to get away.
    Leftovers,
    /// Memory, size of files and number of processes.
    Limits,
}

impl Protection {
    const ALL: [Self; 8] = [
        Self::Files,
        Self::Truncation,
        Self::Tcp,
        Self::OtherNetwork,
        Self::LocalSockets,
        Self::Signals,
        Self::Leftovers,
        Self::Limits,
    ];
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Files => "files outside its folders",
            Self::Truncation => "emptying files outside",
            Self::Tcp => "TCP",
            Self::OtherNetwork => "UDP and other networks",
            Self::LocalSockets => "sockets of local services",
            Self::Signals => "signals to other processes",
            Self::Leftovers => "processes left behind",
            Self::Limits => "memory and processes",
        })
    }
}

/// What confines.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mechanism {
    /// The kernel's Landlock, with the version of its interface.
    Landlock(u32),
    /// Bubblewrap, the program at this path; with Landlock's version where that confines as well.
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

/// What a sandbox enforces and what it does not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SandboxStatus {
    /// What confines; `None` where nothing does.
    pub mechanism: Option<Mechanism>,
    /// What programs are kept from.
    pub enforced: Vec<Protection>,
    /// What they are not kept from although the settings do not allow it.
    pub missing: Vec<Protection>,
    /// Why nothing confines, if so.
    pub reason: Option<&'static str>,
}

impl SandboxStatus {
    /// The status of what `by` enforces. Networks that are allowed are neither enforced nor missing.
    pub(super) fn new(
        by: Option<Mechanism>,
        supervised: bool,
        network: bool,
        probe: &SandboxProbe,
        reason: Option<&'static str>,
    ) -> Self {
        let (landlock, wrapped) = match &by {
            Some(Mechanism::Landlock(version)) => (*version, false),
            Some(Mechanism::Bubblewrap(_, version)) => (version.unwrap_or(0), true),
            None => (0, false),
        };
        let filtered = by.is_some() && probe.filter;
        let wanted = Protection::ALL.into_iter().filter(|guard| {
            !(network
                && matches!(
                    guard,
                    Protection::Tcp | Protection::OtherNetwork | Protection::LocalSockets
                ))
        });
        let holds = |guard: &Protection| match guard {
            Protection::Files => landlock >= 1 || wrapped,
            Protection::Truncation => landlock >= 3 || wrapped,
            Protection::Tcp => landlock >= 4 || wrapped || filtered,
            Protection::OtherNetwork => wrapped || filtered,
            Protection::LocalSockets => filtered,
            Protection::Signals => landlock >= 6 || wrapped,
            Protection::Leftovers | Protection::Limits => supervised,
        };
        let (enforced, missing) = wanted.partition(holds);
        Self {
            mechanism: by,
            enforced,
            missing,
            reason,
        }
    }

    /// Whether files are confined, the least that deserves the name of a sandbox.
    pub fn confines(&self) -> bool {
        self.mechanism.is_some()
    }
}

impl fmt::Display for SandboxStatus {
    /// One line: by what, what is enforced, and what is not.
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
            write!(f, "; kept from: {}", list(&self.enforced))?;
        }
        if !self.missing.is_empty() {
            write!(f, "; NOT kept from: {}", list(&self.missing))?;
        }
        Ok(())
    }
}
