//! A system call filter for the networks that Landlock does not cover.
//!
//! Landlock covers TCP only. A program without network may therefore not create sockets of any
//! family; connected pairs of sockets remain. `io_uring` could create sockets past the filter, so
//! it is closed too.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

/// The numbers of `socket` and `io_uring_setup`, in each calling convention.
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

/// `EACCES`, the error of a refused `socket` call.
const DENIED: u32 = 13;

/// Returns whether the machine and the kernel support the filter.
pub(super) fn is_possible() -> bool {
    program().is_ok() && std::path::Path::new("/proc/sys/kernel/seccomp").exists()
}

/// Closes the network for this thread and everything that it starts.
///
/// # Errors
/// Returns an error if the kernel or the machine does not support filters.
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
