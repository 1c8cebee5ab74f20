//! `send`: from a message to its outcome, in any process.

use std::sync::Arc;

use logue_message::ChatMessage;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::store::{
    BeginResult, EnqueueResult, EntryPayload, EntryState, Lease, LeaseResult, NewEntry, StoreError,
    SuspensionFilter, SuspensionStatus,
};

use super::failure::Failure;
use super::open::removed_meanwhile;
use super::options::{BusyPolicy, PausedPolicy, SendOptions};
use super::outcome::ChatTurnOutcome;
use super::stream::Sink;
use super::{ChatHarness, Inner};

/// The category of an idempotency key that names another message.
const KEY_REUSED: &str = "idempotency_key_reused";

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
            Ok(accepted) => {
                let sink = Sink::none();
                inner.settled_after(session_id, accepted, &sink).await
            }
            Err(failure) => inner.errored(failure, None),
        }
    }

    /// Finishes the turns of a session whose process died, and processes its other entries.
    ///
    /// Turns that wait for a time resume if the clock has reached it.
    /// Waits until the lease of a dead owner is over. Returns the number of settled entries; `None`
    /// if a live owner has the session.
    ///
    /// # Errors
    /// The store failed; what is not settled is still in the inbox.
    pub async fn recover(&self, session_id: &str) -> Result<Option<u64>, StoreError> {
        let inner = &self.inner;
        let lock = inner.lock_of(session_id);
        let _turn = lock.lock().await;
        inner.end_waits(session_id, false).await?;
        let Some(lease) = inner.lease_of_dead_owner(session_id).await? else {
            return Ok(None);
        };
        let worked = inner.drain(&lease).await;
        inner.release(&lease).await;
        worked.map(Some)
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
        inner.drain_free(session_id).await
    }
}

/// A message in the inbox.
#[derive(Clone, Copy, Debug)]
pub(super) struct AcceptedMessage {
    pub(super) entry: u64,
    /// Whether it was not there before.
    is_new: bool,
}

