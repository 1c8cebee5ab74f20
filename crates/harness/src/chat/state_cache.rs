//! A cache of session states, so that a turn costs only its additions.
//!
//! A state is kept with the position of the history that it stands for. The next turn asks the
//! store for the current position and reads only the newer messages. A session that another process
//! changed in any other way is read anew.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use logue_graph::State;

use super::failed_turns::FailedTurns;
use super::open::Opened;

/// The cached state of a session.
#[derive(Clone, Debug)]
pub(super) struct CachedState {
    /// Its state as of `seq` and `cursor`.
    pub(super) state: State,
    /// The number of messages of the history in the state.
    pub(super) seq: u64,
    /// The latest outcome when the state was right.
    pub(super) cursor: u64,
    /// The turns whose calls ran and that have no answer.
    pub(super) failed: FailedTurns,
    /// The count of the last insertion, which orders entries by age.
    used: u64,
}

/// A bounded number of states.
#[derive(Debug)]
pub(super) struct StateCache {
    most: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    sessions: HashMap<String, CachedState>,
    clock: u64,
}

impl StateCache {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            inner: Mutex::default(),
        }
    }

    /// Takes the cached state of a session; the task that runs its turn returns it.
    pub(super) fn take(&self, session: &str) -> Option<CachedState> {
        self.lock().sessions.remove(session)
    }

    /// Caches a session, and evicts the least recently used one beyond the limit.
    pub(super) fn put(&self, session: &str, opened: Opened) {
        if self.most == 0 {
            return;
        }
        let mut inner = self.lock();
        inner.clock += 1;
        let used = inner.clock;
        let known = CachedState {
            state: opened.state,
            seq: opened.seq,
            cursor: opened.cursor,
            failed: opened.failed,
            used,
        };
        inner.sessions.insert(session.to_owned(), known);
        if inner.sessions.len() > self.most {
            let oldest = inner.sessions.iter().min_by_key(|(_, known)| known.used);
            let oldest = oldest.map(|(session, _)| session.clone());
            if let Some(oldest) = oldest {
                inner.sessions.remove(&oldest);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
