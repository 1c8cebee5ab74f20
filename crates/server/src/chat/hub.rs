//! The live ends of the logs of sessions.
//!
//! A reader holds only the number of the last event that it received. It reads recent events from
//! memory and older ones from the log, so that a slow reader costs no memory.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use logue_harness::events::{EventBatch, EventLog, LogPosition, LoggedEvent};
use logue_harness::store::StoreError;
use tokio::sync::watch;

/// The bytes of recent events of a session that are kept in memory.
const TAIL_BYTES: usize = 128 * 1024;

/// The number of events that a reader gets at once.
pub(crate) const PAGE: usize = 256;

/// The number of bytes after which a page of events ends.
const PAGE_BYTES: usize = 64 * 1024;

/// The logs of the sessions of a server, with their readers.
pub(crate) struct SessionHub {
    log: Arc<dyn EventLog>,
    live: Mutex<HashMap<String, Arc<LiveSession>>>,
}

/// The live end of the log of one session.
pub(crate) struct LiveSession {
    /// The events are in memory in the order of the log.
    appending: tokio::sync::Mutex<()>,
    tail: Mutex<Tail>,
    /// The position of a log that has begun, as this process knows it.
    position: Mutex<Option<LogPosition>>,
    /// The number of the last event.
    last: watch::Sender<u64>,
    /// Set when the session is removed.
    is_removed: AtomicBool,
}

#[derive(Default)]
struct Tail {
    generation: u64,
    events: VecDeque<LoggedEvent>,
    bytes: usize,
}

/// Events after a number.
pub(crate) struct EventRead {
    /// The generation of the numbers.
    pub(crate) generation: u64,
    pub(crate) events: Vec<LoggedEvent>,
    /// Whether events between the number and the first of these were removed.
    pub(crate) has_gap: bool,
}

impl SessionHub {
    /// Creates a hub over a log.
    pub(crate) fn new(log: Arc<dyn EventLog>) -> Self {
        Self {
            log,
            live: Mutex::default(),
        }
    }

    pub(crate) fn log(&self) -> &dyn EventLog {
        &*self.log
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<LiveSession>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the live end of a session. It is kept as long as it is held.
    pub(crate) fn live(&self, session: &str) -> Arc<LiveSession> {
        let mut live = self.lock();
        if let Some(found) = live.get(session) {
            return Arc::clone(found);
        }
        let new = Arc::new(LiveSession {
            appending: tokio::sync::Mutex::default(),
            tail: Mutex::default(),
            position: Mutex::default(),
            last: watch::Sender::new(0),
            is_removed: AtomicBool::new(false),
        });
        live.insert(session.to_owned(), Arc::clone(&new));
        new
    }

    /// Forgets the live ends that nothing holds, and returns the sessions of the others.
    pub(crate) fn sweep(&self) -> Vec<String> {
        let mut live = self.lock();
        live.retain(|_, one| Arc::strong_count(one) > 1);
        live.keys().cloned().collect()
    }

    /// Removes the log of a session that was removed, and ends its readers.
    ///
    /// # Errors
    /// Returns an error if the log cannot be written.
    pub(crate) async fn remove(&self, session: &str) -> Result<(), StoreError> {
        self.log.delete(session).await?;
        let removed = self.lock().remove(session);
        if let Some(removed) = removed {
            removed.is_removed.store(true, Ordering::Release);
            removed.last.send_modify(|_| {});
        }
        Ok(())
    }

    /// Wakes the readers of sessions to whose logs other processes have appended.
    ///
    /// Returns the sessions whose logs cannot be read at the moment, or to which this process
    /// appends, which may take long on a connection that is silent.
    pub(crate) async fn catch_up(&self, changed: BTreeSet<String>) -> BTreeSet<String> {
        let mut left = BTreeSet::new();
        for session in changed {
            let live = self.lock().get(&session).map(Arc::clone);
            let Some(live) = live else {
                continue;
            };
            let Ok(_order) = live.appending.try_lock() else {
                left.insert(session);
                continue;
            };
            match self.log.position(&session).await {
                Ok(position) => live.move_to(position),
                Err(_) => drop(left.insert(session)),
            }
        }
        left
    }

    /// Returns the position of the log of a session, as this process knows it.
    ///
    /// Another process may have moved it, which the next [`append`](Self::append) notices.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    pub(crate) async fn position(&self, session: &str) -> Result<LogPosition, StoreError> {
        let live = self.live(session);
        let known = *live.position();
        if let Some(known) = known {
            return Ok(known);
        }
        self.position_in_log(session).await
    }

