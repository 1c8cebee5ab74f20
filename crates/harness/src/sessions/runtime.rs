//! A graph whose runs belong to sessions, loaded before a run and saved after it.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::clock::Clock;
use logue_graph::{
    CompiledGraph, Completed, EngineError, Errored, Invocation, RunOutcome, RunPorts, State,
    StateError, Suspended, Update,
};

use super::bound_session::BoundSession;
use super::error::SessionError;
use super::memory::MemorySessionStore;
use super::migration::Migrations;
use super::outcome::{FailedRun, SessionOutcome};
use super::paused::{CombinedStore, PausedRecord, PausedStatus, PausedStore};
use super::projection::Projection;
use super::record::SessionStore;

/// A graph with a memory.
///
/// A run that names a session begins with the kept state and is kept when it reaches its end; a run
/// that fails leaves the session unchanged. A run that suspends is kept together with its session,
/// and [`resume`](Self::resume) continues it, once, also in another process. Without a store, or
/// without a session, no store is asked; runs can still be suspended.
///
/// Two runs of one session at once are not kept apart: the last one to end is kept, unless
/// [`with_conflicts`](Self::with_conflicts) refuses it. Cloning is cheap.
///
/// `E` is the type of the events that the graph's nodes emit; [`RunOptions::ports`] receives them.
pub struct Sessions<E = ()> {
    pub(super) graph: CompiledGraph<E>,
    pub(super) store: Option<Arc<dyn SessionStore>>,
    pub(super) paused: Arc<dyn PausedStore>,
    pub(super) projection: Arc<Projection>,
    pub(super) migrations: Migrations,
    pub(super) auto_save: bool,
    pub(super) conflicts: bool,
}

impl<E> Clone for Sessions<E> {
    fn clone(&self) -> Self {
        Self {
            graph: self.graph.clone(),
            store: self.store.clone(),
            paused: Arc::clone(&self.paused),
            projection: Arc::clone(&self.projection),
            migrations: self.migrations.clone(),
            auto_save: self.auto_save,
            conflicts: self.conflicts,
        }
    }
}

/// A session that was loaded for one run.
#[derive(Clone, Debug)]
pub struct OpenSession {
    pub(super) bound: Arc<BoundSession>,
    pub(super) state: State,
    pub(super) existed: bool,
    pub(super) migrated: Vec<(String, String)>,
}

/// Options of a run besides its state.
#[non_exhaustive]
pub struct RunOptions<E = ()> {
    /// The id of the run, if the caller has one.
    pub invocation_id: Option<String>,
    /// The id by which the caller ties runs together.
    pub correlation_id: Option<String>,
    /// Passed along to every node.
    pub metadata: Map<String, Value>,
    /// The other participants of the run.
    pub ports: RunPorts<E>,
}

impl<E> Default for RunOptions<E> {
    fn default() -> Self {
        Self {
            invocation_id: None,
            correlation_id: None,
            metadata: Map::new(),
            ports: RunPorts::new(),
        }
    }
}

impl<E> Clone for RunOptions<E> {
    fn clone(&self) -> Self {
        Self {
            invocation_id: self.invocation_id.clone(),
            correlation_id: self.correlation_id.clone(),
            metadata: self.metadata.clone(),
            ports: self.ports.clone(),
        }
    }
}

impl<E> fmt::Debug for RunOptions<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunOptions")
            .field("invocation_id", &self.invocation_id)
            .field("correlation_id", &self.correlation_id)
            .field("metadata", &self.metadata)
            .field("ports", &self.ports)
            .finish()
    }
}

impl OpenSession {
    /// The session.
    pub fn session_id(&self) -> &str {
        &self.bound.session_id
    }

    /// The state with which a run would begin.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns whether the session had a record.
    pub fn existed(&self) -> bool {
        self.existed
    }

    /// The versions between which the stored state was migrated, in order.
    pub fn migrated(&self) -> &[(String, String)] {
        &self.migrated
    }
}

