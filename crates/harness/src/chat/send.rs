//! `send`: from a message to its outcome, in any process.

use std::sync::Arc;

use logue_message::ChatMessage;

use crate::store::{
    EnqueueResult, EntryPayload, EntryState, LeaseResult, NewEntry, StoreError, SuspensionFilter,
    SuspensionStatus,
};

use super::failure::Failure;
use super::options::{BusyPolicy, PausedPolicy, SendOptions};
use super::outcome::ChatTurnOutcome;
use super::stream::Sink;
use super::{ChatHarness, Inner};

impl<E: Send + 'static> ChatHarness<E> {
    /// Says a message in a session and runs the turn (harness-chat §5).
    ///
    /// Nothing is loaded or stored unless the session's id is not empty and the message has a valid
    /// shape. The message is durable before anything runs. Turns of a session run one at a time in
    /// the order in which their messages were accepted, over all processes that share the store.
    pub async fn send(&self, session_id: &str, message: ChatMessage) -> ChatTurnOutcome {
        self.send_with(session_id, message, SendOptions::new())
            .await
    }

    /// [`send`](Self::send) with choices.
    pub async fn send_with(
        &self,
        session_id: &str,
        message: ChatMessage,
        options: SendOptions,
    ) -> ChatTurnOutcome {
        let inner = &self.inner;
        match inner.accept(session_id, &message, options).await {
            Ok(entry) => inner.settled(session_id, entry, &Sink::none()).await,
            Err(failure) => inner.errored(failure, None),
        }
    }

    /// Processes the pending inbox entries of a session without adding one.
    ///
    /// These are accepted entries that did not run, and entries left by a process that died.
    /// Returns the number of settled entries; 0 if another process has the session.
    ///
    /// # Errors
    /// The store failed; what is not settled is still in the inbox.
    pub async fn process_pending(&self, session_id: &str) -> Result<u64, StoreError> {
        let inner = &self.inner;
        let lock = inner.lock_of(session_id);
        let _turn = lock.lock().await;
        let (now, ttl) = (inner.clock.now(), inner.settings.config.lease);
        let acquired = inner
            .store
            .acquire(session_id, &inner.owner, now, ttl)
            .await?;
        let LeaseResult::Lease(lease) = acquired else {
            return Ok(0);
        };
        let worked = inner.drain(&lease).await;
        drop(inner.store.release(&lease).await);
        worked
    }
}

impl<E: Send + 'static> Inner<E> {
    /// Puts a message into the inbox, after every check.
    pub(super) async fn accept(
        &self,
        session: &str,
        message: &ChatMessage,
        options: SendOptions,
    ) -> Result<u64, Failure> {
        if session.is_empty() {
            return Err(Failure::unresolved());
        }
        message.validate().map_err(|error| Failure::shape(&error))?;
        if options.while_paused == PausedPolicy::Reject {
            self.refuse_while_paused(session).await?;
        }
        let entry = NewEntry {
            work: EntryPayload::Message {
                message: message.to_json(),
            },
            key: options.idempotency_key,
            only_if_idle: options.busy == BusyPolicy::Reject,
            cancel: options.busy.cancel(),
            now: self.clock.now(),
        };
        let accepted = self.store.enqueue(session, entry).await;
        if options.busy.cancel().is_some() {
            self.changed.notify_waiters();
        }
        match accepted.map_err(|error| Failure::load(&error))? {
            EnqueueResult::Entry { entry, .. } => Ok(entry),
            EnqueueResult::Busy => Err(Failure::new(
                "session_busy",
                format!("another turn of the session `{session}` runs"),
            )),
        }
    }

    async fn refuse_while_paused(&self, session: &str) -> Result<(), Failure> {
        let filter = SuspensionFilter {
            session: Some(session.to_owned()),
            signal_id: None,
            status: Some(SuspensionStatus::Suspended),
        };
        let waiting = self.store.suspensions(filter).await;
        let waiting = waiting.map_err(|error| Failure::load(&error))?;
        match waiting.first() {
            None => Ok(()),
            Some(first) => Err(Failure::new(
                "session_awaiting_signal",
                format!("the session waits for the signal `{}`", first.signal_id),
            )),
        }
    }

    /// Waits until an entry is settled.
    ///
    /// Processes the inbox up to the entry, unless another owner does.
    pub(super) async fn settled(
        &self,
        session: &str,
        entry: u64,
        sink: &Sink<E>,
    ) -> ChatTurnOutcome {
        let lock: Arc<_> = self.lock_of(session);
        let _turn = lock.lock().await;
        loop {
            match self.look(session, entry).await {
                Ok(Some(outcome)) => return outcome,
                Ok(None) => {}
                Err(error) => return self.errored(Failure::load(&error), None),
            }
            let (now, lease) = (self.clock.now(), self.settings.config.lease);
            match self.store.acquire(session, &self.owner, now, lease).await {
                Ok(LeaseResult::Lease(lease)) => {
                    let worked = self.drain_until(&lease, entry, sink).await;
                    // A lease that cannot be given back expires.
                    drop(self.store.release(&lease).await);
                    match worked {
                        Ok(outcome) => return outcome,
                        Err(failure) if failure.category == "session_write_conflict" => {}
                        Err(failure) => return self.errored(failure, None),
                    }
                }
                Ok(LeaseResult::Held { .. }) => self.clock.sleep(self.settings.config.poll).await,
                Err(error) => return self.errored(Failure::load(&error), None),
            }
        }
    }

    /// The outcome of an entry that is settled.
    async fn look(&self, session: &str, entry: u64) -> Result<Option<ChatTurnOutcome>, StoreError> {
        let known = self.store.entry(session, entry).await?;
        let known = known.ok_or_else(|| StoreError::NotFound {
            what: format!("entry {entry} in the session `{session}`"),
        })?;
        if known.state != EntryState::Settled {
            return Ok(None);
        }
        let stored = self.store.outcome_of(session, entry).await?;
        let stored = stored.ok_or_else(|| {
            StoreError::Damaged(format!("entry {entry} of `{session}` has no outcome"))
        })?;
        self.outcome_with_messages(session, &stored).await.map(Some)
    }
}
