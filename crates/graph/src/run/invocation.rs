//! What a run is started with.

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
    /// Starts from the schema's defaults with these fields replaced; reducers do not take part.
    pub fn new(fields: impl Into<Update>) -> Self {
        Self::from_initial(Initial::Fields(fields.into()))
    }

    /// Starts from a whole state. One that came from the same graph was checked then and costs
    /// nothing now, however long its lists; a foreign one is checked like initial fields.
    pub fn from_state(state: State) -> Self {
        Self::from_initial(Initial::State(state))
    }

    /// The session that the run is tied to, if any.
    pub fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    /// The id of the run, if the caller has set one.
    pub fn invocation_id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Replaces fields of the initial state; reducers do not take part.
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

    /// Ties the run to a session.
    #[must_use]
    pub fn with_session_id(mut self, id: impl Into<String>) -> Self {
        self.session_id = Some(id.into());
        self
    }

    /// Sets the id by which the caller ties invocations together; otherwise a new one is made.
    #[must_use]
    pub fn with_correlation_id(mut self, id: impl Into<String>) -> Self {
        self.correlation_id = Some(id.into());
        self
    }

    /// Sets the id of this run; otherwise a new one is made.
    #[must_use]
    pub fn with_invocation_id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Passes something along to every node. A run that is paused keeps it, in its JSON too.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Map<String, Value>) -> Self {
        self.metadata = metadata;
        self
    }

    /// Sets how many nodes may run, instead of the graph's own limit.
    #[must_use]
    pub fn with_max_steps(mut self, limit: usize) -> Self {
        self.max_steps = Some(limit);
        self
    }

    /// Gives the run its ports: whom it tells what happens, and what it may save on its way.
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
