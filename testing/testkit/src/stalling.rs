//! A server that stalls and detects closed connections.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The point at which the server stalls.
#[derive(Clone, Debug)]
pub enum Stall {
    /// The server reads the request and sends nothing.
    Silent,
    /// The server sends these bytes and then nothing.
    After(Vec<u8>),
    /// The server sends the first bytes, then the second ones after each pause, without end.
    Drip(Vec<u8>, Vec<u8>, Duration),
}

/// A running server. It stops when it is dropped.
#[derive(Debug)]
pub struct StallingServer {
    address: SocketAddr,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct State {
    stop: AtomicBool,
    /// The number of requests that have begun.
    begun: AtomicUsize,
    /// The number of connections that the client closed.
    closed: AtomicUsize,
}

impl StallingServer {
    /// Starts a server that stalls in each request.
    ///
    /// # Errors
    /// Returns an error if no port is available.
    pub fn start(stall: Stall) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.stop.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let (stall, shared) = (stall.clone(), Arc::clone(&shared));
                std::thread::spawn(move || serve(stream, &stall, &shared));
            }
        });
        Ok(Self {
            address,
            state,
            thread: Some(thread),
        })
    }

    /// Returns the base URL for a client.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns the number of requests that have begun.
    pub fn begun(&self) -> usize {
        self.state.begun.load(Ordering::SeqCst)
    }

    /// Returns the number of connections that the client closed.
    pub fn closed(&self) -> usize {
        self.state.closed.load(Ordering::SeqCst)
    }
}

impl Drop for StallingServer {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::SeqCst);
        // A connection wakes the listener, which then reads the flag.
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn serve(mut stream: TcpStream, stall: &Stall, state: &State) {
    if answer(&mut stream, stall, state).is_err() {
        state.closed.fetch_add(1, Ordering::SeqCst);
    }
}

/// # Errors
/// Returns an error if the client closed the connection.
fn answer(stream: &mut TcpStream, stall: &Stall, state: &State) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_millis(5)))?;
    stream.set_nodelay(true)?;
    let mut begun = false;
    let mut said = false;
    let mut latest = Instant::now();
    let mut bytes = [0; 4096];
    while !state.stop.load(Ordering::SeqCst) {
        match stream.read(&mut bytes) {
            Ok(0) => return Err(io::ErrorKind::ConnectionAborted.into()),
            Ok(_) if !begun => {
                begun = true;
                state.begun.fetch_add(1, Ordering::SeqCst);
            }
            Ok(_) => {}
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {}
                _ => return Err(error),
            },
        }
        if !begun {
            continue;
        }
        match stall {
            Stall::After(first) | Stall::Drip(first, ..) if !said => {
                said = true;
                stream.write_all(first)?;
                latest = Instant::now();
            }
            Stall::Drip(_, again, pause) if latest.elapsed() >= *pause => {
                stream.write_all(again)?;
                latest = Instant::now();
            }
            _ => {}
        }
    }
    Ok(())
}
