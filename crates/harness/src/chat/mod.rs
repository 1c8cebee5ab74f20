//! A chat over a graph: `send` a message to a session and receive its outcome.
//!
//! The graph's state has a field `messages`, a list with the reducer `append` (harness-chat §4). A
//! [`ChatHarness`] runs the graph once for each message and keeps the state in a [`Store`](crate::store::Store), so that
//! any process may take the next turn. What it adds to the engine:
//!
//! - **No message is lost.** It is in the inbox of its session before anything runs, and every
//!   entry of the inbox gets an outcome, even if processes die in between.
//! - **One turn at a time**, over all processes, in the order in which messages were accepted. A
//!   process that was stopped while another one took over can commit nothing.
//! - **Nothing that happened is forgotten.** A turn that fails before a call of a tool was started
//!   leaves the history unchanged. Once a call was started, it and its result are history, whatever
//!   fails later, and the turn can continue from there ([`ChatHarness::retry`]).
//! - **A turn survives its process.** The next owner continues from its journal
//!   ([`OnCrash::Continue`]); no call of a tool runs twice.
//! - **A suspended turn resumes anywhere**: its state is committed beside the session, and its
//!   signal is one more entry of the inbox, consumed once.
//!
//! ```text
//! send ─▶ validate ─▶ inbox ─▶ ┌ lease ─▶ claim ─▶ open ─▶ graph ─▶ commit ┐ ─▶ outcome
//! signal ─▶ check ───▶ inbox ─▶ └─────────── until the entry is settled ─────┘ ─▶ listeners
//! ```
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use logue_harness::chat::{ChatHarness, ChatTurnOutcome, messages_field};
//! use logue_harness::store::MemoryStore;
//! use logue_graph::{CountingIds, END, GraphBuilder, List, StateSchema, Update};
//! use logue_harness::{BoxFuture, Clock, Timestamp};
//! use logue_message::ChatMessage;
//!
//! /// A program passes the machine's clock.
//! struct Stopped;
//!
//! impl Clock for Stopped {
//!     fn now(&self) -> Timestamp {
//!         Timestamp(0)
//!     }
//!     fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
//!         Box::pin(async {})
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let schema = StateSchema::new().with(messages_field());
//! let graph = GraphBuilder::new(schema)
//!     .add_node_fn("count", |ctx| async move {
//!         let messages = ctx.state().list_of::<ChatMessage>("messages");
//!         let count = messages.map_or(0, List::len);
//!         let reply = ChatMessage::assistant(format!("{count} messages so far"));
//!         Ok(Update::new().with("messages", vec![reply]))
//!     })
//!     .entry("count")
//!     .add_edge("count", END)
//!     .compile(CountingIds::new())?;
//!
//! let store = Arc::new(MemoryStore::new());
//! let chat = ChatHarness::new(graph, store, Arc::new(Stopped), Arc::new(CountingIds::new()))?;
//! for expected in ["1 messages so far", "3 messages so far"] {
//!     match chat.send("s1", ChatMessage::user("hello")).await {
//!         ChatTurnOutcome::Completed(turn) => assert_eq!(turn.replies[0].text(), expected),
//!         other => return Err(format!("{other:?}").into()),
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod basis;
mod branch;
mod builder;
mod cancel;
mod continuation;
mod drive;
mod ending;
mod failed_turns;
mod failure;
mod open;
mod options;
mod outcome;
mod owned_ids;
mod raw;
mod records;
mod recovery;
mod redact;
mod redacted;
mod refused_notes;
mod retry;
mod send;
mod signal;
mod state_cache;
mod steps;
mod stream;
mod subscribe;
mod timeline;
mod trace;
mod turn;
mod unrecorded;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

pub use branch::{
    BranchError, BranchPoint, PendingRename, SessionBranch, fork_session, rerun_session,
};
pub use builder::{ChatGraphError, ChatHarnessBuilder, REPORTED_FIELDS, messages_field};
pub use continuation::Continuation;
pub use options::{
    BusyPolicy, ChatConfig, DefaultErrorMessages, ErrorMessages, OnCrash, PausedPolicy, SendOptions,
};
pub use outcome::{ChatTurnOutcome, CompletedTurn, ErroredTurn, SuspendedTurn};
pub use records::check_records;
pub use recovery::TurnNote;
pub use redact::{Redact, has_placeholder};
pub use retry::{RetryError, UnfinishedTurn};
pub use signal::{SignalError, SignalTarget, wake_time};
pub use state_cache::StateCache;
pub use steps::{SessionStep, StepKind, StepState, StepTurn, session_steps};
pub use stream::{ChatEvent, TurnStream};
pub use subscribe::Subscription;
pub use unrecorded::SignalUnrecorded;

