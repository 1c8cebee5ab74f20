//! What a run tells and asks the world on its way: a stream of events, a journal, a session.
//!
//! All of it is optional. A node uses the ports through its context and needs not know whether
//! anybody listens: without a sink an event costs nothing, without a journal a note is taken as
//! made, without a session there is nothing to save.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::error::NodeError;
use crate::ports::observer::Observer;
use crate::run::info::NodeLocation;
use crate::state::snapshot::State;
use futures_util::future::BoxFuture;

/// An event of a run. No part of it is in the state.
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

/// How an attempt of a node ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeEnd {
    /// Its update is in the state.
    Completed,
    /// It failed, or its update or edge did.
    Failed,
    /// It waits for a signal.
    Suspended,
}

/// Takes the events of a run as they come. Any `Fn(&NodeLocation, RunEvent)` is one.
///
/// It is called from within the run and must not block.
pub trait EventSink<E = ()>: Send + Sync {
    /// Takes an event of the node at `from`.
    fn emit(&self, from: &NodeLocation, event: RunEvent<E>);
}

impl<E, F: Fn(&NodeLocation, RunEvent<E>) + Send + Sync> EventSink<E> for F {
    fn emit(&self, from: &NodeLocation, event: RunEvent<E>) {
        self(from, event);
    }
}

/// Keeps notes of what happened before the node in which it happened ends.
pub trait Journal: Send + Sync {
    /// Makes a note; it is durable when the future completes.
    ///
    /// # Errors
    /// The note could not be made. The node decides what becomes of that.
    fn note(&self, from: &NodeLocation, entry: Value) -> BoxFuture<'_, Result<(), NodeError>>;
}

/// Saves the state of a session while its run goes on.
pub trait SessionSaver: Send + Sync {
    /// Saves the state, of which it may pick the fields that sessions keep.
    ///
    /// # Errors
    /// It could not be saved. The node that asked for it decides what becomes of that.
    fn save(&self, state: State) -> BoxFuture<'_, Result<(), NodeError>>;
}

/// The ports that one invocation is given. Cloning is cheap.
pub struct RunPorts<E = ()> {
    pub(crate) events: Option<Arc<dyn EventSink<E>>>,
    pub(crate) journal: Option<Arc<dyn Journal>>,
    pub(crate) session: Option<Arc<dyn SessionSaver>>,
    pub(crate) observers: Vec<Arc<dyn Observer>>,
}

impl<E> Default for RunPorts<E> {
    fn default() -> Self {
        Self {
            events: None,
            journal: None,
            session: None,
            observers: Vec::new(),
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
        }
    }
}

impl<E> RunPorts<E> {
    /// No ports.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends the run's events somewhere.
    #[must_use]
    pub fn with_events(mut self, sink: impl EventSink<E> + 'static) -> Self {
        self.events = Some(Arc::new(sink));
        self
    }

    /// Keeps the notes that nodes make.
    #[must_use]
    pub fn with_journal(mut self, journal: impl Journal + 'static) -> Self {
        self.journal = Some(Arc::new(journal));
        self
    }

    /// Saves the session when a node asks for it.
    #[must_use]
    pub fn with_session(mut self, saver: impl SessionSaver + 'static) -> Self {
        self.session = Some(Arc::new(saver));
        self
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
            .finish()
    }
}
