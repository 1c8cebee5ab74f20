//! A session whose history is a transcript in a file.
//!
//! The conversation of a prompt is kept in its file, and no conversation has two histories. So when
//! such a turn suspends, the store keeps only the suspension, the inbox and the journal.
//! [`FileSession`] is that store with the file's messages as history: journal notes of a turn are
//! appended to the file, and its commit leaves the store's own history empty.
//!
//! The file is written first. So the file contains everything that the store's journal contains,
//! and after a crash only the results of interrupted calls are missing there.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use logue_harness::chat::TurnNote;
use logue_harness::store::{
    Commit, Disposition, Lease, NewOutcome, SessionInfo, SharedStore, Store, StoreError,
    StoreLayer, StoreResult, StoredOutcome,
};
use logue_message::{ChatMessage, Role};
use serde_json::{Map, Value, json};

use crate::transcript::item::TranscriptWriter;
use crate::transcript::journal::TranscriptJournal;

/// A store in which the history of one session is a file.
pub struct FileSession {
    store: SharedStore,
    session: String,
    journal: TranscriptJournal,
    history: Mutex<Vec<ChatMessage>>,
}

impl FileSession {
    /// Opens the session `session` of `store` with the messages of a file as history.
    ///
    /// New messages are appended to `transcript`.
    pub fn new(
        store: SharedStore,
        session: impl Into<String>,
        history: &[ChatMessage],
        transcript: Box<dyn TranscriptWriter>,
    ) -> Self {
        Self {
            store,
            session: session.into(),
            journal: TranscriptJournal::new(transcript),
            history: Mutex::new(history.to_vec()),
        }
    }

    fn history(&self) -> MutexGuard<'_, Vec<ChatMessage>> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn len(&self) -> u64 {
        self.history().len() as u64
    }

    /// Appends the message of a journal note to the file.
    fn note(&self, note: &Value) -> Result<(), StoreError> {
        match TurnNote::from_json(note).map_err(StoreError::Damaged)? {
            TurnNote::Message(message)
            | TurnNote::Step { message, .. }
            | TurnNote::Rejected(message) => self.append(message)?,
            TurnNote::Continuation { calls, .. } => self.journal.expect(calls.tool_calls),
            TurnNote::Part(piece) => {
                let written = self.journal.write_part(&piece);
                written.map_err(StoreError::unavailable)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Appends a message to the file.
    fn append(&self, message: ChatMessage) -> Result<(), StoreError> {
        let later = self.journal.write(&message);
        let later = later.map_err(StoreError::unavailable)?;
        let mut history = self.history();
        let at = history.len().saturating_sub(later);
        history.insert(at, message);
        Ok(())
    }

    /// The calls in the file without a result.
    fn open_calls(&self) -> BTreeSet<String> {
        let mut open = BTreeSet::new();
        for message in self.history().iter() {
            open.extend(message.tool_calls.iter().map(|call| call.id.clone()));
            if let Some(id) = &message.tool_call_id {
                open.remove(id);
            }
        }
        open
    }

    /// Appends committed results that the file lacks.
    fn complete(&self, messages: &[Value]) -> Result<(), StoreError> {
        let open = self.open_calls();
        for value in messages {
            let message = ChatMessage::from_json(value);
            let message = message.map_err(|error| StoreError::Damaged(error.to_string()))?;
            let id = message.tool_call_id.as_ref();
            if message.role == Role::Tool && id.is_some_and(|id| open.contains(id)) {
                self.append(message)?;
            }
        }
        Ok(())
    }

    /// Removes from a commit what the file contains.
    fn stripped(&self, commit: Commit) -> Commit {
        let to = self.len();
        let stored = |outcome: NewOutcome| NewOutcome {
            body: json!({"from": outcome.replies_from.min(to), "to": to, "body": outcome.body}),
            replies_from: 0,
            ..outcome
        };
        let settle = commit.settle.map(|settle| match settle {
            Disposition::Done {
                outcome,
                keep_journal,
                keep_suspension,
            } => Disposition::Done {
                outcome: stored(outcome),
                keep_journal,
                keep_suspension,
            },
            Disposition::Suspended {
                suspension,
                outcome,
            } => Disposition::Suspended {
                suspension,
                outcome: stored(outcome),
            },
            other => other,
        });
        Commit {
            expected_seq: 0,
            messages: Vec::new(),
            fields: Map::new(),
            settle,
            ..commit
        }
    }
}

/// A stored outcome with its position in the file.
fn restored(mut outcome: StoredOutcome) -> StoredOutcome {
    let place = |key: &str| outcome.body.get(key).and_then(Value::as_u64);
    if let (Some(from), Some(to)) = (place("from"), place("to")) {
        outcome.replies_from = from;
        outcome.replies_to = to;
        outcome.body = outcome.body.get("body").cloned().unwrap_or_default();
    }
    outcome
}

impl StoreLayer for FileSession {
    fn forward<'a, T: Send + 'static>(
        &'a self,
        operation: impl for<'s> FnOnce(&'s (dyn Store + 'a)) -> StoreResult<'s, T> + Send + 'a,
    ) -> StoreResult<'a, T> {
        operation(&*self.store)
    }

    fn session<'a>(&'a self, session: &'a str) -> StoreResult<'a, Option<SessionInfo>> {
        Box::pin(async move {
            let info = self.store.session(session).await?;
            Ok(info.map(|info| SessionInfo {
                seq: if session == self.session {
                    self.len()
                } else {
                    info.seq
                },
                ..info
            }))
        })
    }

    fn history<'a>(
        &'a self,
        session: &'a str,
        from: u64,
        limit: usize,
    ) -> StoreResult<'a, Vec<Value>> {
        if session != self.session {
            return self.store.history(session, from, limit);
        }
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let messages = self
            .history()
            .iter()
            .skip(from)
            .take(limit)
            .map(ChatMessage::to_json)
            .collect();
        Box::pin(std::future::ready(Ok(messages)))
    }

    fn journal<'a>(
        &'a self,
        lease: &'a Lease,
        invocation_id: &'a str,
        notes: Vec<Value>,
    ) -> StoreResult<'a, ()> {
        Box::pin(async move {
            notes.iter().try_for_each(|note| self.note(note))?;
            // The file has the part, and the history begins with the messages of the file.
            let is_part = |note: &Value| matches!(TurnNote::from_json(note), Ok(TurnNote::Part(_)));
            let notes: Vec<Value> = notes.into_iter().filter(|note| !is_part(note)).collect();
            if notes.is_empty() {
                return Ok(());
            }
            self.store.journal(lease, invocation_id, notes).await
        })
    }

    fn commit<'a>(&'a self, lease: &'a Lease, commit: Commit) -> StoreResult<'a, ()> {
        Box::pin(async move {
            self.complete(&commit.messages)?;
            self.store.commit(lease, self.stripped(commit)).await
        })
    }

    fn outcomes_since<'a>(
        &'a self,
        session: &'a str,
        cursor: u64,
        limit: usize,
    ) -> StoreResult<'a, Vec<StoredOutcome>> {
        Box::pin(async move {
            let outcomes = self.store.outcomes_since(session, cursor, limit).await?;
            Ok(outcomes.into_iter().map(restored).collect())
        })
    }

    fn outcome_of<'a>(
        &'a self,
        session: &'a str,
        entry: u64,
    ) -> StoreResult<'a, Option<StoredOutcome>> {
        Box::pin(async move {
            let outcome = self.store.outcome_of(session, entry).await?;
            Ok(outcome.map(restored))
        })
    }
}

impl std::fmt::Debug for FileSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileSession")
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}