    /// Returns the position that the log of a session states.
    ///
    /// The log may have been lost or restored since the position was known.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    pub(crate) async fn position_in_log(&self, session: &str) -> Result<LogPosition, StoreError> {
        let live = self.live(session);
        let _order = live.appending.lock().await;
        let position = self.log.position(session).await?;
        *live.position() = position.has_begun().then_some(position);
        Ok(position)
    }

    /// Appends a batch and wakes the readers of the session.
    ///
    /// Returns `None` if the log has not begun, or is not at the position from which the batch was
    /// built.
    ///
    /// # Errors
    /// Returns an error if the log cannot be written.
    pub(crate) async fn append(
        &self,
        session: &str,
        batch: EventBatch,
    ) -> Result<Option<LogPosition>, StoreError> {
        let live = self.live(session);
        let _order = live.appending.lock().await;
        let events = batch.events.clone();
        let position = self.log.append(session, batch).await?;
        *live.position() = position;
        if let Some(position) = position {
            live.push(position, events);
        }
        Ok(position)
    }

    /// Returns events after a number, at most [`PAGE`].
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    pub(crate) async fn read(
        &self,
        session: &str,
        live: &LiveSession,
        after: u64,
    ) -> Result<EventRead, StoreError> {
        if let Some(read) = live.tail_after(after) {
            return Ok(read);
        }
        let page = self.log.since(session, after, PAGE).await?;
        let has_gap = page.removed > after;
        Ok(EventRead {
            generation: page.generation,
            events: page.events,
            has_gap,
        })
    }
}

impl LiveSession {
    /// Returns a receiver that is notified of each append.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }

    /// Returns whether the session was removed.
    pub(crate) fn is_removed(&self) -> bool {
        self.is_removed.load(Ordering::Acquire)
    }

    fn position(&self) -> MutexGuard<'_, Option<LogPosition>> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the events in memory if the log has others.
    fn move_to(&self, position: LogPosition) {
        *self.position() = position.has_begun().then_some(position);
        let mut tail = self.tail();
        let last = tail.events.back().map(|event| event.seq);
        if last == Some(position.seq) && tail.generation == position.generation {
            return;
        }
        *tail = Tail::default();
        drop(tail);
        self.last.send_replace(position.seq);
    }

    fn push(&self, position: LogPosition, events: Vec<(u64, Arc<str>)>) {
        let mut tail = self.tail();
        let last = position.seq;
        let before = last.saturating_sub(events.len() as u64);
        let known = tail.events.back().map(|event| event.seq);
        if known.is_some_and(|known| known != before) || tail.generation != position.generation {
            // Another process has appended meanwhile, or the log is a new one.
            *tail = Tail::default();
            tail.generation = position.generation;
        }
        for (seq, (entry, text)) in (before + 1..).zip(events) {
            tail.bytes += text.len();
            tail.events.push_back(LoggedEvent { seq, entry, text });
        }
        while tail.bytes > TAIL_BYTES && tail.events.len() > 1 {
            let removed = tail.events.pop_front();
            tail.bytes -= removed.map_or(0, |event| event.text.len());
        }
        drop(tail);
        self.last.send_replace(last);
    }

    /// Returns the events after a number, if memory contains all of them.
    fn tail_after(&self, after: u64) -> Option<EventRead> {
        let tail = self.tail();
        let first = tail.events.front()?.seq;
        let skipped = usize::try_from((after + 1).checked_sub(first)?).ok()?;
        let mut bytes = 0;
        let events = tail.events.iter().skip(skipped).take(PAGE);
        let events = events.take_while(|event| {
            let is_taken = bytes < PAGE_BYTES;
            bytes += event.text.len();
            is_taken
        });
        Some(EventRead {
            generation: tail.generation,
            events: events.cloned().collect(),
            has_gap: false,
        })
    }
}
