//! System directories that programs need, without secrets.

use std::fs::Metadata;
use std::path::{Path, PathBuf};

/// Directories of programs, libraries and settings in the usual layouts of Linux.
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

/// Directories needed for name resolution.
const NAMES: &[&str] = &[
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager",
];

/// The system settings, some of which are secret.
const SETTINGS: &str = "/etc";

/// Depth to which settings are examined individually.
const DEPTH: usize = 3;

/// Returns the system directories with programs.
pub(super) fn of_programs() -> impl Iterator<Item = PathBuf> {
    SYSTEM.iter().map(PathBuf::from)
}

/// Returns the system directories that are readable in a sandbox.
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

/// Returns the secret settings: those that some user may not read.
pub(super) fn secrets() -> Vec<PathBuf> {
    let mut secrets = Vec::new();
    drop(sift(Path::new(SETTINGS), DEPTH, &mut secrets));
    secrets
}

/// Returns the world-readable parts of a directory; `None` if the directory is secret.
///
/// If everything in it is readable, the directory itself is returned, so that one rule is
/// sufficient.
fn sift(place: &Path, depth: usize, secrets: &mut Vec<PathBuf>) -> Option<Vec<PathBuf>> {
    let Ok(metadata) = std::fs::metadata(place) else {
        // A dangling link is skipped.
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
        // The target of a link is examined where it is.
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

/// Returns whether every user may read it.
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
