//! Landlock: restriction of a thread and its child processes.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, LandlockStatus,
    PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _,
    RulesetError, Scope,
};

use rustix::fs::FileType;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities, set_no_new_privs};

use super::protocol::{Mounts, SandboxPolicy};

/// The newest Landlock version that these rules cover.
const KNOWN: ABI = ABI::V6;

/// Devices that programs expect and that hold no data.
const DEVICES: [&str; 6] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
];

/// Capabilities that remain for root, so that files of other users stay reachable.
///
/// The others would bypass the confinement, such as by reading the environment of other processes.
const ROOT_CAPABILITIES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID);

/// Returns the Landlock version of this kernel, up to the newest one covered here.
pub(super) fn landlock_version() -> Option<u32> {
    // The restriction ends with the thread.
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

/// Restricts this thread and everything that it starts, permanently.
///
/// The policy decides whether a kernel without Landlock is an error.
///
/// # Errors
/// Returns an error if the kernel refuses; nothing must be started then.
pub(super) fn restrict(
    confinement: &SandboxPolicy,
    descriptors: &[OwnedFd],
    private: &Path,
) -> Result<(), String> {
    if descriptors.len() != confinement.granted.len() {
        return Err("the descriptors of its folders are missing".to_owned());
    }
    let status = ruleset(confinement, descriptors, private)
        .and_then(RulesetCreated::restrict_self)
        .map_err(|error| format!("Landlock refuses: {error}"))?;
    let is_there = matches!(status.landlock, LandlockStatus::Available { .. });
    if confinement.mounts != Mounts::Granted && !is_there {
        return Err("this kernel has no Landlock".to_owned());
    }
    Ok(())
}

/// Drops the privileges of this thread and everything that it starts.
///
/// Set-user-id programs cannot regain them.
///
/// # Errors
/// Returns an error if the kernel refuses.
pub(super) fn drop_privileges() -> Result<(), String> {
    let refused = |error: rustix::io::Errno| format!("privileges cannot be given up: {error}");
    set_no_new_privs(true).map_err(refused)?;
    let mut sets = capabilities(None).map_err(refused)?;
    sets.effective &= ROOT_CAPABILITIES;
    sets.permitted &= ROOT_CAPABILITIES;
    sets.inheritable = CapabilitySet::empty();
    set_capabilities(None, sets).map_err(refused)
}

fn ruleset(
    confinement: &SandboxPolicy,
    descriptors: &[OwnedFd],
    private: &Path,
) -> Result<RulesetCreated, RulesetError> {
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
    for path in &confinement.system {
        created = allow(created, path, readable)?;
    }
    for (grant, descriptor) in confinement.granted.iter().zip(descriptors) {
        let access = if grant.writable {
            writable & !AccessFs::IoctlDev
        } else {
            readable
        };
        created = allow_open(created, descriptor, access)?;
    }
    for path in DEVICES {
        created = allow(created, OsStr::new(path), device)?;
    }
    allow(created, private.as_os_str(), writable)
}

/// Allows access below a path. A missing path is skipped.
fn allow(
    created: RulesetCreated,
    path: &OsStr,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    match PathFd::new(path) {
        Ok(place) => allow_open(created, &place, access),
        Err(_) => Ok(created),
    }
}

/// Allows access below an open file or directory.
fn allow_open(
    created: RulesetCreated,
    place: impl AsFd,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let stat = rustix::fs::fstat(place.as_fd());
    let is_folder =
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
    let access = if is_folder {
        access
    } else {
        access & AccessFs::from_file(KNOWN)
    };
    created.add_rule(PathBeneath::new(place.as_fd(), access))
}
