//! Listeners for turns that resumed after a signal (harness-chat §8.2).

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::store::{OutcomeKind, StoreError, StoredOutcome};

use super::failure::Failure;
use super::outcome::ChatTurnOutcome;
use super::{ChatHarness, Inner};

/// The interval at which [`ChatHarness::listen`] looks for changes.
const LOOK: Duration = Duration::from_millis(200);
/// The number of outcomes that are read at once.
const PAGE: usize = 100;

type Callback = Arc<dyn Fn(&ChatTurnOutcome) + Send + Sync>;

/// The listeners of one process.
#[derive(Default)]
pub(super) struct Listeners {
    inner: Mutex<HashMap<u64, Arc<Listener>>>,
    next: Mutex<u64>,
}

struct Listener {
    session: String,
    callback: Callback,
    /// The position up to which outcomes were delivered.
    ///
    /// The lock is held during delivery, so that each outcome is delivered once.
    cursor: tokio::sync::Mutex<u64>,
}

/// A listener's place. It listens until this is dropped.
#[must_use = "dropping it ends the subscription"]
pub struct Subscription {
    id: u64,
    listeners: Weak<Listeners>,
}

impl Subscription {
    /// The cursor after the last delivered outcome; a subscription from here misses none.
    pub async fn cursor(&self) -> Option<u64> {
        let listeners = self.listeners.upgrade()?;
        let listener = listeners.lock().get(&self.id).cloned()?;
        let cursor = *listener.cursor.lock().await;
        Some(cursor)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(listeners) = self.listeners.upgrade() {
            listeners.lock().remove(&self.id);
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Listeners {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Listener>>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sessions with listeners.
    fn sessions(&self) -> BTreeSet<String> {
        let listeners = self.lock();
        listeners
            .values()
            .map(|listener| listener.session.clone())
            .collect()
    }

    fn for_session(&self, session: &str) -> Vec<Arc<Listener>> {
        let listeners = self.lock();
        let mut of: Vec<_> = listeners
            .iter()
            .filter(|(_, listener)| listener.session == session)
            .collect();
        of.sort_by_key(|(id, _)| **id);
        of.into_iter()
            .map(|(_, listener)| Arc::clone(listener))
            .collect()
    }
}

impl<E: Send + 'static> ChatHarness<E> {
    /// Calls `callback` for each resumed turn of the session that completes or fails.
    ///
    /// Only turns that end from now on count, each once. Turns of other processes are reported while
    /// [`listen`](Self::listen) runs, or when [`deliver_outcomes`](Self::deliver_outcomes) or a turn
    /// of this process looks for them. A record that cannot be read is reported once, as an errored
    /// turn of the category `session_load_failed`, and the later ones follow.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn subscribe(
        &self,
        session_id: &str,
        callback: impl Fn(&ChatTurnOutcome) + Send + Sync + 'static,
    ) -> Result<Subscription, StoreError> {
        let info = self.inner.store.session(session_id).await?;
        let now = info.map_or(0, |info| info.cursor);
        Ok(self.subscribe_from(session_id, now, callback))
    }

    /// Subscribes like [`subscribe`](Self::subscribe), starting after a cursor.
    ///
    /// A listener that was away receives the outcomes that it missed.
    pub fn subscribe_from(
        &self,
        session_id: &str,
        cursor: u64,
        callback: impl Fn(&ChatTurnOutcome) + Send + Sync + 'static,
    ) -> Subscription {
        let listeners = &self.inner.listeners;
        let listener = Listener {
            session: session_id.to_owned(),
            callback: Arc::new(callback),
            cursor: tokio::sync::Mutex::new(cursor),
        };
        let id = {
            let mut next = listeners
                .next
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *next += 1;
            *next
        };
        listeners.lock().insert(id, Arc::new(listener));
        Subscription {
            id,
            listeners: Arc::downgrade(listeners),
        }
    }

    /// Delivers outcomes to all listeners as they are stored, also those of other processes.
    ///
    /// Runs until it is dropped: the caller spawns it. The store is looked at five times a second,
    /// and read if it has changed.
    pub async fn listen(&self) {
        let inner = &self.inner;
        let mut seen = None;
        loop {
            let version = inner.store.version().await.ok().flatten();
            if version.is_none() || version != seen {
                let mut is_delivered = true;
                for session in inner.listeners.sessions() {
                    is_delivered &= inner.deliver(&session).await.is_ok();
                }
                // A store that was away is looked at again.
                seen = version.filter(|_| is_delivered);
            }
            inner.clock.sleep(LOOK).await;
        }
    }

    /// Delivers the outstanding outcomes of a session to its listeners.
    ///
    /// # Errors
    /// The store cannot be read; no undelivered outcome is skipped.
    pub async fn deliver_outcomes(&self, session_id: &str) -> Result<(), StoreError> {
        self.inner.deliver(session_id).await
    }

    /// The outcomes after a cursor, each with the cursor that follows it.
    ///
    /// An alternative to [`subscribe`](Self::subscribe) for callers that poll.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn outcomes_since(
        &self,
        session_id: &str,
        cursor: u64,
        limit: usize,
    ) -> Result<Vec<(u64, ChatTurnOutcome)>, StoreError> {
        let stored = self
            .inner
            .store
            .outcomes_since(session_id, cursor, limit)
            .await?;
        let mut outcomes = Vec::with_capacity(stored.len());
        for outcome in &stored {
            outcomes.push((
                outcome.cursor,
                self.inner
                    .outcome_with_messages(session_id, outcome)
                    .await?,
            ));
        }
        Ok(outcomes)
    }
}

