//! Messages between a program and its sandbox launcher.
//!
//! The launcher's standard input is one end of a socket. It receives one line of JSON, the
//! [`LaunchRequest`], with the descriptors of the granted paths, and sends one line, the [`LaunchResult`]. When the other end is closed, the
//! launcher ends the command.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

use super::ResourceLimits;

/// Maximum size of a request in bytes, including the input of the command.
pub(crate) const MAX_REQUEST_BYTES: usize = 64 * 1024 * 1024;

/// A command to run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LaunchRequest {
    /// The program and its arguments.
    pub(crate) words: Vec<OsString>,
    /// The working directory; `None` is a private empty directory.
    pub(crate) folder: Option<OsString>,
    /// The complete environment.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// The standard input.
    pub(crate) input: LaunchInput,
    /// The resource limits.
    pub(crate) limits: ResourceLimits,
    /// The sandbox policy; `None` allows everything that the user may do.
    pub(crate) confinement: Option<SandboxPolicy>,
}

/// The standard input of a command.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum LaunchInput {
    /// No input.
    Empty,
    /// This text.
    Text(String),
    /// The last descriptor that was sent.
    Descriptor,
}

/// The access of a command.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SandboxPolicy {
    /// Paths of the system with read and execute access. Commands cannot change them.
    pub(crate) system: Vec<OsString>,
    /// Paths granted by descriptor; the descriptors are sent in the same order.
    pub(crate) granted: Vec<Grant>,
    /// The mounts of the command.
    pub(crate) mounts: Mounts,
    /// Whether the network is open.
    pub(crate) network: bool,
    /// Whether the home directory is readable, so that `HOME` may name it.
    pub(crate) home: bool,
}

/// The mounts of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Mounts {
    /// Those of the program; Landlock is mandatory.
    Shared,
    /// Its own, read-only outside the writable paths; Landlock is mandatory.
    ReadOnly,
    /// Its own, of the granted paths, which bubblewrap looked up by name.
    Granted,
}

/// A file or directory that a command may access.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Grant {
    /// Its path when it was opened.
    pub(crate) path: OsString,
    /// Whether it may be written.
    pub(crate) writable: bool,
}

/// The result of a launch.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LaunchResult {
    /// The command could not be started.
    NotStarted(String),
    /// The command was not started because it could not be confined.
    NotConfined(String),
    /// The command and all of its processes have ended.
    Ended {
        /// The exit status.
        code: Option<i32>,
        /// The signal that killed it.
        signal: Option<i32>,
        /// The limit that it exceeded.
        stopped: Option<LimitExceeded>,
        /// Number of remaining processes that were ended.
        left: usize,
    },
}

/// A resource limit that a command exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LimitExceeded {
    /// Memory of all processes.
    Memory,
    /// Number of processes.
    Processes,
    /// Space of a file system.
    Disk,
}
