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
use crate::run::info::NodePlace;
use crate::state::snapshot::State;
use futures_util::future::BoxFuture;

/// Something that a node lets others see while it works. Nothing of it is part of the state.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RunEvent {
    /// The engine began an attempt of a node.
    NodeStarted,
    /// The engine ended an attempt of a node.
    NodeEnded(NodeEnd),
    /// A piece of the answer's text.
    Text(String),
    /// A piece of what the model thinks.
    Reasoning(String),
    /// A tool was called.
    ToolStarted {
        /// The id of the call.
        id: String,
        /// The tool.
        name: String,
    },
    /// A tool call ended.
    ToolEnded {
        /// The id of the call.
        id: String,
        /// The tool.
        name: String,
        /// Whether it succeeded.
        ok: bool,
    },
    /// A message is complete, before the node that made it ends.
    Message(Value),
    /// Anything else.
    Custom {
        /// What it is.
        name: String,
        /// What it says.
        value: Value,
    },
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

/// Takes the events of a run as they come. Any `Fn(&NodePlace, RunEvent)` is one.
///
/// It is called from within the run and must not block.
pub trait EventSink: Send + Sync {
    /// Takes an event of the node at `from`.
    fn emit(&self, from: &NodePlace, event: RunEvent);
}

impl<F: Fn(&NodePlace, RunEvent) + Send + Sync> EventSink for F {
    fn emit(&self, from: &NodePlace, event: RunEvent) {
        self(from, event);
    }
}

/// Keeps notes of what happened before the node in which it happened ends.
pub trait Journal: Send + Sync {
    /// Makes a note; it is durable when the future completes.
    ///
    /// # Errors
    /// The note could not be made. The node decides what becomes of that.
    fn note(&self, from: &NodePlace, entry: Value) -> BoxFuture<'_, Result<(), NodeError>>;
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
#[derive(Clone, Default)]
pub struct RunPorts {
    pub(crate) events: Option<Arc<dyn EventSink>>,
    pub(crate) journal: Option<Arc<dyn Journal>>,
    pub(crate) session: Option<Arc<dyn SessionSaver>>,
    pub(crate) observers: Vec<Arc<dyn Observer>>,
}

impl RunPorts {
    /// No ports.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends the run's events somewhere.
    #[must_use]
    pub fn with_events(mut self, sink: impl EventSink + 'static) -> Self {
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

impl<P: EventSink + ?Sized> EventSink for Arc<P> {
    fn emit(&self, from: &NodePlace, event: RunEvent) {
        (**self).emit(from, event);
    }
}

impl<P: Journal + ?Sized> Journal for Arc<P> {
    fn note(&self, from: &NodePlace, entry: Value) -> BoxFuture<'_, Result<(), NodeError>> {
        (**self).note(from, entry)
    }
}

impl<P: SessionSaver + ?Sized> SessionSaver for Arc<P> {
    fn save(&self, state: State) -> BoxFuture<'_, Result<(), NodeError>> {
        (**self).save(state)
    }
}

impl fmt::Debug for RunPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunPorts")
            .field("events", &self.events.is_some())
            .field("journal", &self.journal.is_some())
            .field("session", &self.session.is_some())
            .field("observers", &self.observers.len())
            .finish()
    }
}
