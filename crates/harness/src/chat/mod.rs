//! A chat over a graph: `send` a message to a session, and be told how its turn ended.
//!
//! The graph's state has a field `messages`, a list with the reducer `append` (harness-chat §4). A
//! [`ChatHarness`] runs the graph once for each message and keeps the state in a [`Store`](crate::store::Store), so that
//! any process may take the next turn. What it adds to the engine:
//!
//! - **No message is lost.** It is in the inbox of its session before anything runs, and every entry of
//!   the inbox gets an outcome, whoever dies in between.
//! - **One turn at a time**, over all processes, in the order in which messages were accepted. A
//!   process that was stopped while another one took over can commit nothing.
//! - **A turn is a transaction.** A failed one leaves the history as it was. What had happened in it
//!   is in its journal, and the user's words are in the inbox.
//! - **A suspended turn goes on anywhere**: its state is committed beside the session, and its signal
//!   is one more entry of the inbox, consumed once.
//!
//! ```text
//! send ─▶ validate ─▶ inbox ─▶ ┌ lease ─▶ begin ─▶ open ─▶ graph ─▶ commit ┐ ─▶ outcome
//! signal ─▶ check ───▶ inbox ─▶ └─────────── until the entry is settled ─────┘ ─▶ listeners
//! ```
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use logue_harness::chat::{ChatHarness, ChatTurnOutcome};
//! use logue_harness::store::MemoryStore;
//! use logue_graph::{CountingIds, END, Field, GraphBuilder, List, StateSchema, Update};
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
//! let schema = StateSchema::new().with(Field::appended("messages", "ChatMessage"));
//! let graph = GraphBuilder::new(schema)
//!     .add_node_fn("count", |ctx| async move {
//!         let said = ctx.state().list("messages").map_or(0, List::len);
//!         let reply = ChatMessage::assistant(format!("{said} messages so far"));
//!         Ok(Update::new().with("messages", vec![reply.to_json()]))
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

mod cancel;
mod drive;
mod failure;
mod listen;
mod open;
mod options;
mod outcome;
mod raw;
mod recovery;
mod remembered;
mod send;
mod signal;
mod stream;
mod trace;
mod turn;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

pub use listen::Subscription;
pub use options::{BusyPolicy, ChatLimits, DefaultReplies, Replies, SendOptions, WhilePaused};
pub use outcome::{ChatTurnOutcome, CompletedTurn, ErroredTurn, SuspendedTurn};
pub use recovery::{continued, continues};
pub use signal::{SignalError, SignalTarget};
pub use stream::{TurnEvent, TurnStream};

use serde_json::{Map, Value};

use crate::classification::{Classifier, DefaultClassifier};
use crate::clock::{Clock, Timestamp};
use crate::sessions::Migrations;
use crate::store::{SharedStore, Suspension};
use logue_graph::{CompiledGraph, FieldType, IdSource, Reducer, SignalDescriptor};

use listen::Listeners;
use remembered::Remembered;

/// The field of the state that holds the conversation.
pub(crate) const MESSAGES: &str = "messages";

/// A graph that holds conversations. Cloning is cheap; clones share everything.
///
/// A future of [`send`](Self::send) that is dropped leaves its turn to whoever comes next: the turn is
/// recovered when the lease ends.
#[derive(Clone)]
pub struct ChatHarness {
    inner: Arc<Inner>,
}

struct Inner {
    graph: CompiledGraph,
    store: SharedStore,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    owner: String,
    classifier: Box<dyn Classifier>,
    replies: Box<dyn Replies>,
    payload_check: Option<Box<PayloadCheck>>,
    kept_failures: Option<Box<KeptFailures>>,
    expiry: Option<Box<Expiry>>,
    limits: ChatLimits,
    migrations: Migrations,
    remembered: Remembered,
    listeners: Listeners,
    /// One lock for each session that a task of this process works on.
    locks: Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>,
    /// Told of each commit and of each wish to cancel, so that nobody of this process polls for it.
    changed: tokio::sync::Notify,
}

/// Whether what a turn did becomes history that failed with a category.
type KeptFailures = dyn Fn(&str) -> bool + Send + Sync;

/// Says what is wrong with a payload for what a turn waits for.
type PayloadCheck =
    dyn Fn(&SignalDescriptor, &Map<String, Value>) -> Result<(), String> + Send + Sync;

/// What a turn is told instead of a signal that comes too late.
type Expiry = dyn Fn(&Suspension, Timestamp) -> Option<Map<String, Value>> + Send + Sync;

/// Why a graph cannot hold conversations.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChatGraphError {
    /// The state has no field `messages`.
    #[error("a chat's state declares `messages: list[ChatMessage]`; this one has no such field")]
    NoMessages,
    /// The field is no list.
    #[error("a chat's field `messages` is a list; this one is {0}")]
    NoList(FieldType),
    /// The field's reducer is another one.
    #[error("a chat's field `messages` has the reducer `append`; this one has `{0}`")]
    NotAppended(Reducer),
}

