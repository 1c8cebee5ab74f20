//! Bubblewrap: the launcher in its own namespaces, with the allowed files only.
//!
//! Bubblewrap mounts by name. The launcher inside compares what was mounted with the descriptors of
//! the run before it starts anything.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{GrantedPath, places};

/// Returns the arguments of bubblewrap before the program that it starts.
pub(super) fn arguments(
    launcher: &Path,
    system: &[PathBuf],
    granted: &[(&GrantedPath, bool)],
    network: bool,
) -> Vec<OsString> {
    let fixed = [
        "--die-with-parent",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
    ];
    let mut words: Vec<OsString> = fixed.iter().map(OsString::from).collect();
    if !network {
        words.push("--unshare-net".into());
    }
    words.extend(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"].map(OsString::from));
    let of_kind = |wanted: bool| {
        let of_kind = granted
            .iter()
            .filter(move |(_, writable)| *writable == wanted);
        of_kind.map(|(granted, _)| granted.path())
    };
    let is_covered = |path: &Path| of_kind(true).any(|folder| path.starts_with(folder));
    // The launcher must be readable wherever it is.
    let reads = system.iter().map(PathBuf::as_path).chain(of_kind(false));
    let reads = reads
        .chain([launcher])
        .filter(|path| !is_covered(path) && !path.starts_with("/proc"))
        .map(|path| ("--ro-bind-try", path));
    let writes = of_kind(true).map(|path| ("--bind-try", path));
    let mut binds: Vec<(&str, &Path)> = reads.chain(writes).collect();
    // A path inside another one is mounted after it.
    binds.sort_by_key(|(_, path)| path.components().count());
    for (how, path) in binds {
        words.extend([how.into(), path.into(), path.into()]);
    }
    for path in places::secrets() {
        if path.is_dir() {
            words.extend(["--tmpfs".into(), path.into()]);
        } else {
            words.extend(["--ro-bind".into(), "/dev/null".into(), path.into()]);
        }
    }
    words.push("--".into());
    words
}
