//! What goes between the program that wants a command run and the launcher that runs it.
//!
//! The launcher's standard input is one end of a socket. One line of JSON comes in, the [`Order`];
//! one line goes out, the [`LaunchResult`]. When the other end is closed, whatever runs is ended.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

use super::ResourceLimits;

/// Bytes of an order. It holds a program's whole input.
pub(crate) const LARGEST_ORDER: usize = 64 * 1024 * 1024;

/// A command to run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LaunchRequest {
    /// The program and its arguments.
    pub(crate) words: Vec<OsString>,
    /// Where it runs; `None` is a private empty folder.
    pub(crate) folder: Option<OsString>,
    /// Its whole environment.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// What it reads.
    pub(crate) input: Option<String>,
    /// What it may cost.
    pub(crate) limits: ResourceLimits,
    /// What it may reach; `None` is everything that the user may.
    pub(crate) confinement: Option<SandboxPolicy>,
}

/// What a command may reach.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SandboxPolicy {
    /// What may be read and run.
    pub(crate) readable: Vec<OsString>,
    /// What may be read and written.
    pub(crate) writable: Vec<OsString>,
    /// Whether the network is open.
    pub(crate) network: bool,
    /// Whether the home folder is one that may be read, so that `HOME` may name it.
    pub(crate) home: bool,
    /// Whether Landlock has to confine; otherwise it does where there is one.
    pub(crate) landlock: bool,
}

/// How it went.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LaunchResult {
    /// The command could not be started.
    NotStarted(String),
    /// It was not started because it could not be confined.
    NotConfined(String),
    /// It ran and is gone, with everything that it started.
    Ended {
        /// Its exit status.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
        /// Why it was ended, if it was.
        stopped: Option<LimitExceeded>,
        /// Processes that it left behind and that were ended.
        left: usize,
    },
}

/// What a command had too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LimitExceeded {
    /// Memory, of all its processes.
    Memory,
    /// Processes.
    Processes,
}
