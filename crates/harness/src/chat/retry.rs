//! Trying a failed turn again: by its key, by its signal, or by name.

use std::sync::Arc;

use logue_message::ChatMessage;
use serde_json::Value;

use crate::classification::ErrorBucket;
use crate::clock::Timestamp;
use crate::store::{
    EnqueueResult, EntryPayload, EntryState, NewEntry, OutcomeKind, SessionInfo, StoreError,
    StoredOutcome, SuspensionFilter,
};

use super::failure::{Failure, TURN_CANCELLED};
use super::outcome::{ChatTurnOutcome, RESUMABLE, SAYS_AGAIN, TRANSIENT};
use super::stream::{ChatEvent, Sink, TurnStream};
use super::{ChatHarness, Inner};

/// The latest turn of a session, if it failed and can be tried again.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct UnfinishedTurn {
    /// The entry of the inbox that failed.
    pub entry: u64,
    /// The message that it answers, if the entry was one.
    pub message: Option<ChatMessage>,
    /// The category of the failure.
    pub error_category: String,
    /// Whether its calls are in the history, from which it continues.
    pub resumable: bool,
}

/// The reason that nothing was tried again.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RetryError {
    /// The latest turn of the session did not fail.
    #[error("the latest turn of the session `{session}` did not fail")]
    NothingFailed {
        /// The session.
        session: String,
    },
    /// The session was removed since it was read, also if another one has its id.
    #[error("the session `{session}` was removed after the request was checked")]
    Replaced {
        /// The session.
        session: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<E: Send + 'static> ChatHarness<E> {
    /// Tries the latest turn of a session again.
    ///
    /// A turn whose calls are in the history continues from there: none of them runs again. Another
    /// one begins with its message. The key of its message leads to the new outcome. If entries
    /// wait, for instance of a process that died, they are processed, and the outcome is the last
    /// one's.
    ///
    /// # Errors
    /// Nothing failed, or the store cannot be read.
    pub async fn retry(&self, session_id: &str) -> Result<ChatTurnOutcome, RetryError> {
        let entry = self.inner.retry_latest(session_id, None).await?;
        Ok(self.inner.settled(session_id, entry, &Sink::none()).await)
    }

    /// [`retry`](Self::retry) as a stream of what happens, which ends with the outcome.
    ///
    /// # Errors
    /// Nothing failed, or the store cannot be read.
    pub async fn retry_streaming(&self, session_id: &str) -> Result<TurnStream<E>, RetryError> {
        let entry = self.inner.retry_latest(session_id, None).await?;
        Ok(self.entry_streaming(session_id, entry))
    }

    /// Tries the latest turn of a session as it was read again, as [`retry_streaming`](Self::retry_streaming).
    ///
    /// # Errors
    /// Nothing failed, the session was removed since, or the store cannot be read.
    pub async fn retry_streaming_of(
        &self,
        session: &SessionInfo,
    ) -> Result<TurnStream<E>, RetryError> {
        let (id, created_at) = (&session.session, session.created_at);
        let entry = self.inner.retry_latest(id, Some(created_at)).await?;
        Ok(self.entry_streaming(id, entry))
    }

    /// Processes an entry of the inbox as a stream, which ends with its outcome.
    pub fn entry_streaming(&self, session_id: &str, entry: u64) -> TurnStream<E> {
        let (inner, session) = (Arc::clone(&self.inner), session_id.to_owned());
        TurnStream::from_turn(move |sink| async move {
            sink.emit(ChatEvent::Accepted { entry });
            inner.settled(&session, entry, &sink).await
        })
    }

    /// The latest turn of a session, if it failed and nothing came after it.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn unfinished(&self, session_id: &str) -> Result<Option<UnfinishedTurn>, StoreError> {
        let inner = &self.inner;
        let Some(failed) = inner.latest_failed(session_id).await? else {
            return Ok(None);
        };
        let entry = inner.store.entry(session_id, failed.entry).await?;
        let message = match entry.and_then(|entry| entry.work) {
            Some(EntryPayload::Message { message }) => ChatMessage::from_json(&message).ok(),
            Some(EntryPayload::Resume { .. }) => None,
            work => match said(&failed, work.as_ref()) {
                Some(said) => inner.message_at(session_id, said).await?,
                None => None,
            },
        };
        let category = failed.body.get("category").and_then(Value::as_str);
        Ok(Some(UnfinishedTurn {
            entry: failed.entry,
            message,
            error_category: category.unwrap_or_default().to_owned(),
            resumable: failed.body.get(RESUMABLE).is_some(),
        }))
    }

    /// The entry of a turn that answers `message` and whose process died.
    ///
    /// Waits until the lease of a dead owner is over. `None` if a live owner runs the turn, or if it
    /// has not begun. [`entry_streaming`](Self::entry_streaming) continues it.
    ///
    /// # Errors
    /// The store failed.
    pub async fn interrupted(
        &self,
        session_id: &str,
        message: &ChatMessage,
    ) -> Result<Option<u64>, StoreError> {
        let inner = &self.inner;
        let lock = inner.lock_of(session_id);
        let _turn = lock.lock().await;
        if inner.begun(session_id, message).await?.is_none() {
            return Ok(None);
        }
        let Some(lease) = inner.lease_of_dead_owner(session_id).await? else {
            return Ok(None);
        };
        // Its owner may have ended it in between.
        let found = inner.begun(session_id, message).await;
        inner.release(&lease).await;
        found
    }
}

