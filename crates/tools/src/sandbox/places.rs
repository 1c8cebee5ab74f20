//! The folders of the system that every program needs, without what is nobody's business.

use std::fs::Metadata;
use std::path::{Path, PathBuf};

/// What programs, their libraries and their settings are in, on the usual layouts of Linux.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/proc",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/sys/kernel/mm",
];

/// What names of hosts are looked up with.
const NAMES: &[&str] = &[
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager",
];

/// Settings of the system; some of them are secrets.
const SETTINGS: &str = "/etc";

/// Folders deep that settings are told apart. What lies deeper is as its folder.
const DEPTH: usize = 3;

/// The system folders that programs are in.
pub(super) fn of_programs() -> impl Iterator<Item = PathBuf> {
    SYSTEM.iter().map(PathBuf::from)
}

/// The system folders that can be read inside a sandbox.
pub(super) fn system(network: bool) -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = of_programs().collect();
    if network {
        places.extend(NAMES.iter().map(PathBuf::from));
    }
    let mut secrets = Vec::new();
    let open = sift(Path::new(SETTINGS), DEPTH, &mut secrets);
    places.extend(open.unwrap_or_default());
    places
}

/// What of the settings is secret: whatever not every user may read.
pub(super) fn secrets() -> Vec<PathBuf> {
    let mut secrets = Vec::new();
    drop(sift(Path::new(SETTINGS), DEPTH, &mut secrets));
    secrets
}

/// The parts of a folder that every user may read: the folder itself if that is all of it, so that
/// one rule says it. `None` if the folder is secret.
fn sift(place: &Path, depth: usize, secrets: &mut Vec<PathBuf>) -> Option<Vec<PathBuf>> {
    let Ok(metadata) = std::fs::metadata(place) else {
        // A link that leads nowhere can do no harm, and no good.
        return Some(Vec::new());
    };
    if !is_open(&metadata) {
        secrets.push(place.to_owned());
        return None;
    }
    if !metadata.is_dir() || depth == 0 {
        return Some(vec![place.to_owned()]);
    }
    let before = secrets.len();
    let Ok(entries) = std::fs::read_dir(place) else {
        return Some(Vec::new());
    };
    let mut parts = Vec::new();
    for entry in entries.flatten() {
        // A link says nothing of what it leads to, which has a place of its own.
        if entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
            continue;
        }
        parts.extend(sift(&entry.path(), depth - 1, secrets).unwrap_or_default());
    }
    if secrets.len() == before {
        parts = vec![place.to_owned()];
    }
    Some(parts)
}

/// Whether every user may read it.
fn is_open(metadata: &Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let needed = if metadata.is_dir() { 0o5 } else { 0o4 };
        metadata.mode() & needed == needed
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        true
    }
}