impl<E: Send + 'static> Sessions<E> {
    /// A graph without a store of sessions. Suspended runs wait in memory.
    pub fn new(graph: CompiledGraph<E>, clock: Arc<dyn Clock>) -> Self {
        Self {
            graph,
            store: None,
            paused: Arc::new(MemorySessionStore::new(clock)),
            projection: Arc::default(),
            migrations: Migrations::new(),
            auto_save: true,
            conflicts: false,
        }
    }

    /// Keeps sessions and suspended runs in one store.
    #[must_use]
    pub fn with_store<S: SessionStore + PausedStore + 'static>(mut self, store: S) -> Self {
        let store = Arc::new(store);
        self.store = Some(Arc::clone(&store) as Arc<dyn SessionStore>);
        self.paused = store;
        self
    }

    /// Keeps sessions in one store and suspended runs in another.
    ///
    /// See [`CombinedStore`] for the guarantees that two stores cannot give.
    #[must_use]
    pub fn with_stores(
        self,
        sessions: impl SessionStore + 'static,
        paused: impl PausedStore + 'static,
    ) -> Self {
        self.with_store(CombinedStore::new(sessions, paused))
    }

    /// Keeps suspended runs in a store, and no sessions.
    #[must_use]
    pub fn with_paused(mut self, paused: impl PausedStore + 'static) -> Self {
        self.store = None;
        self.paused = Arc::new(paused);
        self
    }

    /// Keeps only some fields of the state.
    ///
    /// # Errors
    /// The graph's state has no such field.
    pub fn with_projection(mut self, projection: Projection) -> Result<Self, StateError> {
        projection.check(self.graph.schema())?;
        self.projection = Arc::new(projection);
        Ok(self)
    }

    /// Knows how to bring stored states to the version of the graph.
    #[must_use]
    pub fn with_migrations(mut self, migrations: Migrations) -> Self {
        self.migrations = migrations;
        self
    }

    /// Sets whether a session is saved when its run ends or suspends.
    ///
    /// Without it, only explicit saves of nodes are kept; sessions are loaded all the same.
    #[must_use]
    pub fn with_auto_save(mut self, auto_save: bool) -> Self {
        self.auto_save = auto_save;
        self
    }

    /// Sets whether a concurrent save of the session fails the run.
    ///
    /// Such a run ends in `session_write_conflict`. Without it, the run replaces the other save.
    #[must_use]
    pub fn with_conflicts(mut self, conflicts: bool) -> Self {
        self.conflicts = conflicts;
        self
    }

    /// The graph.
    pub fn graph(&self) -> &CompiledGraph<E> {
        &self.graph
    }

    /// The runs that wait for a signal of that name.
    ///
    /// # Errors
    /// They could not be read.
    pub async fn waiting(
        &self,
        signal_id: &str,
    ) -> Result<Vec<PausedRecord>, super::record::SessionStoreError> {
        self.paused.waiting(signal_id).await
    }

    /// Loads a session, once, for the run that [`invoke_open`](Self::invoke_open) begins with it. A
    /// session that does not exist has the defaults.
    ///
    /// # Errors
    /// It could not be loaded or migrated, or does not fit the graph.
    pub async fn open_session(&self, session_id: &str) -> Result<OpenSession, SessionError> {
        let loaded = self.load(session_id).await?;
        let state = self
            .graph
            .state(loaded.fields)
            .map_err(|error| SessionError::loading(session_id, error))?;
        Ok(OpenSession {
            bound: Arc::new(loaded.bound),
            state,
            existed: loaded.existed,
            migrated: loaded.migrated,
        })
    }

    /// Runs the graph on an open session with an update.
    ///
    /// The reducers merge the update into the state first. Nothing is loaded again.
    pub async fn invoke_open(
        &self,
        session: OpenSession,
        inbound: Update,
        options: RunOptions<E>,
    ) -> SessionOutcome {
        let mut state = session.state;
        if let Err(cause) = state.apply(inbound) {
            let error = EngineError::StateValidation { node: None, cause };
            let id = options.invocation_id.as_deref();
            let mut failed = FailedRun::before(error.into(), id);
            failed.state = Some(state);
            return failed.into();
        }
        let mut invocation = Invocation::from_state(state)
            .with_session_id(&session.bound.session_id)
            .with_metadata(options.metadata)
            .with_ports(options.ports);
        if let Some(id) = options.invocation_id {
            invocation = invocation.with_invocation_id(id);
        }
        if let Some(id) = options.correlation_id {
            invocation = invocation.with_correlation_id(id);
        }
        self.run(invocation, Some(session.bound)).await
    }

    /// Runs the graph from initial fields. If it names a session, what the session has kept replaces
    /// the fields of the same names.
    pub async fn invoke(&self, invocation: Invocation<E>) -> SessionOutcome {
        let session_id = invocation.session_id().map(str::to_owned);
        let (Some(session_id), Some(_)) = (session_id, &self.store) else {
            return self.run(invocation, None).await;
        };
        let loaded = match self.load(&session_id).await {
            Ok(loaded) => loaded,
            Err(error) => return FailedRun::before(error, invocation.invocation_id()).into(),
        };
        // That it does not fit is the session's fault and not the caller's.
        if let Err(error) = self.graph.state(loaded.fields.clone()) {
            let error = SessionError::loading(&session_id, error);
            return FailedRun::before(error, invocation.invocation_id()).into();
        }
        let invocation = invocation.with_fields(&loaded.fields);
        self.run(invocation, Some(Arc::new(loaded.bound))).await
    }

    async fn run(
        &self,
        mut invocation: Invocation<E>,
        bound: Option<Arc<BoundSession>>,
    ) -> SessionOutcome {
        if let Some(bound) = &bound {
            invocation = invocation.with_session_saver(Arc::clone(bound));
        }
        let outcome = self.graph.invoke(invocation).await;
        self.keep(outcome, bound.as_deref(), 0).await
    }

    /// Keeps what is to be kept of a run that has ended.
    pub(super) async fn keep(
        &self,
        outcome: RunOutcome,
        bound: Option<&BoundSession>,
        round: u64,
    ) -> SessionOutcome {
        match outcome {
            RunOutcome::Completed(completed) => self.keep_completed(completed, bound).await,
            RunOutcome::Errored(errored) => failed(*errored).into(),
            RunOutcome::Suspended(suspended) => self.keep_suspended(*suspended, bound, round).await,
        }
    }

    async fn keep_completed(
        &self,
        completed: Completed,
        bound: Option<&BoundSession>,
    ) -> SessionOutcome {
        let Some(bound) = bound.filter(|_| self.auto_save) else {
            return SessionOutcome::Completed(completed);
        };
        match bound.save(&completed.state).await {
            Ok(()) => SessionOutcome::Completed(completed),
            Err(error) => FailedRun {
                error: SessionError::saving(&bound.session_id, error),
                state: Some(completed.state.clone()),
                node: None,
                invocation_id: Some(completed.invocation_id.clone()),
                completed: Some(completed),
            }
            .into(),
        }
    }

    async fn keep_suspended(
        &self,
        suspended: Suspended,
        bound: Option<&BoundSession>,
        round: u64,
    ) -> SessionOutcome {
        let paused = PausedRecord {
            invocation_id: suspended.invocation_id.clone(),
            session_id: suspended.session_id.clone(),
            signal_id: suspended.descriptor.signal_id.clone(),
            status: PausedStatus::Suspended,
            round,
            run: suspended.paused.to_json(),
        };
        let bound = bound.filter(|_| self.auto_save);
        let beside = bound.map(|bound| bound.write(&suspended.state));
        match self.paused.pause(paused, beside).await {
            Ok(version) => {
                if let (Some(bound), Some(version)) = (bound, version) {
                    bound.saved(version);
                }
                SessionOutcome::Suspended(Box::new(suspended))
            }
            Err(source) => FailedRun {
                error: SessionError::PersistenceFailed { source },
                state: Some(suspended.state),
                node: Some(suspended.node_name),
                invocation_id: Some(suspended.invocation_id),
                completed: None,
            }
            .into(),
        }
    }
}

fn failed(errored: Errored) -> FailedRun {
    FailedRun {
        error: errored.error.into(),
        state: Some(errored.state),
        node: errored.node,
        invocation_id: Some(errored.invocation_id),
        completed: None,
    }
}

impl<E> fmt::Debug for Sessions<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions")
            .field("graph", &self.graph)
            .field("store", &self.store.is_some())
            .field("projection", &self.projection)
            .field("migrations", &self.migrations)
            .field("auto_save", &self.auto_save)
            .field("conflicts", &self.conflicts)
            .finish_non_exhaustive()
    }
}
