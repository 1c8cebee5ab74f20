//! A filter of system calls: what Landlock leaves open of the network.
//!
//! Landlock knows TCP and nothing else. So a program without network may not make sockets at all,
//! of any family; pairs of sockets that are connected to one another remain. Rings of `io_uring`
//! could make sockets past the filter, so there are none.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

/// Numbers of `socket` and `io_uring_setup`, in each way that a program may call them.
#[cfg(target_arch = "x86_64")]
const CLOSED: &[i64] = &[41, 425, X32 + 41, X32 + 425];
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;
#[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
const CLOSED: &[i64] = &[198, 425];
#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
)))]
const CLOSED: &[i64] = &[];

/// `EACCES`, what a program is told that asks for a socket.
const DENIED: u32 = 13;

/// Whether there is a filter for this machine and a kernel that takes it.
pub(super) fn is_possible() -> bool {
    program().is_ok() && std::path::Path::new("/proc/sys/kernel/seccomp").exists()
}

/// Closes the network for this thread and what it starts from now on.
///
/// # Errors
/// The kernel or the machine does not filter system calls.
pub(super) fn close_network() -> Result<(), String> {
    let program = program()?;
    seccompiler::apply_filter(&program).map_err(|error| error.to_string())
}

fn program() -> Result<BpfProgram, String> {
    if CLOSED.is_empty() {
        return Err("system calls are not filtered on this kind of machine".to_owned());
    }
    let target = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    let rules: BTreeMap<i64, Vec<seccompiler::SeccompRule>> =
        CLOSED.iter().map(|number| (*number, Vec::new())).collect();
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(DENIED),
        target,
    )
    .map_err(|error| error.to_string())?;
    filter
        .try_into()
        .map_err(|error: seccompiler::BackendError| error.to_string())
}
