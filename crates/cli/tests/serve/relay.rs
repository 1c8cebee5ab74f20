//! A relay of TCP connections that a test cuts, with the traffic of each.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A relay in front of a server.
pub(crate) struct Relay {
    /// Its address.
    pub(crate) address: String,
    is_open: Arc<AtomicBool>,
    connections: Arc<Mutex<Vec<Connection>>>,
}

/// The traffic of one connection.
struct Connection {
    ends: [TcpStream; 2],
    sent: Arc<Mutex<Vec<u8>>>,
    received: Arc<Mutex<Vec<u8>>>,
}

impl Relay {
    /// Starts a relay to an address.
    pub(crate) fn start(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let is_open = Arc::new(AtomicBool::new(true));
        let connections = Arc::new(Mutex::new(Vec::new()));
        let (server, open) = (server.to_owned(), Arc::clone(&is_open));
        let all = Arc::clone(&connections);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { continue };
                if !open.load(Ordering::SeqCst) {
                    continue;
                }
                let server = TcpStream::connect(&server).unwrap();
                let connection = Connection {
                    sent: copy(&client, &server),
                    received: copy(&server, &client),
                    ends: [client, server],
                };
                all.lock().unwrap().push(connection);
            }
        });
        Self {
            address,
            is_open,
            connections,
        }
    }

    /// Cuts all connections, and refuses others.
    pub(crate) fn cut(&self) {
        self.is_open.store(false, Ordering::SeqCst);
        for connection in self.connections.lock().unwrap().iter() {
            for end in &connection.ends {
                drop(end.shutdown(Shutdown::Both));
            }
        }
    }

    /// Relays connections again.
    pub(crate) fn restore(&self) {
        self.is_open.store(true, Ordering::SeqCst);
    }

    /// Returns what the client has sent and received, by connection.
    pub(crate) fn traffic(&self) -> Vec<(String, String)> {
        let text = |bytes: &Arc<Mutex<Vec<u8>>>| {
            String::from_utf8_lossy(&bytes.lock().unwrap()).into_owned()
        };
        let connections = self.connections.lock().unwrap();
        connections
            .iter()
            .map(|connection| (text(&connection.sent), text(&connection.received)))
            .collect()
    }
}

/// Copies from one end to the other, and returns what was copied.
fn copy(from: &TcpStream, to: &TcpStream) -> Arc<Mutex<Vec<u8>>> {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    let copied = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&copied);
    std::thread::spawn(move || {
        let mut buffer = [0; 16 * 1024];
        while let Ok(count) = from.read(&mut buffer) {
            if count == 0 {
                break;
            }
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
            record.lock().unwrap().extend(&buffer[..count]);
        }
        drop(to.shutdown(Shutdown::Both));
    });
    copied
}
