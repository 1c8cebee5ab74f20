//! The clients: senders that decide about calls, and listeners.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use testkit::Random;

use crate::client;
use crate::cluster::Cluster;
use crate::listener;
use crate::model::{SAY, WORK};
use crate::record::Record;

/// The form of a load.
#[derive(Clone, Copy, Debug)]
pub struct LoadSettings {
    /// The seed of everything that is random.
    pub seed: u64,
    /// The number of messages.
    pub sends: usize,
    /// The number of sessions.
    pub sessions: usize,
    /// The number of concurrent senders.
    pub senders: usize,
    /// The number of listeners of each session.
    pub listeners: usize,
    /// The pause of a sender after each message.
    pub pace: Duration,
}

/// A message to send.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) key: String,
    pub(crate) session: String,
    pub(crate) text: String,
    pub(crate) is_doubled: bool,
}

/// The state that clients share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) addresses: Vec<String>,
    pub(crate) pace: Duration,
    items: Mutex<VecDeque<Item>>,
    record: Mutex<Record>,
    /// The last event of each session, once it is known.
    ends: Mutex<BTreeMap<String, u64>>,
    is_abandoned: AtomicBool,
    has_ended: AtomicBool,
    /// The number of senders that have not ended.
    senders: AtomicUsize,
}

/// Running clients.
#[derive(Debug)]
pub struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Shared {
    pub(crate) fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take(&self) -> Option<Item> {
        let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        items.pop_front()
    }

    /// Returns whether the clients must end without success.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(Ordering::SeqCst)
    }

    /// Returns the number of the last event of a session, once it is known.
    pub(crate) fn end(&self, session: &str) -> Option<u64> {
        let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.get(session).copied()
    }

    /// Returns whether the last events of all sessions are known.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }

    pub(crate) fn address(&self, random: &mut Random) -> &str {
        &self.addresses[random.below(self.addresses.len())]
    }
}

impl Load {
    /// Starts the clients.
    pub fn start(settings: &LoadSettings, addresses: Vec<String>) -> Self {
        let mut random = Random::new(settings.seed);
        let items = (0..settings.sends).map(|number| {
            let key = format!("k{number}");
            let kind = if random.below(5) == 0 { WORK } else { SAY };
            Item {
                session: format!("s{}", random.below(settings.sessions)),
                text: format!("{kind}{key}"),
                is_doubled: random.below(8) == 0,
                key,
            }
        });
        let shared = Arc::new(Shared {
            addresses,
            pace: settings.pace,
            items: Mutex::new(items.collect()),
            record: Mutex::default(),
            ends: Mutex::default(),
            is_abandoned: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            senders: AtomicUsize::new(settings.senders),
        });
        let mut threads = Vec::new();
        for number in 0..settings.senders {
            let shared = Arc::clone(&shared);
            let random = Random::new(settings.seed ^ (1000 + number as u64));
            threads.push(std::thread::spawn(move || {
                client::send_all(&shared, random);
                shared.senders.fetch_sub(1, Ordering::SeqCst);
            }));
        }
        for number in 0..settings.sessions * settings.listeners {
            let session = format!("s{}", number % settings.sessions);
            let shared = Arc::clone(&shared);
            let random = Random::new(settings.seed ^ (1_000_000 + number as u64));
            threads.push(std::thread::spawn(move || {
                listener::listen(&shared, &session, random);
            }));
        }
        Self { shared, threads }
    }

    /// Returns the number of messages that no sender has begun with.
    pub fn waiting(&self) -> usize {
        let items = self.shared.items.lock();
        items.unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Leaves the messages that no sender has begun with.
    pub fn stop(&self) {
        let items = self.shared.items.lock();
        items.unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Returns the observations until now.
    pub fn record(&self) -> MutexGuard<'_, Record> {
        self.shared.record()
    }

    /// Waits until everything that began has ended, and returns the time that it took.
    ///
    /// # Errors
    /// Returns an error that names what is left after the time.
    pub fn settle(&self, cluster: &Cluster, most: Duration) -> io::Result<Duration> {
        let begun = Instant::now();
        loop {
            let left = self.left(cluster)?;
            if left.is_empty() {
                return Ok(begun.elapsed());
            }
            if begun.elapsed() > most {
                let (time, left) = (most.as_secs(), left.join("; "));
                return Err(io::Error::other(format!(
                    "{time} s after the failures: {left}"
                )));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Returns what has not ended.
    fn left(&self, cluster: &Cluster) -> io::Result<Vec<String>> {
        let mut left = Vec::new();
        let senders = self.shared.senders.load(Ordering::SeqCst);
        if senders > 0 {
            left.push(format!("{senders} senders have no answer"));
        }
        let pending = cluster.database.query(
            "select convert_from(id, 'UTF8'), entries - cursor, convert_from(owner, 'UTF8') \
             from logue.session where cursor < entries",
        )?;
        if !pending.is_empty() {
            left.push(format!("pending entries: {}", pending.replace('\n', ", ")));
        }
        let behind = cluster.database.query(
            "select convert_from(s.id, 'UTF8'), s.cursor, l.cursor from logue.session s \
             left join logue.log l on l.id = s.id where l.cursor is distinct from s.cursor",
        )?;
        if !behind.is_empty() {
            left.push(format!(
                "outcomes without events: {}",
                behind.replace('\n', ", ")
            ));
        }
        Ok(left)
    }

    /// Waits for the listeners until they have received the last event of each session.
    ///
    /// # Errors
    /// Returns an error if the database cannot be read.
    pub fn finish(self, cluster: &Cluster, most: Duration) -> io::Result<Record> {
        let ends = cluster
            .database
            .query("select convert_from(id, 'UTF8'), seq from logue.log")?;
        {
            let mut known = self
                .shared
                .ends
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            for line in ends.lines() {
                let (session, seq) = line.split_once('|').unwrap_or((line, ""));
                known.insert(session.to_owned(), seq.parse().unwrap_or(0));
            }
        }
        self.shared.has_ended.store(true, Ordering::SeqCst);
        let begun = Instant::now();
        while self.threads.iter().any(|thread| !thread.is_finished()) && begun.elapsed() < most {
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(self.abandon())
    }

    /// Ends the clients, and returns the observations.
    pub fn abandon(mut self) -> Record {
        self.shared.is_abandoned.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                self.shared
                    .record()
                    .violation("a client panicked".to_owned());
            }
        }
        self.shared.record().clone()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.shared.is_abandoned.store(true, Ordering::SeqCst);
    }
}