impl ChatHarness {
    /// A chat over a graph and a store. Ids must differ in all processes that share the store.
    ///
    /// # Errors
    /// The graph's state has no appended list `messages`.
    pub fn new(
        graph: CompiledGraph,
        store: SharedStore,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdSource>,
    ) -> Result<Self, ChatGraphError> {
        let field = graph.schema().field(MESSAGES);
        let field = field.ok_or(ChatGraphError::NoMessages)?;
        if !matches!(field.field_type(), FieldType::List(_)) {
            return Err(ChatGraphError::NoList(field.field_type().clone()));
        }
        if *field.reducer() != Reducer::Append {
            return Err(ChatGraphError::NotAppended(field.reducer().clone()));
        }
        let limits = ChatLimits::default();
        let inner = Inner {
            graph,
            store,
            clock,
            owner: ids.new_id(),
            ids,
            classifier: Box::new(DefaultClassifier),
            replies: Box::new(DefaultReplies),
            payload_check: None,
            kept_failures: None,
            expiry: None,
            remembered: Remembered::new(limits.cached_sessions),
            limits,
            migrations: Migrations::new(),
            listeners: Listeners::default(),
            locks: Mutex::default(),
            changed: tokio::sync::Notify::new(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Sorts errors by another rule. Only before the harness is shared.
    #[must_use]
    pub fn with_classifier(mut self, classifier: impl Classifier + 'static) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.classifier = Box::new(classifier);
        }
        self
    }

    /// Uses other words for users. Only before the harness is shared.
    #[must_use]
    pub fn with_replies(mut self, replies: impl Replies + 'static) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.replies = Box::new(replies);
        }
        self
    }

    /// Checks the payload of each signal besides what the schema says of its fields, before anything
    /// is consumed. Only before the harness is shared.
    #[must_use]
    pub fn with_payload_check(
        mut self,
        check: impl Fn(&SignalDescriptor, &Map<String, Value>) -> Result<(), String>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.payload_check = Some(Box::new(check));
        }
        self
    }

    /// Names the categories of failures after which what a turn had done by then becomes history, as
    /// it does after a cancelled turn: its effects are real, and it only came to a limit. After any
    /// other failure the history is as it was before the turn. Only before the harness is shared.
    #[must_use]
    pub fn with_kept_failures(
        mut self,
        is_kept: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.kept_failures = Some(Box::new(is_kept));
        }
        self
    }

    /// Lets turns wait for a limited time: `expiry` gives the payload that a turn goes on with whose
    /// time is over, whatever its signal says, and nothing for one that may still wait. Only before the
    /// harness is shared.
    #[must_use]
    pub fn with_expiry(
        mut self,
        expiry: impl Fn(&Suspension, Timestamp) -> Option<Map<String, Value>> + Send + Sync + 'static,
    ) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.expiry = Some(Box::new(expiry));
        }
        self
    }

    /// Uses other limits. Only before the harness is shared.
    #[must_use]
    pub fn with_limits(mut self, limits: ChatLimits) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.remembered = Remembered::new(limits.cached_sessions);
            inner.limits = limits;
        }
        self
    }

    /// Knows how to bring stored fields to the version of the graph's schema. The conversation itself
    /// has one form in all versions and is not migrated. Only before the harness is shared.
    #[must_use]
    pub fn with_migrations(mut self, migrations: Migrations) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.migrations = migrations;
        }
        self
    }

    /// The store.
    pub fn store(&self) -> &SharedStore {
        &self.inner.store
    }

    /// The graph.
    pub fn graph(&self) -> &CompiledGraph {
        &self.inner.graph
    }
}

impl Inner {
    /// The lock of a session in this process. Its waiters are served in the order in which they came.
    fn lock_of(&self, session: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = locks.get(session).and_then(Weak::upgrade) {
            return lock;
        }
        // Sessions that nobody works on any more would fill the map.
        if locks.len() > 2 * self.limits.cached_sessions {
            locks.retain(|_, lock| lock.strong_count() > 0);
        }
        let lock = Arc::new(tokio::sync::Mutex::new(()));
        locks.insert(session.to_owned(), Arc::downgrade(&lock));
        lock
    }

    fn errored(&self, failure: failure::Failure, invocation_id: Option<String>) -> ChatTurnOutcome {
        failure.outcome(&*self.classifier, &*self.replies, invocation_id)
    }
}

impl fmt::Debug for ChatHarness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatHarness")
            .field("graph", &self.inner.graph)
            .field("owner", &self.inner.owner)
            .finish_non_exhaustive()
    }
}
