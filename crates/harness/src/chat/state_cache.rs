//! A cache of session states, so that a turn costs only its additions.
//!
//! A state is kept with the position of the history that it stands for, and with the lease under which
//! it was committed. The next turn asks the store for the current position. A session that had another
//! lease since is read anew: another process may have changed it, or deleted and created it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use logue_graph::State;
use logue_message::{ChatMessage, Content, ContentBlock};

use super::MESSAGES;
use super::failed_turns::FailedTurns;
use super::open::Opened;
use super::refused_notes::RefusedNotes;

/// The bytes that a message needs besides its text.
const MESSAGE_BYTES: usize = 256;

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
    /// The epoch of the lease under which it was committed.
    epoch: u64,
    bytes: usize,
    /// The count of the last insertion, which orders entries by age.
    used: u64,
}

impl CachedState {
    /// Returns whether only the owner of the current lease has had the session since.
    pub(super) const fn is_before(&self, epoch: u64) -> bool {
        self.epoch == epoch || self.epoch + 1 == epoch
    }
}

/// A bounded number of states of sessions, for chats with one store and one schema.
#[derive(Debug)]
pub struct StateCache {
    most: usize,
    /// The limit of the text of all sessions.
    ///
    /// With a limit, sessions with other content are not kept.
    max_bytes: Option<usize>,
    inner: Mutex<Inner>,
    /// The notes that the store refused.
    pub(super) refused: RefusedNotes,
}

#[derive(Debug, Default)]
struct Inner {
    sessions: HashMap<String, CachedState>,
    bytes: usize,
    clock: u64,
}

impl Inner {
    fn remove(&mut self, session: &str) -> Option<CachedState> {
        let removed = self.sessions.remove(session)?;
        self.bytes -= removed.bytes;
        Some(removed)
    }
}

impl StateCache {
    /// Creates a cache of at most this many sessions.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            max_bytes: None,
            inner: Mutex::default(),
            refused: RefusedNotes::default(),
        }
    }

    /// Limits the bytes of all texts. Sessions with content other than text are then not kept.
    #[must_use]
    pub const fn with_max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = Some(bytes);
        self
    }

    /// Takes the cached state of a session; the task that runs its turn returns it.
    pub(super) fn take(&self, session: &str) -> Option<CachedState> {
        self.lock().remove(session)
    }

    /// Caches a session that was committed under a lease.
    ///
    /// Evicts the least recently used ones beyond the limits.
    pub(super) fn put(&self, session: &str, epoch: u64, opened: Opened) {
        if self.most == 0 {
            return;
        }
        let max_bytes = self.max_bytes.unwrap_or(usize::MAX);
        let bytes = match self.max_bytes.map(|_| text_bytes(&opened.state)) {
            None => 0,
            Some(Some(bytes)) if bytes <= max_bytes => bytes,
            Some(_) => return,
        };
        let mut inner = self.lock();
        inner.clock += 1;
        let used = inner.clock;
        let known = CachedState {
            state: opened.state,
            seq: opened.seq,
            cursor: opened.cursor,
            failed: opened.failed,
            epoch,
            bytes,
            used,
        };
        inner.remove(session);
        inner.bytes += bytes;
        inner.sessions.insert(session.to_owned(), known);
        while inner.sessions.len() > self.most || inner.bytes > max_bytes {
            let oldest = inner.sessions.iter().min_by_key(|(_, known)| known.used);
            let Some(oldest) = oldest.map(|(session, _)| session.clone()) else {
                return;
            };
            inner.remove(&oldest);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns about the bytes of a state; `None` if it has content other than text.
fn text_bytes(state: &State) -> Option<usize> {
    let mut bytes = 0;
    for message in state.list_of::<ChatMessage>(MESSAGES)? {
        bytes += MESSAGE_BYTES;
        for call in &message.tool_calls {
            bytes += call.arguments.as_str().len();
        }
        match &message.content {
            Content::Absent => {}
            Content::Text(text) => bytes += text.len(),
            Content::Blocks(blocks) => {
                for block in blocks {
                    match block {
                        ContentBlock::Text { text, .. } => bytes += text.len(),
                        _ => return None,
                    }
                }
            }
        }
    }
    Some(bytes)
}
