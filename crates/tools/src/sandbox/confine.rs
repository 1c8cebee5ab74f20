//! Landlock: a thread that gives up what it does not need, and everything that it starts with it.

use std::ffi::OsStr;
use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, LandlockStatus,
    PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _,
    RulesetError, Scope,
};

use rustix::thread::{CapabilitySet, capabilities, set_capabilities, set_no_new_privs};

use super::protocol::SandboxPolicy;

/// The newest interface that the rules here are written for.
const KNOWN: ABI = ABI::V6;

/// Devices that programs expect to have and that hold nothing.
const DEVICES: [&str; 6] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
];

/// What a superuser keeps: files of other users stay as reachable as they were. The rest would lead
/// past the confinement, as to the environment of other processes.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID);

/// The version of Landlock's interface in this kernel, as far as it is known here.
pub(super) fn landlock_version() -> Option<u32> {
    // What a thread gives up ends with it.
    let probing = std::thread::spawn(|| {
        let ruleset = Ruleset::default()
            .handle_access(AccessFs::Execute)?
            .create()?;
        ruleset.restrict_self().map(|status| status.landlock)
    });
    match probing.join() {
        Ok(Ok(LandlockStatus::Available { effective_abi, .. })) => Some(effective_abi as u32),
        _ => None,
    }
}

/// Confines this thread, and what it starts from now on, for ever. Whether a kernel that cannot is
/// an error is up to the confinement.
///
/// # Errors
/// The kernel refuses; nothing must be started then.
pub(super) fn restrict(confinement: &SandboxPolicy, private: &Path) -> Result<(), String> {
    let status = ruleset(confinement, private)
        .and_then(RulesetCreated::restrict_self)
        .map_err(|error| format!("Landlock refuses: {error}"))?;
    let is_there = matches!(status.landlock, LandlockStatus::Available { .. });
    if confinement.landlock && !is_there {
        return Err("this kernel has no Landlock".to_owned());
    }
    Ok(())
}

/// Gives up the privileges of this thread and of what it starts. A program of the superuser gets
/// none of them back, because no new privileges are given.
///
/// # Errors
/// The kernel refuses.
pub(super) fn drop_privileges() -> Result<(), String> {
    let told = |error: rustix::io::Errno| format!("privileges cannot be given up: {error}");
    set_no_new_privs(true).map_err(told)?;
    let mut sets = capabilities(None).map_err(told)?;
    sets.effective &= KEPT;
    sets.permitted &= KEPT;
    sets.inheritable = CapabilitySet::empty();
    set_capabilities(None, sets).map_err(told)
}

fn ruleset(confinement: &SandboxPolicy, private: &Path) -> Result<RulesetCreated, RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(KNOWN))?
        .scope(Scope::from_all(KNOWN))?;
    if !confinement.network {
        ruleset = ruleset.handle_access(AccessNet::from_all(KNOWN))?;
    }
    let readable = AccessFs::from_read(KNOWN);
    let writable =
        (readable | AccessFs::from_write(KNOWN)) & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    let mut created = ruleset.create()?;
    for path in &confinement.readable {
        created = allow(created, path, readable)?;
    }
    for path in &confinement.writable {
        created = allow(created, path, writable & !AccessFs::IoctlDev)?;
    }
    for path in DEVICES {
        created = allow(created, OsStr::new(path), device)?;
    }
    allow(created, private.as_os_str(), writable)
}

/// Allows something in and below a path. One that is not there needs no allowing.
fn allow(
    created: RulesetCreated,
    path: &OsStr,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let is_file = !Path::new(path).is_dir();
    match PathFd::new(path) {
        Ok(place) if is_file => {
            created.add_rule(PathBeneath::new(place, access & AccessFs::from_file(KNOWN)))
        }
        Ok(place) => created.add_rule(PathBeneath::new(place, access)),
        Err(_) => Ok(created),
    }
}