impl<E: Send + 'static> Inner<E> {
    /// The first entry of the inbox, if its turn has begun and answers `message`.
    async fn begun(&self, session: &str, message: &ChatMessage) -> Result<Option<u64>, StoreError> {
        let inbox = self.store.inbox(session).await?;
        let first = inbox.into_iter().next();
        let Some(first) = first.filter(|first| first.state == EntryState::Running) else {
            return Ok(None);
        };
        let id = first.invocation_id.unwrap_or_default();
        let said = match first.work {
            Some(EntryPayload::Message { message: own }) => {
                let is_same = ChatMessage::from_json(&own).is_ok_and(|own| own == *message);
                return Ok(is_same.then_some(first.entry));
            }
            Some(EntryPayload::Continue {
                said: Some(said), ..
            }) => Some(said),
            Some(EntryPayload::Continue { .. } | EntryPayload::Resume { .. }) => {
                self.first_said(session, &id).await?
            }
            _ => None,
        };
        let answered = match said {
            Some(said) => self.message_at(session, said).await?,
            None => None,
        };
        Ok((answered.as_ref() == Some(message)).then_some(first.entry))
    }

    /// The message at a position of the history.
    async fn message_at(
        &self,
        session: &str,
        position: u64,
    ) -> Result<Option<ChatMessage>, StoreError> {
        let messages = self.messages(session, position, position + 1).await?;
        Ok(messages.into_iter().next())
    }

    /// The outcome of the latest entry, if it failed.
    async fn latest_failed(&self, session: &str) -> Result<Option<StoredOutcome>, StoreError> {
        let info = self.store.session(session).await?;
        self.failed_latest(session, info).await
    }

    /// The outcome of the latest entry of a session that was read, if it failed.
    async fn failed_latest(
        &self,
        session: &str,
        info: Option<SessionInfo>,
    ) -> Result<Option<StoredOutcome>, StoreError> {
        let Some(info) = info.filter(|info| info.pending == 0 && info.cursor > 0) else {
            return Ok(None);
        };
        let outcome = self.store.outcome_of(session, info.cursor).await?;
        Ok(outcome.filter(is_failure))
    }

    /// Puts the latest turn into the inbox again, or finds what waits there.
    ///
    /// `created_at` is the required time of creation of the session.
    async fn retry_latest(
        &self,
        session: &str,
        created_at: Option<Timestamp>,
    ) -> Result<u64, RetryError> {
        let replaced = || RetryError::Replaced {
            session: session.to_owned(),
        };
        loop {
            let waiting = self.store.inbox(session).await?.pop();
            // The session is read after its inbox: if it is the required one, so was that of the inbox.
            let info = self.store.session(session).await?;
            if let Some(location) = info.as_ref().and_then(|info| info.elsewhere.clone()) {
                location.check(session)?;
            }
            let found = info.as_ref().map(|info| info.created_at);
            if created_at.is_some() && found != created_at {
                return Err(replaced());
            }
            if let Some(last) = waiting {
                return Ok(last.entry);
            }
            let Some(failed) = self.failed_latest(session, info).await? else {
                return Err(self.nothing_failed(session).await?);
            };
            let again = NewEntry {
                only_created_at: created_at,
                ..self.new_entry()
            };
            match self.put_again(session, &failed, Some(again)).await? {
                EnqueueResult::Entry { entry, .. } => return Ok(entry),
                EnqueueResult::OtherSession => return Err(replaced()),
                // Another caller was quicker: its entry is in the inbox, or settled by now.
                _ => {}
            }
        }
    }

    /// The error of a session in which nothing can be tried again.
    async fn nothing_failed(&self, session: &str) -> Result<RetryError, StoreError> {
        let info = self.store.session(session).await?;
        let has_pending = info.is_some_and(|info| info.pending > 0);
        if has_pending && self.store.inbox(session).await?.is_empty() {
            let what = format!("an entry of the inbox of `{session}` is missing");
            return Err(StoreError::Damaged(what));
        }
        Ok(RetryError::NothingFailed {
            session: session.to_owned(),
        })
    }

    /// The entry that settles a key or a signal: the one that it named, unless that one failed and
    /// may succeed later.
    pub(super) async fn or_again(
        &self,
        session: &str,
        entry: u64,
        again: Option<NewEntry>,
    ) -> Result<EnqueueResult, StoreError> {
        let same = EnqueueResult::Entry {
            entry,
            is_new: false,
            ahead: 0,
        };
        let known = self.store.entry(session, entry).await?;
        if known.is_none_or(|known| known.state != EntryState::Settled) {
            return Ok(same);
        }
        let outcome = self.store.outcome_of(session, entry).await?;
        match outcome.filter(|outcome| !is_final(outcome)) {
            Some(failed) => self.put_again(session, &failed, again).await,
            None => Ok(same),
        }
    }

    /// The last entry of the turn of an entry, which may have waited for decisions.
    pub(super) async fn last_of_turn(
        &self,
        session: &str,
        mut entry: u64,
    ) -> Result<u64, StoreError> {
        loop {
            let outcome = self.store.outcome_of(session, entry).await?;
            let waits = outcome.filter(|outcome| outcome.kind == OutcomeKind::Suspended);
            let Some(waits) = waits else {
                return Ok(entry);
            };
            let signal_id = waits.body.get("signal_id").and_then(Value::as_str);
            let filter = SuspensionFilter {
                session: Some(session.to_owned()),
                signal_id: signal_id.map(str::to_owned),
                ..SuspensionFilter::default()
            };
            let suspensions = self.store.suspensions(filter).await?;
            let decided = suspensions
                .iter()
                .filter(|one| one.invocation_id == waits.invocation_id)
                .filter_map(|one| one.entry)
                .filter(|decided| *decided > entry);
            match decided.min() {
                Some(decided) => entry = decided,
                None => return Ok(entry),
            }
        }
    }

    /// Puts a failed turn into the inbox again.
    async fn put_again(
        &self,
        session: &str,
        failed: &StoredOutcome,
        again: Option<NewEntry>,
    ) -> Result<EnqueueResult, StoreError> {
        let entry = self.store.entry(session, failed.entry).await?;
        let entry = NewEntry {
            retries: Some(failed.entry),
            work: work_again(failed, entry.and_then(|entry| entry.work)),
            ..again.unwrap_or_else(|| self.new_entry())
        };
        self.store.enqueue(session, entry).await
    }

    /// An entry without work, to be put at the end of the inbox.
    pub(super) fn new_entry(&self) -> NewEntry {
        NewEntry {
            work: EntryPayload::Message {
                message: Value::Null,
            },
            key: None,
            digest: None,
            retries: None,
            only_if_idle: false,
            only_after: None,
            only_created_at: None,
            cancel: None,
            now: self.clock.now(),
        }
    }

    /// Returns whether a failure ends the conversation.
    pub(super) fn is_terminating(&self, failure: &Failure) -> bool {
        let bucket = self.settings.classifier.classify(&failure.category);
        bucket == ErrorBucket::SessionTerminating
    }
}

