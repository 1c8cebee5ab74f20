//! The requests that wait for the threads of a database.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::queue::Job;

/// The waiting requests of some threads.
#[derive(Default)]
pub(super) struct Requests {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Box<dyn Job>>,
    /// The threads that process requests.
    threads: usize,
    /// The threads that have nothing to do. Others are not woken.
    idle: usize,
    is_closed: bool,
}

impl std::fmt::Debug for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Requests").finish_non_exhaustive()
    }
}

impl Requests {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request. It is dropped if no thread will process it.
    pub(super) fn push(&self, job: Box<dyn Job>) {
        let mut waiting = self.lock();
        if waiting.is_closed {
            return;
        }
        waiting.jobs.push_back(job);
        let is_idle = waiting.idle > 0;
        drop(waiting);
        if is_idle {
            self.arrived.notify_one();
        }
    }

    /// Ends the threads after the requests that wait.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.arrived.notify_all();
    }

    /// Registers a thread.
    pub(super) fn thread(self: &Arc<Self>) -> RequestThread {
        self.lock().threads += 1;
        RequestThread(Arc::clone(self))
    }
}

/// A thread that processes requests. When the last one ends, all that wait are dropped.
pub(super) struct RequestThread(Arc<Requests>);

impl RequestThread {
    /// Returns the next request, and whether it had to wait for this thread.
    ///
    /// Waits for one; `None` after the requests were closed.
    pub(super) fn next(&self) -> Option<(Box<dyn Job>, bool)> {
        let mut waiting = self.0.lock();
        let mut has_waited = true;
        loop {
            if let Some(job) = waiting.jobs.pop_front() {
                return Some((job, has_waited));
            }
            if waiting.is_closed {
                return None;
            }
            has_waited = false;
            waiting.idle += 1;
            let arrived = self.0.arrived.wait(waiting);
            waiting = arrived.unwrap_or_else(PoisonError::into_inner);
            waiting.idle -= 1;
        }
    }

    /// Adds the waiting requests to a batch of at most `most`.
    pub(super) fn fill(&self, batch: &mut Vec<Box<dyn Job>>, most: usize) {
        let mut waiting = self.0.lock();
        let count = most.saturating_sub(batch.len()).min(waiting.jobs.len());
        batch.extend(waiting.jobs.drain(..count));
    }
}

impl Drop for RequestThread {
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        waiting.threads -= 1;
        if waiting.threads == 0 {
            // A thread that panicked answers nothing more.
            waiting.is_closed = true;
            let jobs = std::mem::take(&mut waiting.jobs);
            drop(waiting);
            drop(jobs);
        }
    }
}
