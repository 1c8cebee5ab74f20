//! A relayed connection.

use std::io::{self, Read as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::faults::{Decision, RelayFaults};
use super::stream::RelayStream;
use crate::Random;

/// A connection, with its traffic.
#[derive(Debug)]
pub(super) struct Connection {
    ends: [RelayStream; 2],
    sent: Arc<Mutex<Vec<u8>>>,
    received: Arc<Mutex<Vec<u8>>>,
    state: Arc<ConnectionState>,
}

#[derive(Debug, Default)]
struct ConnectionState {
    is_silent: AtomicBool,
    has_failed: AtomicBool,
}

/// One direction of a connection.
struct Direction {
    from: RelayStream,
    to: RelayStream,
    copied: Arc<Mutex<Vec<u8>>>,
    state: Arc<ConnectionState>,
    faults: Option<(RelayFaults, Random)>,
}

impl Connection {
    /// Relays between two streams.
    pub(super) fn start(
        client: RelayStream,
        server: RelayStream,
        number: u64,
        faults: Option<&RelayFaults>,
    ) -> io::Result<Self> {
        let state = Arc::new(ConnectionState::default());
        let start = |from: &RelayStream, to: &RelayStream, is_answer| {
            let copied = Arc::new(Mutex::new(Vec::new()));
            let faults = faults.map(|faults| (faults.clone(), faults.random(number, is_answer)));
            let direction = Direction {
                from: from.try_clone()?,
                to: to.try_clone()?,
                copied: Arc::clone(&copied),
                state: Arc::clone(&state),
                faults,
            };
            std::thread::spawn(move || direction.run());
            io::Result::Ok(copied)
        };
        let sent = start(&client, &server, false)?;
        let received = start(&server, &client, true)?;
        Ok(Self {
            ends: [client, server],
            sent,
            received,
            state,
        })
    }

    /// Closes both ends.
    pub(super) fn cut(&self) {
        for end in &self.ends {
            end.close();
        }
    }

    /// Discards what either end sends from now on.
    pub(super) fn silence(&self) {
        self.state.is_silent.store(true, Ordering::SeqCst);
    }

    /// Returns whether a random fault cut or silenced the connection.
    pub(super) fn has_failed(&self) -> bool {
        self.state.has_failed.load(Ordering::SeqCst)
    }

    /// Returns what the client has sent and received.
    pub(super) fn traffic(&self) -> (String, String) {
        let text = |bytes: &Mutex<Vec<u8>>| {
            let bytes = bytes.lock().unwrap_or_else(PoisonError::into_inner);
            String::from_utf8_lossy(&bytes).into_owned()
        };
        (text(&self.sent), text(&self.received))
    }
}

impl Direction {
    fn run(mut self) {
        let mut buffer = [0; 16 * 1024];
        loop {
            let count = match self.from.read(&mut buffer) {
                Ok(0) | Err(_) => break,
                Ok(count) => count,
            };
            if !self.relay(&buffer[..count]) {
                break;
            }
        }
        self.to.close();
        self.from.close();
    }

    /// Relays a piece; returns whether the connection continues.
    fn relay(&mut self, piece: &[u8]) -> bool {
        let decision = match &mut self.faults {
            Some((faults, random)) => faults.decide(random, piece.len()),
            None => Decision::Relay,
        };
        if self.state.is_silent.load(Ordering::SeqCst) {
            return true;
        }
        match decision {
            Decision::Relay => self.write(piece),
            Decision::Delay(time) => {
                std::thread::sleep(time);
                self.write(piece)
            }
            Decision::Cut(count) => {
                self.state.has_failed.store(true, Ordering::SeqCst);
                self.write(&piece[..count]);
                false
            }
            Decision::Silence => {
                self.state.has_failed.store(true, Ordering::SeqCst);
                self.state.is_silent.store(true, Ordering::SeqCst);
                true
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> bool {
        // An end that has received the bytes finds them in the traffic.
        let record = |change: &dyn Fn(&mut Vec<u8>)| {
            change(&mut self.copied.lock().unwrap_or_else(PoisonError::into_inner));
        };
        record(&|copied| copied.extend(bytes));
        let is_written = self.to.write_all(bytes).is_ok();
        if !is_written {
            record(&|copied| copied.truncate(copied.len() - bytes.len()));
        }
        is_written
    }
}
