//! A session while a run works on it: what was loaded, and how it is written back.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Map, Value};

use logue_graph::{BoxFuture, NodeError, SessionSaver, State, Update};

use super::error::SessionError;
use super::paused::SessionWrite;
use super::projection::Projection;
use super::record::{SessionRecord, SessionStore, SessionStoreError};
use super::runtime::Sessions;

/// The fields that a session gives a run, and the run's tie to it.
pub(super) struct LoadedRun {
    pub(super) bound: BoundSession,
    pub(super) fields: Update,
    pub(super) existed: bool,
    pub(super) migrated: Vec<(String, String)>,
}

/// The tie of one run to its session. Nodes save through it, too.
pub(super) struct BoundSession {
    pub(super) session_id: String,
    store: Option<Arc<dyn SessionStore>>,
    projection: Arc<Projection>,
    schema_version: Option<String>,
    metadata: Map<String, Value>,
    /// The version that this run has loaded or saved last.
    version: AtomicU64,
    conflicts: bool,
}

impl<E: Send + 'static> Sessions<E> {
    /// Loads, migrates and projects a session. Without a store it has never been saved.
    pub(super) async fn load(&self, session_id: &str) -> Result<LoadedRun, SessionError> {
        let schema = self.graph.schema();
        let mut bound = BoundSession {
            session_id: session_id.to_owned(),
            store: self.store.clone(),
            projection: Arc::clone(&self.projection),
            schema_version: schema.version().map(str::to_owned),
            metadata: Map::new(),
            version: AtomicU64::new(0),
            conflicts: self.conflicts,
        };
        let found = match &self.store {
            Some(store) => store.load(session_id).await,
            None => Ok(None),
        };
        let found = found.map_err(|error| SessionError::loading(session_id, error))?;
        let Some(found) = found else {
            return Ok(LoadedRun {
                bound,
                fields: Update::new(),
                existed: false,
                migrated: Vec::new(),
            });
        };
        let record = found.record;
        let from = record.schema_version.as_deref();
        let migrated = self
            .migrations
            .migrate(from, schema.version(), record.state)?;
        bound.metadata = record.metadata;
        bound.version = AtomicU64::new(found.version);
        Ok(LoadedRun {
            bound,
            fields: self.projection.given(migrated.fields, schema),
            existed: true,
            migrated: migrated.steps,
        })
    }
}

impl BoundSession {
    /// The record to write for a session in this state.
    pub(super) fn write(&self, state: &State) -> SessionWrite {
        let version = self.version.load(Ordering::Relaxed);
        SessionWrite {
            record: SessionRecord {
                session_id: self.session_id.clone(),
                state: self.projection.kept(state),
                schema_version: self.schema_version.clone(),
                metadata: self.metadata.clone(),
            },
            expected_version: self.conflicts.then_some(version),
        }
    }

    /// Notes the version that a write has led to.
    pub(super) fn saved(&self, version: u64) {
        self.version.store(version, Ordering::Relaxed);
    }

    pub(super) async fn save(&self, state: &State) -> Result<(), SessionStoreError> {
        let Some(store) = &self.store else {
            return Ok(());
        };
        let write = self.write(state);
        let version = store.save(write.record, write.expected_version).await?;
        self.saved(version);
        Ok(())
    }
}

impl SessionSaver for BoundSession {
    fn save(&self, state: State) -> BoxFuture<'_, Result<(), NodeError>> {
        Box::pin(async move {
            let saved = Self::save(self, &state).await;
            saved.map_err(|error| {
                let error = SessionError::saving(&self.session_id, error);
                let category = error.category().to_owned();
                NodeError::from_error(error).with_category(category)
            })
        })
    }
}

impl fmt::Debug for BoundSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundSession")
            .field("session_id", &self.session_id)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}
