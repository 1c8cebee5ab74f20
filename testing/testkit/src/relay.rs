//! A relay of connections that a test cuts, delays and silences.

mod connection;
mod faults;
mod stream;

use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use connection::Connection;
pub use faults::RelayFaults;
use stream::{RelayListener, RelayStream};

/// A relay in front of a server. Its connections are cut when it is dropped.
#[derive(Debug)]
pub struct Relay {
    address: String,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    is_refusing: AtomicBool,
    is_silent: AtomicBool,
    has_ended: AtomicBool,
    connections: Mutex<Vec<Connection>>,
}

impl Relay {
    /// Starts a relay on a free port of 127.0.0.1 to an address.
    ///
    /// # Errors
    /// Returns an error if no port is available.
    pub fn start(target: &str, faults: Option<RelayFaults>) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        Ok(Self::run(
            RelayListener::Tcp(listener),
            address,
            target.to_owned(),
            faults,
        ))
    }

    /// Starts a relay on a new Unix socket to another one.
    ///
    /// # Errors
    /// Returns an error if the socket cannot be created.
    pub fn start_socket(
        socket: &Path,
        target: &Path,
        faults: Option<RelayFaults>,
    ) -> io::Result<Self> {
        let listener = UnixListener::bind(socket)?;
        let text = |path: &Path| {
            let path = std::path::absolute(path)?;
            path.into_os_string()
                .into_string()
                .map_err(|path| io::Error::other(format!("invalid path {}", path.display())))
        };
        Ok(Self::run(
            RelayListener::Unix(listener),
            text(socket)?,
            text(target)?,
            faults,
        ))
    }

    /// Returns the address with its port, or the path of the socket.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Cuts all connections, and refuses others.
    pub fn cut(&self) {
        self.state.is_refusing.store(true, Ordering::SeqCst);
        self.cut_connections();
    }

    /// Cuts all connections, and accepts others.
    pub fn cut_connections(&self) {
        for connection in self.state.connections().iter() {
            connection.cut();
        }
    }

    /// Discards what the connections receive, and what others receive until [`Self::restore`].
    ///
    /// A silent connection stays open and silent until it is closed.
    pub fn silence(&self) {
        self.state.is_silent.store(true, Ordering::SeqCst);
        for connection in self.state.connections().iter() {
            connection.silence();
        }
    }

    /// Relays new connections again.
    pub fn restore(&self) {
        self.state.is_refusing.store(false, Ordering::SeqCst);
        self.state.is_silent.store(false, Ordering::SeqCst);
    }

    /// Returns what the client has sent and received, by connection.
    pub fn traffic(&self) -> Vec<(String, String)> {
        self.state
            .connections()
            .iter()
            .map(Connection::traffic)
            .collect()
    }

    /// Returns the number of connections that random faults have cut or silenced.
    pub fn faults(&self) -> usize {
        let connections = self.state.connections();
        connections.iter().filter(|one| one.has_failed()).count()
    }

    fn run(
        listener: RelayListener,
        address: String,
        target: String,
        faults: Option<RelayFaults>,
    ) -> Self {
        if let Some(faults) = &faults {
            faults.report();
        }
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for number in 0_u64.. {
                let client = listener.accept();
                if shared.has_ended.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(client) = client else { continue };
                // A client whose server is away is closed.
                let Ok(server) = RelayStream::connect(&target) else {
                    continue;
                };
                shared.open(client, server, number, faults.as_ref());
            }
        });
        Self { address, state }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.state.has_ended.store(true, Ordering::SeqCst);
        self.cut();
        // Wakes the thread that accepts connections.
        drop(RelayStream::connect(&self.address));
    }
}

impl State {
    fn connections(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Relays a new connection, unless connections are refused.
    fn open(
        &self,
        client: RelayStream,
        server: RelayStream,
        number: u64,
        faults: Option<&RelayFaults>,
    ) {
        // The lock orders this with a cut: a connection is refused or cut.
        let mut connections = self.connections();
        if self.is_refusing.load(Ordering::SeqCst) {
            return;
        }
        let Ok(connection) = Connection::start(client, server, number, faults) else {
            return;
        };
        if self.is_silent.load(Ordering::SeqCst) {
            connection.silence();
        }
        connections.push(connection);
    }
}
