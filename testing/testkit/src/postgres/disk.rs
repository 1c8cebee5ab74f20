//! A disk that becomes full: the library of `testing/faultfs`, preloaded into a server.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The name of the library.
const LIBRARY: &str = "libfaultfs.so";

/// Copies the library into the directory of a server, whose account may have no access to the original.
pub(crate) fn prepare(directory: &Path) -> io::Result<()> {
    let programs = std::env::current_exe()?;
    let beside = programs.ancestors().skip(1).take(2);
    let library = beside
        .map(|folder| folder.join(LIBRARY))
        .find(|library| library.is_file())
        .ok_or_else(|| {
            let program = programs.display();
            io::Error::other(format!(
                "{LIBRARY} is not beside {program}; run `cargo build -p faultfs`"
            ))
        })?;
    fs::copy(library, directory.join(LIBRARY))?;
    Ok(())
}

/// Returns the environment of a server.
pub(crate) fn environment(directory: &Path) -> [(&'static str, PathBuf); 3] {
    [
        ("LD_PRELOAD", directory.join(LIBRARY)),
        ("FAULTFS_UNDER", directory.join("data")),
        ("FAULTFS_FULL", switch(directory)),
    ]
}

/// Returns the file that makes the disk full while it exists.
pub(crate) fn switch(directory: &Path) -> PathBuf {
    directory.join("full")
}
