//! The sessions of a [`Store`] as records: one view of what a chat keeps for tools that load and
//! save whole states.
//!
//! The history of a store only grows. So a saved record must hold the messages that are there,
//! followed by new ones; anything else is a conflict, because it was made of another history.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::clock::Clock;
use crate::store::{Commit, Lease, LeaseResult, SessionFilter, SharedStore, StoreError};

use super::record::{
    LoadedSession, SessionRecord, SessionResult, SessionStore, SessionStoreError, SessionSummary,
    SummaryFilter,
};

const MESSAGES: &str = "messages";
/// The time for a save before another owner may take the session.
const LEASE: Duration = Duration::from_secs(10);

/// Offers the sessions of a store by the protocol of the sessions contract.
///
/// The field `messages`, if it is a list, is the history; the others are the session's fields. A
/// field that a record no longer has is stored as null, which loading takes for absent. A session
/// under another owner's lease cannot be saved meanwhile.
#[derive(Clone)]
pub struct StoreSessions {
    store: SharedStore,
    clock: Arc<dyn Clock>,
    owner: String,
}

impl StoreSessions {
    /// Creates a view of a store. The owner's name must be unique.
    pub fn new(store: SharedStore, clock: Arc<dyn Clock>, owner: impl Into<String>) -> Self {
        Self {
            store,
            clock,
            owner: owner.into(),
        }
    }

    async fn read(&self, session: &str) -> Result<Option<LoadedSession>, StoreError> {
        let Some(info) = self.store.session(session).await? else {
            return Ok(None);
        };
        if !info.has_state {
            return Ok(None);
        }
        let length = usize::try_from(info.seq).unwrap_or(usize::MAX);
        let mut state: Map<String, Value> = info
            .fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .collect();
        if length > 0 {
            let messages = self.store.history(session, 0, length).await?;
            state.insert(MESSAGES.to_owned(), Value::Array(messages));
        }
        Ok(Some(LoadedSession {
            record: SessionRecord {
                session_id: session.to_owned(),
                state,
                schema_version: info.schema_version,
                metadata: Map::new(),
            },
            version: info.epoch,
        }))
    }

    async fn write(&self, record: SessionRecord, expected: Option<u64>) -> Saved {
        let session = record.session_id.clone();
        let now = self.clock.now();
        let before = self.store.session(&session).await?;
        let found = before.as_ref().filter(|info| info.has_state);
        if expected.is_some_and(|expected| found.map_or(0, |info| info.epoch) != expected) {
            return Ok(None);
        }
        if before.is_none() {
            // Makes the session: only one that exists can be taken.
            let label = Value::Bool(true);
            self.store.set_label(&session, "record", label, now).await?;
        }
        let lease = match self
            .store
            .acquire(&session, &self.owner, now, LEASE)
            .await?
        {
            LeaseResult::Lease(lease) => lease,
            LeaseResult::Held { .. } => return Ok(None),
        };
        let written = self.write_under(&lease, record, expected).await;
        let released = self.store.release(&lease).await;
        let written = written?;
        released?;
        Ok(written.then_some(lease.epoch))
    }

    /// Writes a record under a lease and returns whether it fitted.
    ///
    /// The history must be the beginning of the record's messages.
    async fn write_under(
        &self,
        lease: &Lease,
        record: SessionRecord,
        expected: Option<u64>,
    ) -> Result<bool, StoreError> {
        let session = &lease.session;
        // Another owner between the first look and the lease has raised the epoch further.
        let moved = expected.is_some_and(|expected| expected > 0 && lease.epoch != expected + 1);
        if moved {
            return Ok(false);
        }
        let Some(info) = self.store.session(session).await? else {
            return Ok(false);
        };
        let mut fields = record.state;
        let messages = match fields.remove(MESSAGES) {
            Some(Value::Array(messages)) => messages,
            Some(other) => {
                fields.insert(MESSAGES.to_owned(), other);
                Vec::new()
            }
            None => Vec::new(),
        };
        let length = usize::try_from(info.seq).unwrap_or(usize::MAX);
        let history = self.store.history(session, 0, length).await?;
        if !messages.starts_with(&history) {
            return Ok(false);
        }
        for name in info.fields.keys() {
            if !fields.contains_key(name) {
                fields.insert(name.clone(), Value::Null);
            }
        }
        let commit = Commit {
            invocation_id: String::new(),
            expected_seq: info.seq,
            messages: messages.into_iter().skip(history.len()).collect(),
            fields,
            schema_version: record.schema_version,
            settle: None,
            now: self.clock.now(),
        };
        match self.store.commit(lease, commit).await {
            Ok(()) => Ok(true),
            Err(error) if error.is_conflict() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The new version, or none if another owner came first.
type Saved = Result<Option<u64>, StoreError>;

impl SessionStore for StoreSessions {
    fn load<'a>(&'a self, session_id: &'a str) -> SessionResult<'a, Option<LoadedSession>> {
        Box::pin(async move { self.read(session_id).await.map_err(into_session_error) })
    }

    fn save(&self, record: SessionRecord, expected_version: Option<u64>) -> SessionResult<'_, u64> {
        Box::pin(async move {
            let session_id = record.session_id.clone();
            let saved = self
                .write(record, expected_version)
                .await
                .map_err(into_session_error)?;
            saved.ok_or(SessionStoreError::Conflict { session_id })
        })
    }

    fn delete<'a>(&'a self, session_id: &'a str) -> SessionResult<'a, ()> {
        Box::pin(async move {
            let deleted = self.store.delete(session_id).await;
            deleted.map(drop).map_err(into_session_error)
        })
    }

    fn list(&self, filter: SummaryFilter) -> SessionResult<'_, Vec<SessionSummary>> {
        Box::pin(async move {
            let filter = SessionFilter {
                prefix: filter.prefix,
                limit: None,
                ..SessionFilter::default()
            };
            let listed = self.store.list(filter).await.map_err(into_session_error)?;
            let kept = listed.into_iter().filter(|info| info.has_state);
            let mut summaries: Vec<_> = kept
                .map(|info| SessionSummary {
                    session_id: info.session,
                    schema_version: info.schema_version,
                    updated_at: info.updated_at,
                })
                .collect();
            summaries.sort_by(|one, other| one.session_id.cmp(&other.session_id));
            Ok(summaries)
        })
    }
}

fn into_session_error(error: StoreError) -> SessionStoreError {
    SessionStoreError::Failed {
        message: error.to_string(),
        source: Some(Arc::new(error)),
    }
}

impl fmt::Debug for StoreSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreSessions")
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}