impl<E: Send + 'static> Inner<E> {
    pub(super) async fn deliver(&self, session: &str) -> Result<(), StoreError> {
        for listener in self.listeners.for_session(session) {
            let mut cursor = listener.cursor.lock().await;
            loop {
                let page = self.page_after(session, *cursor).await?;
                let Some(page) = page else {
                    break;
                };
                for read in page {
                    let outcome = match read {
                        Ok(stored) => {
                            let outcome = self.reported(session, &stored).await?;
                            *cursor = stored.cursor;
                            outcome
                        }
                        Err(error) => {
                            *cursor += 1;
                            Some(self.errored(Failure::load(&error), None))
                        }
                    };
                    if let Some(outcome) = outcome {
                        // A listener that panics harms neither the turn nor the other listeners.
                        drop(catch_unwind(AssertUnwindSafe(|| {
                            (listener.callback)(&outcome);
                        })));
                    }
                }
            }
        }
        Ok(())
    }

    /// The outcomes after a cursor; `None` if there are no more.
    ///
    /// A page with a record that cannot be read is read one by one, and that record is an error.
    async fn page_after(
        &self,
        session: &str,
        cursor: u64,
    ) -> Result<Option<Vec<Result<StoredOutcome, StoreError>>>, StoreError> {
        let mut page = self.store.outcomes_since(session, cursor, PAGE).await;
        if matches!(page, Err(StoreError::Damaged(_))) {
            page = self.store.outcomes_since(session, cursor, 1).await;
        }
        match page {
            Ok(page) if page.is_empty() => Ok(None),
            Ok(page) => Ok(Some(page.into_iter().map(Ok).collect())),
            Err(error @ StoreError::Damaged(_)) => {
                let info = self.store.session(session).await?;
                if info.is_none_or(|info| info.cursor <= cursor) {
                    return Err(error);
                }
                Ok(Some(vec![Err(error)]))
            }
            Err(error) => Err(error),
        }
    }

    /// The outcome that listeners get of a stored one, if they get one.
    async fn reported(
        &self,
        session: &str,
        stored: &StoredOutcome,
    ) -> Result<Option<ChatTurnOutcome>, StoreError> {
        if !is_for_listeners(stored) {
            return Ok(None);
        }
        match self.outcome_with_messages(session, stored).await {
            Ok(outcome) => Ok(Some(outcome)),
            Err(error @ StoreError::Damaged(_)) => {
                let invocation = Some(stored.invocation_id.clone());
                Ok(Some(self.errored(Failure::load(&error), invocation)))
            }
            Err(error) => Err(error),
        }
    }

    /// A stored outcome with the messages that are its own.
    pub(super) async fn outcome_with_messages(
        &self,
        session: &str,
        stored: &StoredOutcome,
    ) -> Result<ChatTurnOutcome, StoreError> {
        let messages = self
            .messages(session, stored.replies_from, stored.replies_to)
            .await?;
        Ok(ChatTurnOutcome::from_stored(stored, messages))
    }
}

/// Returns whether an outcome is reported to listeners.
///
/// A suspension is reported to its sender, and a turn that suspends again has not ended.
fn is_for_listeners(stored: &StoredOutcome) -> bool {
    stored.resumed && stored.kind != OutcomeKind::Suspended
}