use crate::clock::Clock;
use crate::store::SharedStore;
use logue_graph::{CompiledGraph, IdSource};
use serde_json::{Map, Value};

use builder::Settings;
use owned_ids::OwnedIds;
use subscribe::Listeners;

/// The field of the state that holds the conversation.
pub(crate) const MESSAGES: &str = "messages";

/// A graph that holds conversations. Cloning is cheap; clones share everything.
///
/// Dropping a future of [`send`](Self::send) leaves its turn unfinished. The next lease owner
/// continues it when the lease ends.
pub struct ChatHarness<E = ()> {
    inner: Arc<Inner<E>>,
}

impl<E> Clone for ChatHarness<E> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

struct Inner<E> {
    graph: CompiledGraph<E>,
    store: SharedStore,
    clock: Arc<dyn Clock>,
    ids: OwnedIds,
    owner: String,
    settings: Settings,
    state_cache: Arc<StateCache>,
    listeners: Arc<Listeners>,
    /// One lock for each session that a task of this process works on.
    locks: Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>,
    /// Notified of each commit and each request to cancel of this process.
    ///
    /// It saves the tasks of this process from polling.
    changed: tokio::sync::Notify,
    /// The original payloads of signals whose entries are stored redacted.
    live_payloads: Mutex<HashMap<(String, u64), Map<String, Value>>>,
}

impl<E: Send + 'static> ChatHarness<E> {
    /// A chat over a graph and a store, with the default settings.
    ///
    /// An id that is not a UUID gets a random part of the harness, so that harnesses with equal ids
    /// can share a store.
    ///
    /// # Errors
    /// Returns [`ChatGraphError`] if the graph's state has no appended list `messages` of
    /// [`ChatMessage`](logue_message::ChatMessage)s; see [`messages_field`].
    pub fn new(
        graph: CompiledGraph<E>,
        store: SharedStore,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdSource>,
    ) -> Result<Self, ChatGraphError> {
        Self::builder(graph, store, clock, ids).build()
    }

    /// A builder of a chat over a graph and a store.
    pub fn builder(
        graph: CompiledGraph<E>,
        store: SharedStore,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdSource>,
    ) -> ChatHarnessBuilder<E> {
        ChatHarnessBuilder::new(graph, store, clock, ids)
    }

    /// Returns the chat with a cache that chats of one store and schema share.
    ///
    /// Chats that are created for one turn each then read a session once. A chat that was cloned
    /// keeps its own.
    #[must_use]
    pub fn with_shared_states(mut self, states: &Arc<StateCache>) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.state_cache = Arc::clone(states);
        }
        self
    }

    /// The store.
    pub fn store(&self) -> &SharedStore {
        &self.inner.store
    }

    /// The graph.
    pub fn graph(&self) -> &CompiledGraph<E> {
        &self.inner.graph
    }
}

impl<E: Send + 'static> Inner<E> {
    /// Returns a name for the owner of a new lease.
    fn acquisition(&self) -> String {
        self.ids.acquisition(&self.owner)
    }

    /// The lock of a session in this process. Its waiters are served in the order in which they came.
    fn lock_of(&self, session: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = locks.get(session).and_then(Weak::upgrade) {
            return lock;
        }
        // Idle sessions would fill the map.
        if locks.len() > 2 * self.settings.config.cached_sessions {
            locks.retain(|_, lock| lock.strong_count() > 0);
        }
        let lock = Arc::new(tokio::sync::Mutex::new(()));
        locks.insert(session.to_owned(), Arc::downgrade(&lock));
        lock
    }

    fn errored(&self, failure: failure::Failure, invocation_id: Option<String>) -> ChatTurnOutcome {
        self.redacted_failure(failure).outcome(
            &*self.settings.classifier,
            &*self.settings.error_messages,
            invocation_id,
        )
    }
}

impl<E> fmt::Debug for ChatHarness<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatHarness")
            .field("graph", &self.inner.graph)
            .field("owner", &self.inner.owner)
            .finish_non_exhaustive()
    }
}
