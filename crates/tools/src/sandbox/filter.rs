//! A system call filter for what Landlock does not cover.
//!
//! Landlock covers TCP only. A program without network may therefore not create sockets of any
//! family. Connected pairs of local sockets remain; pairs of datagrams do not, because they can send
//! to other addresses. Limits, priorities and processors of other processes stay as they are, because
//! a limit can end a process that no signal reaches. The kernel's keyrings are closed, and so are objects of System V and POSIX
//! message queues unless the program has a namespace of its own for them. `io_uring` could execute
//! the same operations past the filter.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

/// The numbers of system calls on one kind of machine.
struct CallNumbers {
    socket: i64,
    socketpair: i64,
    fallocate: i64,
    /// `io_uring_setup`, `add_key`, `request_key` and `keyctl`.
    always: &'static [i64],
    /// `prlimit64`, with the process as its first argument and the new limit as its third.
    limit: i64,
    /// `sched_setaffinity`, `sched_setscheduler`, `sched_setparam`, `sched_setattr`,
    /// `migrate_pages` and `move_pages`, with the process as their first argument.
    other_processes: &'static [i64],
    /// `setpriority` and `ioprio_set`, each with the kind of target that means all of a user.
    ///
    /// Their first argument is the kind and their second the id.
    priorities: [(i64, u64); 2],
    /// System V shared memory, semaphores and message queues; POSIX message queues.
    objects: &'static [i64],
    /// The bit of a second calling convention.
    alternative: Option<i64>,
}

#[cfg(target_arch = "x86_64")]
const NUMBERS: Option<CallNumbers> = Some(CallNumbers {
    socket: 41,
    socketpair: 53,
    fallocate: 285,
    always: &[425, 248, 249, 250],
    limit: 302,
    other_processes: &[203, 144, 142, 314, 256, 279],
    priorities: [(141, 2), (251, 3)],
    objects: &[29, 30, 31, 64, 65, 66, 67, 68, 69, 70, 71, 220, 240, 241],
    // x32
    alternative: Some(0x4000_0000),
});
#[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
const NUMBERS: Option<CallNumbers> = Some(CallNumbers {
    socket: 198,
    socketpair: 199,
    fallocate: 47,
    always: &[425, 217, 218, 219],
    limit: 261,
    other_processes: &[122, 119, 118, 274, 238, 239],
    priorities: [(140, 2), (30, 3)],
    objects: &[
        180, 181, 186, 187, 188, 189, 190, 191, 192, 193, 194, 195, 196, 197,
    ],
    alternative: None,
});
#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
)))]
const NUMBERS: Option<CallNumbers> = None;

/// `EACCES`, the error of a refused call.
const DENIED: u32 = 13;

/// `EOPNOTSUPP`, the error of file systems that cannot reserve space.
const UNSUPPORTED: u32 = 95;

/// `AF_UNIX`.
const LOCAL: u64 = 1;

/// The bits of a socket's type, and the types of connected sockets.
const TYPE_BITS: u64 = 0xf;
const CONNECTED: [u64; 2] = [1, 5];

/// The calls that a filter leaves open.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OpenCalls {
    /// Sockets.
    pub(super) network: bool,
    /// Objects of System V and POSIX message queues, which are the program's own.
    pub(super) objects: bool,
}

/// Returns whether the machine and the kernel support the filter.
pub(super) fn is_possible() -> bool {
    programs(OpenCalls::default()).is_ok()
        && std::path::Path::new("/proc/sys/kernel/seccomp").exists()
}

/// Filters the calls of this thread and of everything that it starts.
///
/// # Errors
/// Returns an error if the kernel or the machine does not support filters.
pub(super) fn apply(open: OpenCalls) -> Result<(), String> {
    for program in programs(open)? {
        seccompiler::apply_filter(&program).map_err(|error| error.to_string())?;
    }
    Ok(())
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn programs(open: OpenCalls) -> Result<[BpfProgram; 2], String> {
    let numbers = NUMBERS.ok_or("system calls are not filtered on this kind of machine")?;
    let failed = |error: BackendError| error.to_string();
    // Without conditions, a call is always refused.
    let mut denied: Rules = numbers
        .always
        .iter()
        .map(|number| (*number, Vec::new()))
        .collect();
    if !open.objects {
        denied.extend(numbers.objects.iter().map(|number| (*number, Vec::new())));
    }
    denied.insert(numbers.limit, other_process(&[0, 2]).map_err(failed)?);
    for number in numbers.other_processes {
        denied.insert(*number, other_process(&[0]).map_err(failed)?);
    }
    for (number, user) in numbers.priorities {
        let mut rules = other_process(&[1]).map_err(failed)?;
        rules.push(condition(0, SeccompCmpOp::Eq, user).map_err(failed)?);
        denied.insert(number, rules);
    }
    if !open.network {
        denied.insert(numbers.socket, Vec::new());
        denied.insert(numbers.socketpair, unconnected_pairs().map_err(failed)?);
    }
    // Reserved space is not counted as written.
    let unsupported = Rules::from([(numbers.fallocate, Vec::new())]);
    let program = |mut rules: Rules, error| {
        if let Some(bit) = numbers.alternative {
            let again: Rules = rules
                .iter()
                .map(|(number, rules)| (number | bit, rules.clone()))
                .collect();
            rules.extend(again);
        }
        let target =
            TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
        let action = SeccompAction::Errno(error);
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, target);
        filter.and_then(TryInto::try_into).map_err(failed)
    };
    Ok([program(denied, DENIED)?, program(unsupported, UNSUPPORTED)?])
}

/// Returns the rule for calls in which all these arguments are set.
fn other_process(arguments: &[u8]) -> Result<Vec<SeccompRule>, BackendError> {
    let is_set = |argument: &u8| {
        let length = SeccompCmpArgLen::Qword;
        SeccompCondition::new(*argument, length, SeccompCmpOp::Ne, 0)
    };
    let conditions = arguments.iter().map(is_set).collect::<Result<_, _>>()?;
    Ok(vec![SeccompRule::new(conditions)?])
}

/// Returns the rule for calls with such an argument.
fn condition(
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompRule, BackendError> {
    let length = SeccompCmpArgLen::Dword;
    SeccompRule::new(vec![SeccompCondition::new(
        argument, length, operator, value,
    )?])
}

/// Returns the rules for pairs that are not local, or not always connected.
fn unconnected_pairs() -> Result<Vec<SeccompRule>, BackendError> {
    let mut rules = vec![condition(0, SeccompCmpOp::Ne, LOCAL)?];
    for kind in (0..=TYPE_BITS).filter(|kind| !CONNECTED.contains(kind)) {
        rules.push(condition(1, SeccompCmpOp::MaskedEq(TYPE_BITS), kind)?);
    }
    Ok(rules)
}
