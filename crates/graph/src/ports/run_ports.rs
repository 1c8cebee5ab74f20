//! Ports of one run: a stream of events, a journal, a session.
//!
//! All of them are optional. A node uses the ports through its context regardless of whether they
//! are set: without a sink an event costs nothing, without a journal a note counts as recorded,
//! without a session nothing is saved.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::error::NodeError;
use crate::ports::observer::Observer;
use crate::run::info::NodeLocation;
use crate::state::snapshot::State;
use futures_util::future::BoxFuture;

/// An event of a run. Events are not part of the state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunEvent<E = ()> {
    /// An attempt of a node began.
    NodeStarted,
    /// An attempt of a node ended.
    NodeEnded(NodeEnd),
    /// A node emitted an event.
    Emitted(E),
}

/// The end of an attempt of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeEnd {
    /// The update is in the state.
    Completed,
    /// The node, its update or its edge failed.
    Failed,
    /// The node waits for a signal.
    Suspended,
}

/// A receiver of the events of a run.
///
/// Any `Fn(&NodeLocation, RunEvent)` is one. It is called within the run and must not block.
pub trait EventSink<E = ()>: Send + Sync {
    /// Receives an event of the node at `from`.
    fn emit(&self, from: &NodeLocation, event: RunEvent<E>);
}

impl<E, F: Fn(&NodeLocation, RunEvent<E>) + Send + Sync> EventSink<E> for F {
    fn emit(&self, from: &NodeLocation, event: RunEvent<E>) {
        self(from, event);
    }
}

/// A journal of notes that nodes record before they end.
pub trait Journal: Send + Sync {
    /// Records a note; it is durable when the future completes.
    ///
    /// # Errors
    /// Returns an error if the note cannot be recorded. The node decides how to handle it.
    fn note(&self, from: &NodeLocation, entry: Value) -> BoxFuture<'_, Result<(), NodeError>>;
}

/// Saves the state of a session during its run.
pub trait SessionSaver: Send + Sync {
    /// Saves the state, or only the fields that sessions keep.
    ///
    /// # Errors
    /// Returns an error if the state cannot be saved. The node that requested it decides how to
    /// handle it.
    fn save(&self, state: State) -> BoxFuture<'_, Result<(), NodeError>>;
}

/// The ports of one invocation. Cloning is cheap.
pub struct RunPorts<E = ()> {
    pub(crate) events: Option<Arc<dyn EventSink<E>>>,
    pub(crate) journal: Option<Arc<dyn Journal>>,
    pub(crate) session: Option<Arc<dyn SessionSaver>>,
    pub(crate) observers: Vec<Arc<dyn Observer>>,
    pub(crate) clock: Option<Arc<dyn Fn() -> u64 + Send + Sync>>,
}

impl<E> Default for RunPorts<E> {
    fn default() -> Self {
        Self {
            events: None,
            journal: None,
            session: None,
            observers: Vec::new(),
            clock: None,
        }
    }
}

impl<E> Clone for RunPorts<E> {
    fn clone(&self) -> Self {
        Self {
            events: self.events.clone(),
            journal: self.journal.clone(),
            session: self.session.clone(),
            observers: self.observers.clone(),
            clock: self.clock.clone(),
        }
    }
}

impl<E> RunPorts<E> {
    /// Creates an empty set of ports.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the sink for the events of the run.
    #[must_use]
    pub fn with_events(mut self, sink: impl EventSink<E> + 'static) -> Self {
        self.events = Some(Arc::new(sink));
        self
    }

    /// Sets the journal for the notes of nodes.
    #[must_use]
    pub fn with_journal(mut self, journal: impl Journal + 'static) -> Self {
        self.journal = Some(Arc::new(journal));
        self
    }

    /// Sets the port that saves the session when a node requests it.
    #[must_use]
    pub fn with_session(mut self, saver: impl SessionSaver + 'static) -> Self {
        self.session = Some(Arc::new(saver));
        self
    }

    /// Sets the clock of timers and retries: milliseconds since 1970.
    ///
    /// Without a clock a backoff ends at once.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.as_ref().map_or(0, |clock| clock())
    }

    /// Adds an observer, after those of the graph.
    #[must_use]
    pub fn with_observer(mut self, observer: impl Observer + 'static) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }
}

impl<E, P: EventSink<E> + ?Sized> EventSink<E> for Arc<P> {
    fn emit(&self, from: &NodeLocation, event: RunEvent<E>) {
        (**self).emit(from, event);
    }
}

impl<P: Journal + ?Sized> Journal for Arc<P> {
    fn note(&self, from: &NodeLocation, entry: Value) -> BoxFuture<'_, Result<(), NodeError>> {
        (**self).note(from, entry)
    }
}

impl<P: SessionSaver + ?Sized> SessionSaver for Arc<P> {
    fn save(&self, state: State) -> BoxFuture<'_, Result<(), NodeError>> {
        (**self).save(state)
    }
}

impl<E> fmt::Debug for RunPorts<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunPorts")
            .field("events", &self.events.is_some())
            .field("journal", &self.journal.is_some())
            .field("session", &self.session.is_some())
            .field("observers", &self.observers.len())
            .field("clock", &self.clock.is_some())
            .finish()
    }
}
