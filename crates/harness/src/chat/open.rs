//! The state of a session as a turn finds it.

use logue_message::ChatMessage;
use serde_json::Value;

use crate::store::{SessionInfo, StoreError};
use logue_graph::{State, Update};

use super::failed_turns::FailedTurns;
use super::failure::Failure;
use super::{Inner, MESSAGES};

/// The number of messages requested from the store at once.
const PAGE: usize = 1_000;

/// A session that is open for a turn.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) state: State,
    /// The number of its messages that are history.
    pub(super) seq: u64,
    /// The latest outcome.
    pub(super) cursor: u64,
    /// Whether what is stored is in another version of the schema than the state.
    pub(super) migrated: bool,
    /// The turns whose calls ran and that have no answer.
    pub(super) failed: FailedTurns,
}

impl<E: Send + 'static> Inner<E> {
    /// Reads a session whose lease this owner has, unless its state is cached.
    ///
    /// What is `known` of it was read under that lease.
    pub(super) async fn open(
        &self,
        session: &str,
        known: Option<SessionInfo>,
    ) -> Result<Opened, Failure> {
        let info = if known.is_some() {
            known
        } else {
            let info = self.store.session(session).await;
            info.map_err(|error| Failure::load(&error))?
        };
        let known = self.state_cache.take(session);
        let Some(info) = info else {
            let state = self.graph.state(Update::new());
            let state =
                state.map_err(|error| Failure::new("session_load_failed", error.to_string()))?;
            return Ok(Opened {
                state,
                seq: 0,
                cursor: 0,
                migrated: false,
                failed: FailedTurns::default(),
            });
        };
        let cursor = info.cursor;
        if let Some(known) = known {
            let is_same = known.seq == info.seq && known.cursor == cursor;
            if is_same && known.is_before(info.epoch) {
                return Ok(Opened {
                    state: known.state,
                    seq: info.seq,
                    cursor,
                    migrated: false,
                    failed: known.failed,
                });
            }
        }
        let messages = self.messages(session, 0, info.seq).await;
        let messages = messages.map_err(|error| Failure::load(&error))?;
        let failed = self.failed_turns(session, cursor, &messages).await;
        let failed = failed.map_err(|error| Failure::load(&error))?;
        let state = self.state_of(&info, messages)?;
        let stored = info.schema_version.as_deref();
        Ok(Opened {
            state,
            seq: info.seq,
            cursor,
            migrated: info.has_state && stored != self.graph.schema().version(),
            failed,
        })
    }

    /// The messages of the history between two positions, decoded and checked.
    ///
    /// A stored message that was edited by hand may be none, or break the rules of its role.
    pub(super) async fn messages(
        &self,
        session: &str,
        from: u64,
        to: u64,
    ) -> Result<Vec<ChatMessage>, StoreError> {
        let mut messages = Vec::new();
        let mut at = from;
        while at < to {
            let wanted = usize::try_from(to - at).unwrap_or(PAGE).min(PAGE);
            let page = self.store.history(session, at, wanted).await?;
            if page.is_empty() {
                return Err(self.shorter_history(session, at, to).await);
            }
            for message in &page {
                messages.push(message_from_json(message).map_err(|cause| {
                    let place = format!("message {at} of the session `{session}`");
                    StoreError::Damaged(format!("{place} is invalid: {cause}"))
                })?);
                at += 1;
            }
        }
        Ok(messages)
    }

    /// The error of a history that ends early: it is damaged, or its session was removed meanwhile.
    async fn shorter_history(&self, session: &str, at: u64, to: u64) -> StoreError {
        match self.store.session(session).await {
            Ok(Some(info)) if info.seq >= to => StoreError::Damaged(format!(
                "the history of `{session}` ends at {at} and not at {to}"
            )),
            Ok(_) => removed_meanwhile(session),
            Err(error) => error,
        }
    }

    /// The state that a record stands for. Absent fields start at their defaults.
    fn state_of(&self, info: &SessionInfo, messages: Vec<ChatMessage>) -> Result<State, Failure> {
        let fields = self.migrated(info)?;
        let mut update = Update::new();
        for (name, value) in fields {
            // A field that the graph no longer has is kept in the store and not loaded.
            if self.graph.schema().field(&name).is_some() {
                update.set(name, value);
            }
        }
        update.set(MESSAGES, messages);
        self.graph
            .state(update)
            .map_err(|error| Failure::new("session_load_failed", error.to_string()))
    }

    fn migrated(&self, info: &SessionInfo) -> Result<serde_json::Map<String, Value>, Failure> {
        let wanted = self.graph.schema().version();
        let stored = info.schema_version.as_deref();
        if !info.has_state {
            return Ok(info.fields.clone());
        }
        self.settings
            .migrations
            .migrate(stored, wanted, info.fields.clone())
            .map(|migrated| migrated.fields)
            .map_err(|error| Failure::new(error.category(), error.to_string()))
    }
}

/// Reads a stored message and checks the rules of its role.
pub(super) fn message_from_json(value: &Value) -> Result<ChatMessage, String> {
    let message = ChatMessage::from_json(value).map_err(|error| error.to_string())?;
    message.validate().map_err(|error| error.to_string())?;
    Ok(message)
}

/// The error of a session that was removed while it was read.
pub(super) fn removed_meanwhile(session: &str) -> StoreError {
    StoreError::NotFound {
        what: format!("session `{session}` any more"),
    }
}
