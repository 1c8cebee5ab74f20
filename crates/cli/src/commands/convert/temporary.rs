//! Temporary files, which a signal that ends the program removes.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The temporary files that exist.
static EXISTING: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Creates a new file whose name begins with that of `path`.
///
/// Existing files, such as those of a killed run, are skipped.
pub(super) fn create(path: &Path, private: bool) -> io::Result<(PathBuf, File)> {
    #[cfg(unix)]
    signals::listen();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    if private {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    let mut existing = existing();
    for number in 0..100 {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.{number}.logue-tmp", std::process::id()));
        let temporary = path.with_file_name(name);
        match options.open(&temporary) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Ok(file) => {
                existing.insert(temporary.clone());
                return Ok((temporary, file));
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Removes a temporary file, if it was not renamed.
pub(super) fn remove(temporary: &Path) {
    let mut existing = existing();
    drop(std::fs::remove_file(temporary));
    existing.remove(temporary);
}

fn existing() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    EXISTING.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(unix)]
mod signals {
    use std::sync::{Once, mpsc};
    use std::thread;

    use tokio::signal::unix::{SignalKind, signal};

    use super::existing;
    use crate::exit::Exit;
    use crate::setup::signals::runtime;

    /// Removes the temporary files and ends the program at the first signal.
    ///
    /// Returns when the signals are received, so that no file can be left. The signal of a closed
    /// terminal keeps its disposition, for runs under `nohup`.
    pub(super) fn listen() {
        static LISTENING: Once = Once::new();
        LISTENING.call_once(|| {
            let (sender, ready) = mpsc::channel();
            drop(thread::spawn(move || {
                let Ok(runtime) = runtime() else {
                    return;
                };
                let exit = runtime.block_on(async move {
                    let interrupt = signal(SignalKind::interrupt());
                    let terminate = signal(SignalKind::terminate());
                    let (Ok(mut interrupt), Ok(mut terminate)) = (interrupt, terminate) else {
                        return None;
                    };
                    drop(sender);
                    tokio::select! {
                        _ = interrupt.recv() => Some(Exit::Interrupted),
                        _ = terminate.recv() => Some(Exit::Terminated),
                    }
                });
                let Some(exit) = exit else {
                    return;
                };
                // The lock is kept until the end, so that no file is created after this.
                let existing = existing();
                for temporary in &*existing {
                    drop(std::fs::remove_file(temporary));
                }
                std::process::exit(exit.number().into());
            }));
            // An error means that the signals are received, or cannot be.
            let _: Result<(), _> = ready.recv();
        });
    }
}
