//! Cancellation of single calls (`tool.cancel {call_id, reason}`, OpenChatML 2.2 §8.2).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Cancels waiting and running calls of a [`Router`](super::Router). Clones share their calls.
#[derive(Clone, Default)]
pub struct RouterHandle {
    registry: Arc<Mutex<Registry>>,
}

/// The calls in flight, in the order of their arrival.
#[derive(Default)]
struct Registry {
    next: u64,
    entries: BTreeMap<u64, Entry>,
}

struct Entry {
    conversation: Option<String>,
    call_id: String,
    cancel: oneshot::Sender<String>,
}

/// A call in flight.
pub(super) struct InFlightCall {
    number: u64,
    handle: RouterHandle,
    cancelled: oneshot::Receiver<String>,
}

impl RouterHandle {
    /// Cancels the calls with this id in all conversations; returns whether there was one.
    ///
    /// The result of a cancelled call is `E-TOOL-CANCELLED` with the reason. A call that has not
    /// started is not run.
    pub fn cancel(&self, call_id: &str, reason: &str) -> bool {
        self.end(reason, |entry| entry.call_id == call_id) > 0
    }

    /// Cancels the call with this id in one conversation. Other conversations may use the same id.
    pub fn cancel_in(&self, conversation: &str, call_id: &str, reason: &str) -> bool {
        let is_meant = |entry: &Entry| {
            entry.call_id == call_id && entry.conversation.as_deref() == Some(conversation)
        };
        self.end(reason, is_meant) > 0
    }

    /// Cancels every call and returns their number.
    pub fn cancel_all(&self, reason: &str) -> usize {
        self.end(reason, |_| true)
    }

    /// Returns the ids of the waiting and running calls, in the order of their arrival.
    pub fn calls(&self) -> Vec<String> {
        let registry = self.lock();
        let entries = registry.entries.values();
        entries.map(|entry| entry.call_id.clone()).collect()
    }

    pub(super) fn enter(&self, conversation: Option<&str>, call_id: &str) -> InFlightCall {
        let (cancel, cancelled) = oneshot::channel();
        let mut registry = self.lock();
        let number = registry.next;
        registry.next += 1;
        let entry = Entry {
            conversation: conversation.map(str::to_owned),
            call_id: call_id.to_owned(),
            cancel,
        };
        registry.entries.insert(number, entry);
        InFlightCall {
            number,
            handle: self.clone(),
            cancelled,
        }
    }

    fn end(&self, reason: &str, is_meant: impl Fn(&Entry) -> bool) -> usize {
        let mut registry = self.lock();
        let ended = registry.entries.extract_if(.., |_, entry| is_meant(entry));
        // A call that has ended in the meantime has no receiver and does not count.
        ended
            .filter_map(|(_, entry)| entry.cancel.send(reason.to_owned()).ok())
            .count()
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InFlightCall {
    /// Returns the reason if the call was cancelled.
    pub(super) fn is_cancelled(&mut self) -> Option<String> {
        self.cancelled.try_recv().ok()
    }

    /// Waits until the call is cancelled; pending forever if it is not.
    pub(super) async fn cancelled(&mut self) -> String {
        match (&mut self.cancelled).await {
            Ok(reason) => reason,
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for InFlightCall {
    fn drop(&mut self) {
        self.handle.lock().entries.remove(&self.number);
    }
}

impl std::fmt::Debug for RouterHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RouterHandle")
            .field("calls", &self.calls())
            .finish_non_exhaustive()
    }
}
