//! The states of sessions that were open a moment ago, so that a turn costs what it adds.
//!
//! A state is kept with the position of the history that it stands for. Whoever opens the session
//! again asks the store how far it is now, and reads only what came since; a session that somebody
//! else changed in any other way is read anew.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use logue_graph::State;

/// What is known of a session.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// Its state as of `seq` and `cursor`.
    pub(super) state: State,
    /// How many messages of the history are in the state.
    pub(super) seq: u64,
    /// The latest outcome when the state was right.
    pub(super) cursor: u64,
    /// When it was put, as a count.
    used: u64,
}

/// A bounded number of states.
#[derive(Debug)]
pub(super) struct Remembered {
    most: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    sessions: HashMap<String, Known>,
    clock: u64,
}

impl Remembered {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            inner: Mutex::default(),
        }
    }

    /// Takes what is known of a session; whoever runs its turn puts it back.
    pub(super) fn take(&self, session: &str) -> Option<Known> {
        self.lock().sessions.remove(session)
    }

    /// Remembers a session, and forgets the one that was used longest ago if there are too many.
    pub(super) fn put(&self, session: &str, state: State, seq: u64, cursor: u64) {
        if self.most == 0 {
            return;
        }
        let mut inner = self.lock();
        inner.clock += 1;
        let used = inner.clock;
        let known = Known {
            state,
            seq,
            cursor,
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
