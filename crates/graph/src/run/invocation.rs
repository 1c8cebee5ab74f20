//! The input of a run.

use std::fmt;

use serde_json::{Map, Value};

use crate::ports::run_ports::{RunPorts, SessionSaver};
use crate::state::snapshot::State;
use crate::state::update::Update;

/// The input of [`CompiledGraph::invoke`](crate::CompiledGraph::invoke).
pub struct Invocation<E = ()> {
    pub(crate) initial: Initial,
    pub(crate) session_id: Option<String>,
    pub(crate) correlation_id: Option<String>,
    pub(crate) id: Option<String>,
    pub(crate) metadata: Map<String, Value>,
    pub(crate) max_steps: Option<usize>,
    pub(crate) ports: RunPorts<E>,
}

#[derive(Clone, Debug)]
pub(crate) enum Initial {
    Fields(Update),
    State(State),
}

impl<E> Invocation<E> {
    /// Starts from the schema's defaults with these fields replaced.
    ///
    /// Reducers do not apply.
    pub fn new(fields: impl Into<Update>) -> Self {
        Self::from_initial(Initial::Fields(fields.into()))
    }

    /// Starts from a complete state.
    ///
    /// A state of the same graph is already checked and costs O(1), regardless of the length of its
    /// lists; a state of another graph is checked like initial fields.
    pub fn from_state(state: State) -> Self {
        Self::from_initial(Initial::State(state))
    }

    /// Returns the session of the run, if any.
    pub fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    /// Returns the id of the run, if the caller has set one.
    pub fn invocation_id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Replaces fields of the initial state; reducers do not apply.
    #[must_use]
    pub fn with_fields(mut self, fields: &Update) -> Self {
        let mut initial = match self.initial {
            Initial::Fields(initial) => initial,
            Initial::State(state) => state.to_update(),
        };
        for (name, value) in fields.iter() {
            initial.set(name, value.clone());
        }
        self.initial = Initial::Fields(initial);
        self
    }

    /// Saves the session through `saver` when a node requests it.
    #[must_use]
    pub fn with_session_saver(mut self, saver: impl SessionSaver + 'static) -> Self {
        self.ports = self.ports.with_session(saver);
        self
    }

    /// Sets the session of the run.
    #[must_use]
    pub fn with_session_id(mut self, id: impl Into<String>) -> Self {
        self.session_id = Some(id.into());
        self
    }

    /// Sets the id by which the caller links invocations.
    ///
    /// The default is a new id.
    #[must_use]
    pub fn with_correlation_id(mut self, id: impl Into<String>) -> Self {
        self.correlation_id = Some(id.into());
        self
    }

    /// Sets the id of this run. The default is a new id.
    #[must_use]
    pub fn with_invocation_id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets the metadata that every node receives.
    ///
    /// A paused run keeps it, in its JSON too.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Map<String, Value>) -> Self {
        self.metadata = metadata;
        self
    }

    /// Sets the maximum number of nodes, instead of the graph's own limit.
    #[must_use]
    pub fn with_max_steps(mut self, limit: usize) -> Self {
        self.max_steps = Some(limit);
        self
    }

    /// Sets the ports of the run, such as its events, journal and session.
    #[must_use]
    pub fn with_ports(mut self, ports: RunPorts<E>) -> Self {
        self.ports = ports;
        self
    }

    fn from_initial(initial: Initial) -> Self {
        Self {
            initial,
            session_id: None,
            correlation_id: None,
            id: None,
            metadata: Map::new(),
            max_steps: None,
            ports: RunPorts::default(),
        }
    }
}

impl<E> Clone for Invocation<E> {
    fn clone(&self) -> Self {
        Self {
            initial: self.initial.clone(),
            session_id: self.session_id.clone(),
            correlation_id: self.correlation_id.clone(),
            id: self.id.clone(),
            metadata: self.metadata.clone(),
            max_steps: self.max_steps,
            ports: self.ports.clone(),
        }
    }
}

impl<E> fmt::Debug for Invocation<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invocation")
            .field("initial", &self.initial)
            .field("session_id", &self.session_id)
            .field("ports", &self.ports)
            .finish_non_exhaustive()
    }
}