impl<E: Send + 'static> Inner<E> {
    /// Waits until the lease of a dead owner is over.
    ///
    /// `None` if a live owner has the session.
    pub(super) async fn lease_of_dead_owner(
        &self,
        session: &str,
    ) -> Result<Option<Lease>, StoreError> {
        let mut seen = None;
        loop {
            let (now, ttl) = (self.clock.now(), self.settings.config.lease);
            let owner = self.acquisition();
            let acquired = self.store.acquire(session, &owner, now, ttl);
            match acquired.await? {
                LeaseResult::Lease(lease) => return Ok(Some(lease)),
                // A live owner renews its lease.
                LeaseResult::Held { until, .. } if seen.is_some_and(|seen| seen != until) => {
                    return Ok(None);
                }
                LeaseResult::Held { until, .. } => {
                    seen = Some(until);
                    self.clock.sleep(self.settings.config.poll).await;
                }
            }
        }
    }

    /// Puts a message into the inbox, after every check.
    pub(super) async fn accept(
        &self,
        session: &str,
        message: &ChatMessage,
        options: SendOptions,
    ) -> Result<AcceptedMessage, Failure> {
        if session.is_empty() {
            return Err(Failure::unresolved());
        }
        let redacted = self.settings.redaction.is_some();
        let redacted = redacted.then(|| self.redacted(message.clone()));
        let message = redacted.as_ref().unwrap_or(message);
        message.validate().map_err(|error| Failure::shape(&error))?;
        if options.while_paused == PausedPolicy::Reject {
            let key = options.idempotency_key.as_deref();
            self.refuse_while_paused(session, key).await?;
        }
        let message = message.to_json();
        let digest = options.idempotency_key.as_ref().map(|_| digest(&message));
        let entry = NewEntry {
            work: EntryPayload::Message { message },
            digest,
            key: options.idempotency_key,
            only_if_idle: options.busy == BusyPolicy::Reject,
            only_after: options.only_after,
            only_created_at: options.only_created_at,
            cancel: options.busy.cancel(),
            ..self.new_entry()
        };
        loop {
            let accepted = self.store.enqueue(session, entry.clone()).await;
            if options.busy.cancel().is_some() {
                self.changed.notify_waiters();
            }
            match accepted.map_err(|error| Failure::accept(&error))? {
                EnqueueResult::Entry {
                    entry: known,
                    is_new: false,
                    ..
                } => {
                    let last = self.last_of_turn(session, known).await;
                    let last = last.map_err(|error| Failure::load(&error))?;
                    // After a decision the signal leads to the new entry, and the key to the signal.
                    let again = (last == known).then(|| entry.clone());
                    let settling = self.or_again(session, last, again).await;
                    match settling.map_err(|error| Failure::load(&error))? {
                        EnqueueResult::Entry { entry, .. } => {
                            let is_new = false;
                            return Ok(AcceptedMessage { entry, is_new });
                        }
                        EnqueueResult::Busy => return Err(busy(session)),
                        EnqueueResult::OtherSession => return Err(replaced(session)),
                        // Another caller was quicker: the key has its entry now.
                        _ => {}
                    }
                }
                EnqueueResult::Entry { entry, .. } => {
                    let is_new = true;
                    return Ok(AcceptedMessage { entry, is_new });
                }
                EnqueueResult::Busy => return Err(busy(session)),
                EnqueueResult::OtherWork { .. } => return Err(other_message(session)),
                EnqueueResult::OtherSession => return Err(replaced(session)),
                // Only an entry that retries another one is superseded.
                EnqueueResult::Superseded => {}
            }
        }
    }

    /// Refuses a message while a turn waits, unless the message was accepted before.
    async fn refuse_while_paused(&self, session: &str, key: Option<&str>) -> Result<(), Failure> {
        if let Some(key) = key {
            let known = self.store.entry_with_key(session, key).await;
            if known.map_err(|error| Failure::load(&error))?.is_some() {
                return Ok(());
            }
        }
        let filter = SuspensionFilter {
            session: Some(session.to_owned()),
            status: Some(SuspensionStatus::Suspended),
            ..SuspensionFilter::default()
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
        let is_new = false;
        self.settled_after(session, AcceptedMessage { entry, is_new }, sink)
            .await
    }

    /// Waits until an accepted message is settled, as [`settled`](Self::settled).
    pub(super) async fn settled_after(
        &self,
        session: &str,
        AcceptedMessage { entry, mut is_new }: AcceptedMessage,
        sink: &Sink<E>,
    ) -> ChatTurnOutcome {
        let lock: Arc<_> = self.lock_of(session);
        let _turn = lock.lock().await;
        loop {
            // A new entry is not settled yet. If another process is quicker, the lease shows it.
            if !std::mem::take(&mut is_new) {
                match self.look(session, entry).await {
                    Ok(Some(outcome)) => return outcome,
                    Ok(None) => {}
                    Err(error) => return self.errored(Failure::load(&error), None),
                }
            }
            match self.begin(session).await {
                Ok(BeginResult::Turn(begun)) => match self.drain_until(*begun, entry, sink).await {
                    Ok(outcome) => return outcome,
                    Err(failure) if failure.category == "session_write_conflict" => {}
                    Err(failure) => return self.errored(failure, None),
                },
                // Another owner settled it between two looks.
                Ok(BeginResult::Idle) => {}
                Ok(BeginResult::Held { .. }) => self.clock.sleep(self.settings.config.poll).await,
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
        match self.store.outcome_of(session, entry).await? {
            Some(stored) => self.outcome_with_messages(session, &stored).await.map(Some),
            None if self.store.entry(session, entry).await?.is_none() => {
                Err(removed_meanwhile(session))
            }
            None => Err(StoreError::Damaged(format!(
                "entry {entry} of `{session}` has no outcome"
            ))),
        }
    }
}

/// The error of a message that must not wait for another turn.
fn busy(session: &str) -> Failure {
    let what = format!("another turn of the session `{session}` runs");
    Failure::new("session_busy", what)
}

/// The error of a message for a session that was removed since it was read.
fn replaced(session: &str) -> Failure {
    let what = format!("the session `{session}` was removed after the message was checked");
    let mut failure = Failure::new("session_write_conflict", what);
    failure.help =
        Some("nothing was sent: send the message again to begin a new session".to_owned());
    failure
}

/// The error of a key that names another message.
fn other_message(session: &str) -> Failure {
    let what = format!("the session `{session}` got another message under this idempotency key");
    let mut failure = Failure::new(KEY_REUSED, what);
    failure.help = Some("nothing was sent: use another key for another message".to_owned());
    failure
}

/// The hash of a message to which its key is bound.
fn digest(message: &Value) -> String {
    let hash = Sha256::digest(message.to_string().as_bytes());
    let half = hash.iter().take(16);
    half.fold(String::with_capacity(32), |mut text, byte| {
        for digit in [byte >> 4, byte & 15] {
            text.extend(char::from_digit(u32::from(digit), 16));
        }
        text
    })
}
