//! A signal: what a suspended turn waits for.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::clock::Timestamp;
use crate::sessions::MigrationError;
use crate::store::{
    EnqueueResult, EntryPayload, SignalResult, StoreError, Suspension, SuspensionFilter,
    SuspensionStatus,
};

use super::drive::descriptor_of;
use super::outcome::ChatTurnOutcome;
use super::redacted::{AcceptedSignal, EntryPlace, Payload};
use super::stream::Sink;
use super::{ChatHarness, Inner};

/// The turn that a signal is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SignalTarget<'a> {
    /// The turn of that invocation.
    Invocation(&'a str),
    /// The turn that waits for the signal of that name.
    Signal(&'a str),
    /// A signal's name if a turn waits for it, else an invocation.
    Either(&'a str),
}

/// The reason that a signal was not accepted. Nothing was consumed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignalError {
    /// No turn waits for it.
    #[error("no turn waits for `{target}`")]
    Unknown {
        /// The target as named by the caller.
        target: String,
    },
    /// Several turns wait for a signal of that name.
    #[error("{} turns wait for the signal `{signal_id}`: {}", .invocations.len(), .invocations.join(", "))]
    Ambiguous {
        /// The signal.
        signal_id: String,
        /// The invocations that wait.
        invocations: Vec<String>,
    },
    /// The payload does not fit the turn; another payload may.
    #[error("{message}")]
    PayloadInvalid {
        /// The mismatch.
        message: String,
    },
    /// The stored record of the turn cannot be read.
    #[error("the suspended turn `{invocation_id}` cannot be read: {reason}")]
    RecordInvalid {
        /// The invocation.
        invocation_id: String,
        /// The reason.
        reason: String,
    },
    /// The stored record of the turn cannot be brought to the version of the graph.
    #[error(transparent)]
    Migration(#[from] MigrationError),
    /// The turn got another signal before.
    #[error("`{signal_id}` was decided before: {earlier}")]
    Contradicts {
        /// The signal.
        signal_id: String,
        /// The earlier decision.
        earlier: String,
        /// The time of the earlier decision.
        at: Timestamp,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl SignalError {
    /// The name of the error in the contract.
    pub const fn category(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "harness_signal_correlation_failed",
            Self::Ambiguous { .. } => "harness_path_classification_ambiguous",
            Self::PayloadInvalid { .. } => "suspension_resume_payload_invalid",
            Self::RecordInvalid { .. } => "suspension_record_invalid",
            Self::Migration(error) => error.category(),
            Self::Contradicts { .. } => "signal_contradicts_earlier",
            Self::Store(_) => "session_load_failed",
        }
    }
}

/// Returns the time that a turn waits for; none if it waits for a decision.
///
/// [`ChatHarness::recover`] resumes it once its clock has reached the time.
pub fn wake_time(waiting: &Suspension) -> Option<Timestamp> {
    logue_graph::wake_at(waiting.metadata.as_ref()).map(Timestamp)
}

impl<E: Send + 'static> ChatHarness<E> {
    /// Gives a suspended turn its signal and resumes it.
    ///
    /// The listeners and the caller receive its outcome.
    ///
    /// The payload replaces fields of the state and is checked before the suspension is consumed.
    /// A signal that was given before is not given again: the caller gets the outcome of the first,
    /// unless it contradicts the first
    /// ([`with_contradiction_check`](super::ChatHarnessBuilder::with_contradiction_check)).
    ///
    /// # Errors
    /// The signal was not accepted.
    pub async fn signal(
        &self,
        target: SignalTarget<'_>,
        payload: Map<String, Value>,
    ) -> Result<ChatTurnOutcome, SignalError> {
        let accepted = self.accept_signal(target, payload).await?;
        let (session, entry) = (accepted.session(), accepted.entry());
        Ok(self.inner.settled(session, entry, &Sink::none()).await)
    }

    /// Ends the waits of a session's turns whose deadline has passed.
    ///
    /// Each turn is put into the inbox with the payload of [`with_expiry`](super::ChatHarnessBuilder::with_expiry), and
    /// resumes when the inbox is processed next. Returns the names of their signals. Timers whose time
    /// has come end too.
    ///
    /// # Errors
    /// The store failed.
    pub async fn expire(&self, session: &str) -> Result<Vec<String>, SignalError> {
        Ok(self.inner.end_waits(session, true).await?)
    }
}

impl<E: Send + 'static> ChatHarness<E> {
    /// Consumes the suspension: the signal is durable, and its turn is in the inbox.
    pub(super) async fn accept_signal(
        &self,
        target: SignalTarget<'_>,
        payload: Map<String, Value>,
    ) -> Result<AcceptedSignal<E>, SignalError> {
        let (place, original) = self.inner.accept_signal(target, payload).await?;
        Ok(AcceptedSignal::new(
            Arc::clone(&self.inner),
            place,
            original,
        ))
    }
}

impl<E: Send + 'static> Inner<E> {
    /// Ends the waits of a session's turns for a time that has come.
    ///
    /// With `decisions`, waits for a decision past its deadline end too. Returns their signals.
    pub(super) async fn end_waits(
        &self,
        session: &str,
        decisions: bool,
    ) -> Result<Vec<String>, StoreError> {
        let inner = self;
        let filter = SuspensionFilter {
            session: Some(session.to_owned()),
            status: Some(SuspensionStatus::Suspended),
            ..SuspensionFilter::default()
        };
        let now = inner.clock.now();
        let mut expired = Vec::new();
        for waiting in inner.store.suspensions(filter).await? {
            let expiry = inner.settings.expiry.as_ref().filter(|_| decisions);
            let payload = match wake_time(&waiting) {
                Some(at) => (at <= now).then(Map::new),
                None => expiry.and_then(|expiry| expiry(&waiting, now)),
            };
            let Some(payload) = payload else {
                continue;
            };
            let name = Some(waiting.signal_id.as_str());
            let id = &waiting.invocation_id;
            let signalled = inner.store.signal(id, name, payload, now).await?;
            if let SignalResult::Entry { is_new: true, .. } = signalled {
                expired.push(waiting.signal_id);
            }
        }
        Ok(expired)
    }

    /// Stores a signal; returns its entry, and its payload if that is stored redacted.
    async fn accept_signal(
        &self,
        target: SignalTarget<'_>,
        payload: Map<String, Value>,
    ) -> Result<(EntryPlace, Option<Payload>), SignalError> {
        let waiting = self.find(target).await?;
        let named = match target {
            SignalTarget::Invocation(_) => None,
            _ => Some(waiting.signal_id.as_str()),
        };
        let now = self.clock.now();
        let requested = payload.clone();
        let mut payload = payload;
        if waiting.status == SuspensionStatus::Suspended {
            payload = self.prepared_payload(&waiting, payload).await?;
            if let Some(instead) = self
                .settings
                .expiry
                .as_ref()
                .and_then(|expiry| expiry(&waiting, now))
            {
                payload = instead;
            }
        } else if self.settings.redaction.is_some()
            && let Some(prepare) = &self.settings.payload_preparation
            && let Ok(prepared) = prepare(descriptor_of(&waiting), payload.clone()).await
        {
            payload = prepared;
        }
        let (payload, original) = match self.redacted_payload(&payload) {
            Some(redacted) => (redacted, Some(payload)),
            None => (payload, None),
        };
        loop {
            let signalled = self
                .store
                .signal(&waiting.invocation_id, named, payload.clone(), now)
                .await?;
            match signalled {
                SignalResult::Entry {
                    session,
                    entry,
                    is_new: true,
                } => return Ok(((session, entry), original)),
                SignalResult::Entry { session, entry, .. } => {
                    self.require_same(&waiting, &session, entry, &requested)
                        .await?;
                    // Without an entry, another caller was quicker to try it again.
                    let settling = self.or_again(&session, entry, None).await?;
                    if let EnqueueResult::Entry { entry, .. } = settling {
                        // The first delivery's process may have died before the turn resumed.
                        let original = match original {
                            Some(original) => {
                                let is_same = self.has_payload(&session, entry, &payload).await?;
                                is_same.then_some(original)
                            }
                            None => None,
                        };
                        return Ok(((session, entry), original));
                    }
                }
                SignalResult::Unknown => {
                    return Err(SignalError::Unknown {
                        target: waiting.invocation_id,
                    });
                }
            }
        }
    }

    /// Returns whether an entry resumes its turn with this payload.
    async fn has_payload(
        &self,
        session: &str,
        entry: u64,
        payload: &Payload,
    ) -> Result<bool, StoreError> {
        let entry = self.store.entry(session, entry).await?;
        let work = entry.and_then(|entry| entry.work);
        Ok(matches!(work, Some(EntryPayload::Resume { payload: stored, .. }) if stored == *payload))
    }

    /// Refuses a payload that contradicts the one of `entry`, which the turn got before.
    async fn require_same(
        &self,
        waiting: &Suspension,
        session: &str,
        entry: u64,
        later: &Map<String, Value>,
    ) -> Result<(), SignalError> {
        let Some(contradiction) = &self.settings.contradiction else {
            return Ok(());
        };
        let Some(earlier) = self.store.entry(session, entry).await? else {
            return Ok(());
        };
        let Some(
            EntryPayload::Resume { payload, .. }
            | EntryPayload::Continue {
                decision: Some(payload),
                ..
            },
        ) = &earlier.work
        else {
            return Ok(());
        };
        match contradiction(waiting, payload, later) {
            None => Ok(()),
            Some(description) => Err(SignalError::Contradicts {
                signal_id: waiting.signal_id.clone(),
                earlier: description,
                at: earlier.accepted_at,
            }),
        }
    }

    /// The turn that a signal is for: one that waits, or the one that was signalled last.
    async fn find(&self, target: SignalTarget<'_>) -> Result<Suspension, SignalError> {
        let (name, by_signal, by_invocation) = match target {
            SignalTarget::Invocation(id) => (id, false, true),
            SignalTarget::Signal(id) => (id, true, false),
            SignalTarget::Either(id) => (id, true, true),
        };
        if by_signal {
            let filter = SuspensionFilter {
                signal_id: Some(name.to_owned()),
                ..SuspensionFilter::default()
            };
            let found = self.store.suspensions(filter).await?;
            let mut waiting: Vec<_> = found
                .iter()
                .filter(|one| one.status == SuspensionStatus::Suspended)
                .map(|one| one.invocation_id.clone())
                .collect();
            let chosen = match waiting.len() {
                0 => found.last().map(|last| last.invocation_id.clone()),
                1 => waiting.pop(),
                _ => {
                    return Err(SignalError::Ambiguous {
                        signal_id: name.to_owned(),
                        invocations: waiting,
                    });
                }
            };
            if let Some(chosen) = chosen
                && let Some(whole) = self.store.suspension(&chosen).await?
            {
                // The turn may wait for another signal by now; this one gets the outcome of its own
                // entry.
                let earlier = found
                    .into_iter()
                    .rev()
                    .find(|one| one.invocation_id == chosen);
                return Ok(match earlier {
                    Some(earlier) if whole.signal_id != name => earlier,
                    _ => whole,
                });
            }
        }
        if by_invocation && let Some(whole) = self.store.suspension(name).await? {
            return Ok(whole);
        }
        Err(SignalError::Unknown {
            target: name.to_owned(),
        })
    }
}
