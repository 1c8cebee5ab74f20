//! Observations of the runs of a case: node events, middleware logs, node meetings.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use logue_graph::{IdSource, NodeError, NodeEvent, Observer, RunInfo};
use logue_harness::{BoxFuture, Clock, Timestamp};
use tokio::sync::Barrier;

/// Everything that the graphs of a case share.
#[derive(Default)]
pub(crate) struct Seen {
    events: Mutex<Vec<SeenEvent>>,
    log: Mutex<Vec<String>>,
    migrations: Mutex<Vec<String>>,
    meetings: Mutex<BTreeMap<usize, Arc<Barrier>>>,
    bodies: AtomicU64,
    raised: Mutex<BTreeMap<Vec<String>, u64>>,
}

/// An event, and the run that it belongs to.
#[derive(Clone)]
pub(crate) struct SeenEvent {
    pub(crate) event: NodeEvent,
    pub(crate) session_id: Option<String>,
}

impl Seen {
    pub(crate) fn events(&self) -> Vec<SeenEvent> {
        lock(&self.events).clone()
    }

    pub(crate) fn event_count(&self) -> usize {
        lock(&self.events).len()
    }

    pub(crate) fn events_from(&self, from: usize) -> Vec<SeenEvent> {
        lock(&self.events).iter().skip(from).cloned().collect()
    }

    pub(crate) fn log(&self, line: impl Into<String>) {
        lock(&self.log).push(line.into());
    }

    pub(crate) fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.log))
    }

    pub(crate) fn migrated(&self, step: String) {
        lock(&self.migrations).push(step);
    }

    pub(crate) fn take_migrations(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.migrations))
    }

    pub(crate) fn body_ran(&self) {
        self.bodies.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of node bodies that have begun in the case.
    pub(crate) fn bodies(&self) -> u64 {
        self.bodies.load(Ordering::Relaxed)
    }

    /// Returns how often a node has raised before, in any process.
    pub(crate) fn raised(&self, namespace: &[String]) -> u64 {
        let mut raised = lock(&self.raised);
        let times = raised.entry(namespace.to_vec()).or_default();
        *times += 1;
        *times - 1
    }

    /// Returns the barrier at which `count` nodes wait for each other.
    pub(crate) fn meeting(&self, count: usize) -> Arc<Barrier> {
        let mut meetings = lock(&self.meetings);
        let meeting = meetings
            .entry(count)
            .or_insert_with(|| Arc::new(Barrier::new(count)));
        Arc::clone(meeting)
    }
}

/// Notes the events of every run of a graph.
pub(crate) struct Watch(pub(crate) Arc<Seen>);

impl Observer for Watch {
    fn observe<'a>(
        &'a self,
        event: &'a NodeEvent,
        run: &'a RunInfo,
    ) -> BoxFuture<'a, Result<(), NodeError>> {
        lock(&self.0.events).push(SeenEvent {
            event: event.clone(),
            session_id: run.session_id().map(str::to_owned),
        });
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Ids in the form of random UUIDs, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Ids(AtomicU64);

impl IdSource for Ids {
    fn new_id(&self) -> String {
        let number = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        format!("00000000-0000-4000-8000-{number:012x}")
    }
}

pub(crate) fn is_uuid(text: &str) -> bool {
    let parts: Vec<_> = text.split('-').collect();
    let lengths: Vec<_> = parts.iter().map(|part| part.len()).collect();
    lengths == [8, 4, 4, 4, 12]
        && parts
            .iter()
            .all(|part| part.chars().all(|c| c.is_ascii_hexdigit()))
}

/// The machine's clock.
pub(crate) struct Machine;

impl Clock for Machine {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let millis = since.map_or(0, |since| since.as_millis());
        Timestamp(u64::try_from(millis).unwrap_or(u64::MAX))
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
