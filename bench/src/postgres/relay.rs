//! A relay in front of the server's socket, which counts round trips.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::harness::Failed;

/// The file that libpq and its like append to the directory of a host.
const FILE: &str = ".s.PGSQL.5432";

/// A relay. It accepts connections until the process ends.
pub(super) struct Relay {
    folder: tempfile::TempDir,
    trips: Arc<AtomicU64>,
}

impl Relay {
    /// Starts a relay to the socket in a directory.
    pub(super) fn start(server: &Path) -> Result<Self, Failed> {
        let folder = tempfile::tempdir()?;
        let listener = UnixListener::bind(folder.path().join(FILE))?;
        let trips = Arc::new(AtomicU64::new(0));
        let (server, counter) = (server.join(FILE), Arc::clone(&trips));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if let Err(error) = connect(client, &server, &counter) {
                    eprintln!("the relay: {error}");
                }
            }
        });
        Ok(Self { folder, trips })
    }

    /// Returns the URL of a database through the relay.
    pub(super) fn url(&self, database: &str) -> String {
        let folder = self.folder.path().to_string_lossy().replace('/', "%2F");
        let name = database.rsplit('/').next().unwrap_or_default();
        format!("postgresql://postgres@{folder}/{name}")
    }

    /// Returns the number of round trips so far.
    pub(super) fn trips(&self) -> u64 {
        self.trips.load(Ordering::Relaxed)
    }
}

/// Connects a client with the server.
///
/// A trip begins when the client sends something after the server has answered: requests that are sent
/// together, without waiting for an answer, are one trip.
fn connect(client: UnixStream, server: &PathBuf, trips: &Arc<AtomicU64>) -> Result<(), Failed> {
    let server = UnixStream::connect(server)?;
    let is_answered = Arc::new(AtomicBool::new(true));
    let (from_client, to_client) = (client.try_clone()?, client);
    let (from_server, to_server) = (server.try_clone()?, server);
    let (trips, answered) = (Arc::clone(trips), Arc::clone(&is_answered));
    std::thread::spawn(move || {
        copy(from_client, to_server, || {
            if answered.swap(false, Ordering::Relaxed) {
                trips.fetch_add(1, Ordering::Relaxed);
            }
        });
    });
    std::thread::spawn(move || {
        copy(from_server, to_client, || {
            is_answered.store(true, Ordering::Relaxed);
        });
    });
    Ok(())
}

/// Copies until one side ends.
fn copy(mut from: UnixStream, mut to: UnixStream, mut note: impl FnMut()) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length) = from.read(&mut buffer) {
        if length == 0 {
            break;
        }
        note();
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    // The other direction ends as well, if it has not.
    drop(to.shutdown(Shutdown::Both));
}