const fn is_failure(outcome: &StoredOutcome) -> bool {
    matches!(outcome.kind, OutcomeKind::Errored | OutcomeKind::Cancelled)
}

/// Returns whether an outcome settles a key for good.
///
/// A failure does only if the same message can never succeed, or if its turn was cancelled.
fn is_final(outcome: &StoredOutcome) -> bool {
    if !is_failure(outcome) {
        return true;
    }
    if outcome.body.get(TRANSIENT).is_some() {
        return false;
    }
    let category = outcome.body.get("category").and_then(Value::as_str);
    let category = category.unwrap_or_default();
    let bucket = outcome.body.get("bucket").and_then(Value::as_str);
    category == TURN_CANCELLED || bucket == Some(ErrorBucket::SessionTerminating.as_str())
}

/// The position in the history of the message of a failed turn.
fn said(failed: &StoredOutcome, work: Option<&EntryPayload>) -> Option<u64> {
    match work {
        Some(EntryPayload::Continue { said, .. }) => return *said,
        // Its first entry said it.
        Some(EntryPayload::Resume { .. }) => return None,
        _ => {}
    }
    match failed.body.get(RESUMABLE) {
        Some(resumable) => resumable.get("said").and_then(Value::as_u64),
        // An earlier version did not note it.
        None => failed.replies_from.checked_sub(1),
    }
}

/// The work with which a failed entry is tried again.
fn work_again(failed: &StoredOutcome, work: Option<EntryPayload>) -> EntryPayload {
    let resumable = failed.body.get(RESUMABLE);
    let says_again = failed.body.get(SAYS_AGAIN).is_some();
    let said = said(failed, work.as_ref());
    let mut unstarted = Vec::new();
    let decision = match work {
        // A signal of a turn in which nothing happened keeps its suspension.
        Some(work @ (EntryPayload::Message { .. } | EntryPayload::Quarantined)) => return work,
        Some(work @ EntryPayload::Resume { .. }) if resumable.is_none() && !says_again => {
            return work;
        }
        Some(EntryPayload::Resume { payload, .. }) => Some(payload),
        Some(EntryPayload::Continue {
            decision,
            upto,
            open,
            ..
        }) => {
            // Otherwise its calls have results.
            if upto == failed.replies_to {
                unstarted = open;
            }
            decision
        }
        None => None,
    };
    let guarded = resumable.and_then(|resumable| resumable.get("guarded")?.as_array());
    EntryPayload::Continue {
        invocation_id: failed.invocation_id.clone(),
        said,
        upto: if says_again { 0 } else { failed.replies_to },
        guarded: guarded.cloned().unwrap_or_default(),
        decision,
        open: unstarted,
    }
}
